"""The compact bases of a part, kept in the user's cache beside its index: opened, or built where there are none.

They are keyed by the content of the trace and do not depend on the twin. What is damaged or of another version is
built anew.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tsviz.replay.reexecution.index import cache_directory, index_draft
from tsviz.replay.rows.lifetimes import Longs, column
from tsviz.trace import layout
from tsviz.trace.cold import ColdTables
from tsviz.trace.columns import TEXT, Table
from tsviz.trace.errors import TraceError
from tsviz.trace.grouped import grouped
from tsviz.trace.groups import Groups
from tsviz.trace.reader import Part

from . import bases_tables as t
from .bases_build import Progress, build_bases

VERSION = 5
"""Of what stands in bases; another number makes all of them be built anew."""


class Bases:
    """The compact bases of one part."""

    def __init__(self, directory: Path) -> None:
        """Open bases. Raises `TraceError` when they are damaged."""
        self._store = ColdTables(directory)
        self.batches, self.landings = self._grouped(t.BATCHES), self._grouped(t.LANDINGS)
        self.held = self._grouped(t.HELD)
        self.request_tables = self._grouped(t.REQUEST_TABLES)
        self.batch_starts, self.landing_starts = self._starts(t.BATCH_STARTS), self._starts(t.LANDING_STARTS)
        self.row_spans, self.result_spans = self._columns(t.ROW_SPANS), self._columns(t.RESULT_SPANS)
        self.fates, self.table_starts = self._columns(t.FATES), self._columns(t.TABLE_STARTS)
        self.absences, self.acknowledged = self._columns(t.ABSENCES), self._columns(t.ACKNOWLEDGED)
        self.replayed: Longs = self._columns(t.REPLAYED)["round"]

    def _grouped(self, table: Table) -> Groups:
        return grouped(self._store, table, [c.name for c in table.columns], key=table.key)

    def _starts(self, table: Table) -> tuple[Longs, Longs]:
        found = self._columns(table)
        return found["round"], found["row"]

    def _columns(self, table: Table) -> dict[str, Any]:
        """Return a table whole as columns: words as strings, numbers as int64, -1 for null."""
        batches = list(self._store.batches(table))
        found = pa.Table.from_batches(batches, table.schema).unify_dictionaries().combine_chunks()
        columns: dict[str, Any] = {}
        for each in table.columns:
            if each.type == TEXT:
                values = found[each.name].combine_chunks() if found.num_rows else None
                words = np.array([] if values is None else values.dictionary.to_pylist(), dtype=object)
                columns[each.name] = words if values is None else words[values.indices.to_numpy()]
            else:
                columns[each.name] = column(found, each.name).astype(np.int64)
        return columns


def bases_directory(part: Part) -> Path:
    """Return where the bases of a part lie in the cache, if they are there."""
    hasher = hashlib.blake2b(digest_size=16)
    hasher.update(f"bases {VERSION}/{layout.schema_version()}".encode())
    for relative in (layout.PART_FILE, f"{layout.COLD}/{layout.MANIFEST_FILE}"):
        hasher.update((part.directory / relative).read_bytes())
    return cache_directory() / f"bases-{hasher.hexdigest()}"


def open_bases(part: Part) -> Bases | None:
    """Return the bases of a part with cold tables, if sound ones are in the cache."""
    directory = bases_directory(part)
    if not directory.is_dir():
        return None
    try:
        return Bases(directory)
    except TraceError:
        shutil.rmtree(directory, ignore_errors=True)
        return None


def make_bases(part: Part, progress: Progress | None = None, *, anew: bool = False) -> Bases:
    """Return the bases of a part with cold tables, building them if there are none. Raises `TraceError`, OSError.

    `anew`: build them although there are some, which turned out to be damaged.
    """
    existing = None if anew else open_bases(part)
    if existing is not None:
        return existing
    store = part.cold
    if store is None:
        raise ValueError(f"{part.directory}: bases are made of cold tables, found hot ones")
    with index_draft() as directory:  # the process that builds is ended as it stands when nobody waits any more
        build_bases(part, store, directory, progress)
        target = bases_directory(part)
        shutil.rmtree(target, ignore_errors=True)
        directory.replace(target)
    return Bases(target)
