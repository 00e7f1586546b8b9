"""How a table is defined: a frozen dataclass whose fields carry an Arrow type and a line of documentation.

One definition makes the Arrow schema, the recorder's columns, the catalog and the reference
(architecture.md, section 5).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

TEXT = pa.dictionary(pa.int32(), pa.string())
"""A string that repeats: request ids, groups, kinds."""
INTS = pa.list_(pa.int32())


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name (with the unit in it), Arrow type and what it says."""

    name: str
    type: pa.DataType
    doc: str
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a bundle: its name, what a row is, and its columns. `key` orders its rows."""

    name: str
    doc: str
    columns: tuple[Column, ...]
    since: tuple[int, int] = (1, 0)
    key: str = "round"

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the table as it is written."""
        return pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in self.columns])

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(c.name for c in self.columns)


def i32(name: str, doc: str, *, nullable: bool = False) -> Column:
    """A signed 32-bit column."""
    return Column(name, pa.int32(), doc, nullable)


def i64(name: str, doc: str, *, nullable: bool = False) -> Column:
    """A signed 64-bit column."""
    return Column(name, pa.int64(), doc, nullable)


def u64(name: str, doc: str, *, nullable: bool = False) -> Column:
    """An unsigned 64-bit column (digests)."""
    return Column(name, pa.uint64(), doc, nullable)


def flag(name: str, doc: str, *, nullable: bool = False) -> Column:
    """A yes/no column."""
    return Column(name, pa.bool_(), doc, nullable)


def f64(name: str, doc: str, *, nullable: bool = False) -> Column:
    """A 64-bit floating-point column."""
    return Column(name, pa.float64(), doc, nullable)


def word(name: str, doc: str, *, nullable: bool = False) -> Column:
    """A string from a small set, dictionary-encoded."""
    return Column(name, TEXT, doc, nullable)


def string(name: str, doc: str, *, nullable: bool = False) -> Column:
    """A free string."""
    return Column(name, pa.string(), doc, nullable)


def binary(name: str, doc: str, *, nullable: bool = False) -> Column:
    """Bytes that only their reader understands."""
    return Column(name, pa.binary(), doc, nullable)


def ints(name: str, doc: str, *, nullable: bool = False) -> Column:
    """A list of signed 32-bit numbers."""
    return Column(name, INTS, doc, nullable)


def by_name(tables: Iterable[Table]) -> dict[str, Table]:
    """Index tables by their name."""
    return {t.name: t for t in tables}
