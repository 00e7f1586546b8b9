"""docs/sql.md and the listing come from the definitions."""

from __future__ import annotations

from pathlib import Path

from tsviz.query.reference import described, markdown
from tsviz.query.views import SHIPPED
from tsviz.trace.catalogue import TABLES

DOCS = Path(__file__).parents[2] / "docs" / "sql.md"


def test_the_reference_is_up_to_date() -> None:
    """docs/sql.md is what `python -m tsviz.query.reference` writes."""
    assert DOCS.read_text(encoding="utf-8") == markdown()


def test_every_relation_is_described() -> None:
    """The parts, all recorded tables and all shipped relations are described, each column with a type and a line."""
    names = [d.name for d in described()]
    assert names == ["parts", "groups", *TABLES, *(r.name for r in SHIPPED)]
    for relation in described():
        assert relation.doc
        assert all(name and sql and doc for name, sql, doc in relation.columns), relation.name
