"""The catalog: bundles as relations of DuckDB (architecture.md, sections 3 and 5).

Every recorded table becomes one relation with `trace, node, rank` in front, the union of all parts, hot ones in
memory and finished ones over Parquet alike. The three are constants of a part, so that a filter on them skips parts,
and filters and projections on the rest reach the Parquet row groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from tsviz.trace.catalogue import TABLES
from tsviz.trace.columns import Table

from .lookups import lookups
from .parts import GROUPS, PARTS, Place, groups_table, parts_table, readable
from .source import Bundle, Part

PLACE = ("trace", "node", "rank")
"""The columns in front of every relation: which part of which trace."""
STATED = (PARTS, GROUPS)
"""The relations that are made of what a part says of itself."""
_TINY_ROWS = 16_384
_FEW_CHUNKS = 16


_PARTS_SQL = f"""
SELECT {", ".join(PLACE)}, {", ".join(c.name for c in PARTS.columns)}
FROM (FROM _parts SELECT * EXCLUDE (last_round, decided_round), decided_round AS derived_round)
LEFT JOIN (SELECT trace, node, rank, max(round) AS last_round FROM rounds GROUP BY ALL) USING ({", ".join(PLACE)}),
LATERAL (SELECT CASE decisions WHEN 'recorded' THEN last_round ELSE derived_round END AS decided_round)"""
"""How far recorded decisions reach is asked of the rounds when `parts` is, not when a trace is opened."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Rows of one table of one part."""

    place: Place
    data: object
    names: frozenset[str]


class Catalog:
    """The relations over one or several bundles.

    Names of traces are made distinct by `~2`, `~3`, ... in the order given. Relations are registered by connection:
    call `install` for every connection or cursor (library-notes.md: `register` is a view of that connection), and for
    `rounds` before `parts`.
    """

    def __init__(self, bundles: Sequence[Bundle]) -> None:
        self._parts: list[tuple[Place, Part, dict[str, Any]]] = [
            ((name, readable(part.node), part.rank), part, dict(part.tables()))
            for name, bundle in zip(distinct([readable(b.name) for b in bundles]), bundles, strict=True)
            for part in bundle.parts
        ]
        self._sources = {table.name: self._sources_of(table) for table in TABLES.values()}

    def _sources_of(self, table: Table) -> list[_Source]:
        found = []
        for place, _, tables in self._parts:
            data = tables.get(table.name)
            if data is None or (isinstance(data, pa.Table) and data.num_rows == 0):
                continue
            names = frozenset(data.schema.names)
            found.append(_Source(place, _consolidated(data) if isinstance(data, pa.Table) else lookups(data), names))
        return found

    def install(self, connection: Any, name: str) -> None:
        """Register the data of a relation and create it as a temporary view of this connection."""
        execute, register = connection.execute, connection.register
        if name == PARTS.name:
            register("_parts", parts_table(self._parts))
            execute("CREATE TEMP VIEW parts AS " + _PARTS_SQL)
            return
        if name == GROUPS.name:
            register("_groups", groups_table(self._parts))
            execute("CREATE TEMP VIEW groups AS FROM _groups")
            return
        table = TABLES[name]
        sources = self._sources[name]
        if not sources:
            sources = [_Source(("", "", 0), table.schema.empty_table(), frozenset(table.names))]
        for number, source in enumerate(sources):
            register(f"_{name}_{number}", source.data)
        selects = [_select(table, source, f"_{name}_{n}") for n, source in enumerate(sources)]
        for number, source in enumerate(sources):
            if isinstance(source.data, ds.Dataset):
                register(f"_{name}_size_{number}", _weight(source.data))
                selects.append(_nothing(table, source.place, f"_{name}_size_{number}"))
        execute(f'CREATE TEMP VIEW "{name}" AS ' + " UNION ALL ".join(selects))


def distinct(names: Sequence[str]) -> list[str]:
    """Return the names with `~2`, `~3`, ... behind those that were there before."""
    seen: set[str] = set()
    result = []
    for name in names:
        candidate, number = name, 1
        while candidate in seen:
            number += 1
            candidate = f"{name}~{number}"
        seen.add(candidate)
        result.append(candidate)
    return result


def literal(text: str) -> str:
    """Return the text as an SQL string literal; NUL, which SQL cannot hold, becomes its picture.

    Bytes of a file name that the locale could not read are read as UTF-8, and what is no text becomes U+FFFD.
    """
    return "'" + readable(text).replace("\0", "␀").replace("'", "''") + "'"


def sql_type(kind: pa.DataType) -> str:
    """Return the SQL type in which an Arrow type of a recorded table comes out; a dictionary as its values."""
    if pa.types.is_dictionary(kind):
        return sql_type(kind.value_type)
    if pa.types.is_list(kind):
        return sql_type(kind.value_type) + "[]"
    return _SQL_TYPES[kind]


_SQL_TYPES = {
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.uint64(): "UBIGINT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.string(): "VARCHAR",
    pa.binary(): "BLOB",
}


def _constants(place: Place) -> list[str]:
    """Return the columns in front of a part's rows, as SQL."""
    trace, node, rank = place
    return [f"{literal(trace)} AS trace", f"{literal(node)} AS node", f"{rank:d}::INTEGER AS rank"]


def _select(table: Table, source: _Source, relation: str) -> str:
    columns = _constants(source.place)
    for column in table.columns:
        present = column.name in source.names
        columns.append(f'"{column.name}"' if present else f'NULL::{sql_type(column.type)} AS "{column.name}"')
    return f'SELECT {", ".join(columns)} FROM "{relation}"'


def _weight(data: ds.Dataset) -> pa.Table:
    """Return a table of nulls that says how large a dataset is.

    DuckDB asks an Arrow table for its rows but takes a dataset for one of a single row, and would hold the largest
    table of a join in memory. Nulls take no memory, and none of them passes the filter of `_nothing`.
    """
    return pa.table({"none": pa.nulls(data.count_rows() // 2)})


def _nothing(table: Table, place: Place, relation: str) -> str:
    """Return the SQL of no rows of a table, of which the optimizer believes that they are many.

    Where rounds are asked for they are few: a constant null is no round, so that this goes and costs nothing.
    """
    columns = _constants(place)
    for column in table.columns:
        columns.append(f"{'NULL' if column.name == 'round' else 'none'}::{sql_type(column.type)}")
    return f'SELECT {", ".join(columns)} FROM "{relation}" WHERE none IS NOT NULL'


def _consolidated(table: pa.Table) -> pa.Table:
    """Join the chunks of a table that came in many small ones: each costs DuckDB as much as a large one."""
    chunks = table.column(0).num_chunks
    if chunks <= max(_FEW_CHUNKS, table.num_rows // _TINY_ROWS):
        return table
    return table.unify_dictionaries().combine_chunks()
