"""What a query is written with: relations and their columns, functions, keywords, each with a line of documentation.

Relations come from the reference, functions and keywords from the engine's catalog (library-notes.md, *Completion*).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from .catalog import Catalog
from .locked import Limits, Locked
from .reference import Described, described

_SIMPLE = re.compile(r"[a-z_][a-z0-9_]*")
_QUERY_WORDS = (
    "from", "select", "where", "group", "order", "by", "limit", "join", "on", "and", "or", "not", "is", "null", "in",
    "like", "between", "as", "distinct", "having", "with", "using", "left", "desc", "asc", "case", "when", "then",
    "else", "end", "exists", "union", "all", "any", "over", "partition", "filter", "qualify", "window", "rows",
    "range", "semi", "anti", "asof", "cross", "lateral", "unnest", "values", "cast", "ilike", "similar", "full",
    "inner", "outer", "right", "natural", "positional", "nulls", "first", "last", "interval", "into", "except",
    "exclude", "intersect", "replace", "recursive", "respect", "ignore", "within", "unbounded", "preceding",
    "following", "row", "offset", "pivot", "unpivot", "tablesample", "table", "describe", "summarize", "explain",
    "true", "false",
)  # fmt: skip
"""The words of a query, the most used ones first."""
_FUNCTIONS_SQL = """
SELECT function_name AS name, any_value(parameters ORDER BY len(parameters) DESC) AS parameters,
  CASE WHEN count(DISTINCT return_type) = 1 THEN any_value(return_type) END AS type, any_value(description) AS doc
FROM duckdb_functions()
WHERE function_type IN ('scalar', 'aggregate', 'window', 'macro') AND schema_name <> 'pg_catalog'
  AND regexp_full_match(function_name, '[a-z][a-z0-9_]*')
GROUP BY name ORDER BY name"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that can stand there."""

    kind: str
    """table, view, macro, query (a name given by WITH), column, function or keyword."""
    name: str
    insert: str
    """What is put in the place of what was typed: quoted where SQL needs it, `(` behind what takes arguments."""
    type: str
    """SQL type of a column or function; empty for others."""
    doc: str
    """A line that says what it is; empty for keywords."""
    parameters: tuple[str, ...] | None = None
    """What a macro or function takes; None for what takes nothing."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All there is to complete with."""

    relations: Mapping[str, Entry]
    columns: Mapping[str, tuple[Entry, ...]]
    """The columns of each relation, in order."""
    functions: tuple[Entry, ...]
    keywords: tuple[str, ...]
    """Words of a query, lower case, the most used ones first."""


@cache
def vocabulary() -> Vocabulary:
    """Return tables, views and macros with their columns, functions and keywords. The first call takes some 0.3 s."""
    locked = Locked(Catalog([]), Limits(rows=None))
    try:
        functions = locked.query(_FUNCTIONS_SQL)[0].to_pylist()
        known = locked.query("SELECT keyword_name AS name, keyword_category AS category FROM duckdb_keywords()")[0]
    finally:
        locked.close()
    categories = {row["name"]: row["category"] for row in known.to_pylist()}
    quoted = frozenset(name for name, category in categories.items() if category != "unreserved")
    relations = described()
    return Vocabulary(
        {relation.name: _relation(relation) for relation in relations},
        {r.name: tuple(_column(name, kind, doc, quoted) for name, kind, doc in r.columns) for r in relations},
        tuple(
            Entry("function", row["name"], f"{row['name']}(", row["type"] or "", _line(row["doc"]),
                  tuple(row["parameters"] or ()))
            for row in functions
        ),
        tuple(word for word in _QUERY_WORDS if word in categories),
    )  # fmt: skip


def _relation(relation: Described) -> Entry:
    if relation.kind != "macro":
        return Entry(relation.kind, relation.name, relation.name, "", relation.doc)
    inside = relation.signature.partition("(")[2].removesuffix(")")
    taken = tuple(name.strip() for name in inside.split(","))
    return Entry("macro", relation.name, f"{relation.name}(", "", relation.doc, taken)


def _column(name: str, kind: str, doc: str, quoted: frozenset[str]) -> Entry:
    insert = f'"{name}"' if name in quoted or _SIMPLE.fullmatch(name) is None else name
    return Entry("column", name, insert, kind, doc)


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
