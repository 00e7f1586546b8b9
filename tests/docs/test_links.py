"""The documents: what they link to is there, and none was left in the middle of a merge."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.tour import ROOT

DOCUMENTS = (ROOT / "README.md", ROOT / "traces" / "README.md", *sorted((ROOT / "docs").glob("*.md")))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path: Path) -> None:
    """Every relative link and picture is a file of the repository."""
    text = re.sub(r"^```.*?^```$", "", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if "://" not in link and not (path.parent / link).exists()] == []


def test_no_document_keeps_a_conflict() -> None:
    """No line is a mark of a merge."""
    marks = re.compile(r"^(<{7} |={7}$|>{7} )", re.MULTILINE)
    assert [path.name for path in DOCUMENTS if marks.search(path.read_text("utf-8"))] == []
