"""Hot tables of a recording that is being written, by batch: where each lies is kept, what it holds is not.

`GrowingTables` reads on; what it has read up to one commit is a `GrownTables`, which says the same whatever is
committed later. Batches are decoded again when they are asked for, several small ones together, by way of the file that
was opened first: also when the recording was closed and its hot tables were removed (architecture.md, section 5).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from .catalogue import TABLES
from .columns import Table
from .commit_log import CommitLog
from .groups import Groups
from .grown_table import Extent, GrowingTable, GrownGroups, NoGroups
from .hot import HotTables

LOT_ROWS = 1 << 17
"""So many rows of all tables are read at once, if a single commit has no more."""


class GrowingTables(CommitLog):
    """The hot tables of one part directory's `hot`, read on and on. Not for two threads at once."""

    def __init__(self, directory: Path, told: Mapping[str, Sequence[str]]) -> None:
        """Read nothing yet. `told`: per table the columns of which `read_on` tells."""
        super().__init__(directory)
        self._directory, self._told = directory, told
        self._read: dict[str, Any] = {}
        self._tables: dict[str, GrowingTable] = {}

    def read_on(self) -> dict[str, list[pa.RecordBatch]] | None:
        """Read what was committed next, of a long recording not all of it; None when everything is read.

        Returned are the new rows of the tables that are told: the columns that are told, keys and words. Raises
        `Damaged`.
        """
        record = self.taken(LOT_ROWS)
        if record is None:
            return None
        found: dict[str, list[pa.RecordBatch]] = {}
        for name, (length, crc, rows) in record["tables"].items():
            if name not in TABLES:
                continue
            if name not in self._tables:
                self._tables[name] = GrowingTable(self._directory, TABLES[name], self._told.get(name, ()))
            new = self._tables[name].read_to(length, crc, rows)
            if name in self._told:
                found[name] = new
        self._read = record
        return found

    @property
    def read_round(self) -> int:
        """The last round that was read."""
        return int(self._read.get("last_round", 0))

    def frozen(self) -> GrownTables:
        """Return everything that was read."""
        return GrownTables(self._read, {name: table.extent() for name, table in self._tables.items()})


class GrownTables(HotTables):
    """The hot tables as they were at one commit. For any thread."""

    def __init__(self, record: dict[str, Any], extents: Mapping[str, Extent]) -> None:
        self._at(record)
        self._extents = extents

    def groups(self, table: Table) -> Groups:
        """Return some columns of a table, which `table` has alone, its key among them."""
        extent = self._extents.get(table.name)
        return NoGroups(table) if extent is None else GrownGroups(extent, table)

    def batches(self, table: Table, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
        """Yield a table group by group, validated; of `columns` only, if given. Raises `Damaged`."""
        extent = self._extents.get(table.name)
        if extent is None:
            return
        if columns is not None:
            table = Table(table.name, table.doc, tuple(c for c in table.columns if c.name in columns), key=table.key)
        for first, behind in extent.pieces():
            yield extent.table.decoded(first, behind, table)
