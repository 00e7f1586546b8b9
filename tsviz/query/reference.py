"""Every relation of the catalog with its columns: what `tsviz sql --tables` lists, and docs/sql.md.

`python -m tsviz.query.reference > docs/sql.md` writes the reference anew; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tsviz.query.shipped.definition import Relation
from tsviz.trace.catalogue import TABLES
from tsviz.trace.decided import DECIDED
from tsviz.trace.tables import SCHEMA_MAJOR, SCHEMA_MINOR

from .catalog import STATED, Catalog, sql_type
from .locked import Locked
from .views import SHIPPED

_PLACE = (
    ("trace", "VARCHAR", "name of the trace"),
    ("node", "VARCHAR", "node of the part"),
    ("rank", "INTEGER", "rank of the part on its node"),
)


@dataclass(frozen=True, slots=True)
class Described:
    """A relation: kind (table, view or macro), how it is named in FROM, and columns as (name, SQL type, doc)."""

    kind: str
    name: str
    signature: str
    doc: str
    columns: tuple[tuple[str, str, str], ...]
    example: str


@cache
def described() -> tuple[Described, ...]:
    """Return all relations: the parts and groups, the recorded and decided tables, the shipped views and macros."""
    recorded = (
        Described("table", t.name, t.name, t.doc, _PLACE + tuple((c.name, sql_type(c.type), c.doc) for c in t.columns),
                  f"FROM {t.name} LIMIT 10")
        for t in (*STATED, *TABLES.values())
    )  # fmt: skip
    locked = Locked(Catalog([]))
    try:
        return (*recorded, *(_describe(locked, relation) for relation in SHIPPED))
    finally:
        locked.close()


def _describe(locked: Locked, relation: Relation) -> Described:
    """Ask the engine for the types of a shipped relation; required arguments are NULL."""
    call = relation.name
    if relation.parameters is not None:
        call += f"({', '.join('NULL' for p in relation.parameters if ':=' not in p)})"
    rows = locked.query(f"DESCRIBE FROM {call}")[0].to_pylist()
    docs = {name: doc for name, _, doc in _PLACE} | dict(relation.columns)
    return Described(
        "view" if relation.parameters is None else "macro",
        relation.name,
        relation.signature,
        relation.doc,
        tuple((row["column_name"], row["column_type"], docs[row["column_name"]]) for row in rows),
        relation.example,
    )


_INTRODUCTION = """# SQL reference

Generated from the definitions in code by `python -m tsviz.query.reference`; do not edit.

`tsviz sql TRACE... "QUERY"` asks one query over one or several traces (schema {major}.{minor}): bundles, folders of
bundles, or patterns such as `"runs/*"`. docs/cookbook.md answers questions with it.

The dialect is that of DuckDB 2; lambdas are written `lambda x: x + 1`. `FROM name` alone is a query. Every relation
starts with the columns `trace`, `node` and `rank`, constants of a part, left out of the lists below; join parts on all
three. A request is told by `submission` (an id may be used again). `group` and `row` are words of SQL: write `"group"`,
`"row"`.

Decided tables, and the views that say why, have rows where decisions are known: recorded by the twin, or derived from a
recording of another scheduler by `tsviz index` and verified round by round. `FROM parts` says which, and up to which
round.

Queries read and nothing else: no statement that writes, attaches, installs, loads or sets, no files, one query at a
time, in a process with limits on time (`--timeout`) and memory (`--memory`). Results are capped (`--limit`; 0 is all).
"""


def _headings() -> dict[str, list[Described]]:
    """Return the relations by the heading under which they stand."""
    headings: dict[str, list[Described]] = {
        heading: [] for heading in ("Parts and groups", "Recorded tables", "Decided tables", "Views", "Macros")
    }
    for relation in described():
        if relation.kind != "table":
            headings["Views" if relation.kind == "view" else "Macros"].append(relation)
        elif relation.name in DECIDED:
            headings["Decided tables"].append(relation)
        else:
            headings["Recorded tables" if relation.name in TABLES else "Parts and groups"].append(relation)
    return headings


def markdown() -> str:
    """Return docs/sql.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION.format(major=SCHEMA_MAJOR, minor=SCHEMA_MINOR)
    for heading, relations in _headings().items():
        yield f"## {heading}\n"
        for relation in relations:
            yield f"### `{relation.signature}`\n\n{_sentence(relation.doc)}\n"
            yield f"```sql\n{relation.example}\n```\n"
            own = [c for c in relation.columns if c[0] not in ("trace", "node", "rank")]
            if own:
                yield "| column | type | says |\n|---|---|---|"
                yield from (f"| `{name}` | {sql} | {doc} |" for name, sql, doc in own)
                yield ""


def _sentence(doc: str) -> str:
    return doc[0].upper() + doc[1:] + "."


if __name__ == "__main__":
    print(markdown(), end="")
