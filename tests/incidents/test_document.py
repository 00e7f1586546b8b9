"""`docs/incidents.md` against the scenarios."""

from __future__ import annotations

import re
from pathlib import Path

from tests.incidents.scene import DOCUMENT, queries

TESTS = Path(__file__).parent


def test_every_query_of_the_document_is_asked() -> None:
    """Each incident of the first table has a query, and each query is answered on the recording of its scenario."""
    asked = {
        name
        for path in TESTS.glob("test_*.py")
        for name in re.findall(r'answers\(\s*"(I\d\d)"', path.read_text("utf-8"))
    }
    table = DOCUMENT.read_text("utf-8").split("\n## ")[1]
    assert asked == set(queries()) == set(re.findall(r"^\| (I\d\d) ", table, re.MULTILINE))


def test_the_tests_that_the_document_names_exist() -> None:
    """Each test module named in the document is there."""
    named = set(re.findall(r"`(test_\w+)`", DOCUMENT.read_text("utf-8")))
    assert named and all((TESTS / f"{name}.py").exists() for name in named)
