"""docs/cookbook.md: every query runs on its shipped trace and has the answer that stands there."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tsviz.cli.output import Format, Held, write
from tsviz.query.locked import Locked

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "cookbook.md"
_ENTRY = re.compile(
    r"^## (\d+)\. ([^\n]+)\n\n`tsviz sql ([^`\n]+)`\n\n```sql\n(.*?)\n```\n\n```csv\n(.*?)```\n",
    re.MULTILINE | re.DOTALL,
)


class Entry(NamedTuple):
    """One question of the document."""

    number: str
    question: str
    trace: str
    sql: str
    answer: str


TEXT = DOCUMENT.read_text(encoding="utf-8")
ENTRIES = [Entry(*found) for found in _ENTRY.findall(TEXT)]


def test_every_question_is_an_entry() -> None:
    """The document has at least 20 questions, numbered, and each has the parts that are tested."""
    assert [int(entry.number) for entry in ENTRIES] == list(range(1, TEXT.count("\n## ") + 1))
    assert len(ENTRIES) >= 20


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.number)
def test_the_answer_is_the_one_that_stands_there(entry: Entry, shipped: Callable[[str], Locked]) -> None:
    """The query of a question gives its answer, row by row."""
    table, _ = shipped(entry.trace).query(entry.sql)
    out = io.BytesIO()
    write(Held(table), Format.CSV, out)
    assert out.getvalue().decode() == entry.answer
