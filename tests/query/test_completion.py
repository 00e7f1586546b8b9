"""Completion: what can stand at a place in a query."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tsviz.query.catalog import Catalog
from tsviz.query.completion import complete
from tsviz.query.locked import Locked
from tsviz.query.reference import described
from tsviz.query.vocabulary import Entry, vocabulary


def at(text: str) -> tuple[str, list[Entry]]:
    """Complete at the bar in the text; return what is replaced and the entries."""
    cursor = text.index("|")
    text = text.replace("|", "", 1)
    found = complete(text, cursor)
    return text[found.first : found.first + found.length], list(found.entries)


@pytest.mark.parametrize(
    ("text", "replaced", "first"),
    [
        ("|", "", "FROM"),
        ("sel|", "sel", "select"),
        ("SEL|", "SEL", "SELECT"),
        ("FROM verd|", "verd", "verdicts"),
        ("FROM rounds JOIN pool_|", "pool_", "pool_timeline"),
        ("FROM rounds, req|", "req", "requests"),
        ("FROM wai|", "wai", "waiting("),
        ("SELECT cau| FROM verdicts", "cau", "cause"),
        ("SELECT cau|xyz FROM verdicts", "cau", "cause"),
        ("FROM verdicts v WHERE v.h|", "h", "holder"),
        ("FROM verdicts AS v WHERE v.|", "", "trace"),
        ("FROM block_table('r1', 3) b WHERE b.sl|", "sl", "slot"),
        ("pool.av|", "av", "available_blocks"),
        ("SELECT gr| FROM pool", "gr", '"group"'),
        ("SELECT pages| FROM rounds", "pages", "empty_pages"),
        ("WITH mine AS (FROM rounds) FROM mi|", "mi", "mine"),
        ("FROM rounds WHE|", "WHE", "WHERE"),
        ("FROM rounds -- all\n WHERE decode|", "decode", "decode_rows"),
        ("SELECT list_tr|", "list_tr", "list_transform("),
    ],
)
def test_what_comes_first(text: str, replaced: str, first: str) -> None:
    """At each place the likeliest thing comes first, quoted or with a bracket where SQL needs it."""
    found, entries = at(text)
    assert (found, entries[0].insert) == (replaced, first)


@pytest.mark.parametrize("text", ["SELECT 'ver|'", "SELECT 'ver|", "FROM rounds -- ver|", "SELECT 1 /* ver| */"])
def test_nothing_stands_in_strings_and_comments(text: str) -> None:
    """Inside a string or a comment there is nothing to complete."""
    assert at(text)[1] == []


def test_columns_of_the_tables_of_the_query_come_alone() -> None:
    """With tables named, columns of others are not offered: `pool` has nothing that begins with `cause`."""
    assert [e for e in at("SELECT cause| FROM pool")[1] if e.kind == "column"] == []


def test_entries_say_what_they_are() -> None:
    """A column has its type and its line; a macro its parameters."""
    (column,) = at("SELECT decided_r| FROM parts")[1]
    assert (column.kind, column.type) == ("column", "INTEGER")
    assert column.doc == "last round whose decisions are there; null without any"
    macro = vocabulary().relations["block_table"]
    assert (macro.kind, macro.parameters) == ("macro", ("request_id", "at_round"))


def test_every_relation_and_column_is_known() -> None:
    """The vocabulary holds the relations of the reference with all their columns, and each has a line."""
    known = vocabulary()
    for relation in described():
        assert known.relations[relation.name].doc == relation.doc
        assert [(c.name, c.type) for c in known.columns[relation.name]] == [(n, t) for n, t, _ in relation.columns]


def test_quoted_columns_can_be_asked() -> None:
    """Every column is taken by the engine as it is inserted."""
    locked = Locked(Catalog([]))
    for name, columns in vocabulary().columns.items():
        relation = vocabulary().relations[name]
        if relation.kind != "macro":
            locked.query(f"SELECT {', '.join(c.insert for c in columns)} FROM {name}")
    locked.close()


@given(st.text("SELECT FROM rounds.verdicts,()'\"--/*;\n v", max_size=60), st.integers(-2, 70))
@settings(max_examples=150, deadline=None)
def test_any_text_can_be_completed(text: str, cursor: int) -> None:
    """Whatever the text and the place, what is replaced ends at the place and lies in the text."""
    found = complete(text, cursor)
    assert 0 <= found.first <= found.first + found.length == max(0, min(cursor, len(text)))
