"""Following hot tables while they are written: what is new since the last look is read, nothing twice.

A `Tail` keeps what it has read; `committed()` is a frozen view of it at one commit, in all tables alike, so that a part
that was opened then says the same whatever is committed later (architecture.md, section 5, *On disk*). `grown.py`
follows without keeping.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from .catalogue import TABLES
from .columns import Table
from .commit_log import CommitLog
from .hot import HotTables
from .hot_file import HotFile


class Tail(CommitLog):
    """The hot tables of one part directory's `hot`, read on and on."""

    def __init__(self, directory: Path) -> None:
        """Read nothing yet."""
        super().__init__(directory)
        self._directory = directory
        self._files: dict[str, HotFile] = {}
        self._read: dict[str, list[pa.RecordBatch]] = {}

    def committed(self) -> HotTables:
        """Read what was committed and not read yet, and return all of it, frozen. Raises `Damaged`."""
        for name, (length, crc, rows) in self.record.get("tables", {}).items():
            if name in TABLES:
                if name not in self._files:
                    self._files[name] = HotFile(self._directory / f"{name}.arrows", TABLES[name])
                new = self._files[name].read_to(length, crc, rows)
                self._read.setdefault(name, []).extend(read.batch for read in new)
        return _Committed(self.record, {name: tuple(batches) for name, batches in self._read.items()})


class _Committed(HotTables):
    """The hot tables as they were at one commit, in memory."""

    def __init__(self, record: dict[str, Any], read: dict[str, tuple[pa.RecordBatch, ...]]) -> None:
        self._at(record)
        self._read = read

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the committed batches of a table; they were validated when they were read."""
        yield from self._read.get(table.name, ())
