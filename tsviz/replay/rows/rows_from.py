"""Rows of a table as they are needed: of a small table from memory, of a large one a row group at a time.

What is held of a large table is bounded by what is asked for, not by the trace (architecture.md, section 6). Tables are
those of a part, of an index, or of a run in memory, which has none that is large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tsviz.trace.catalogue import TABLES
from tsviz.trace.grouped import Large, grouped
from tsviz.trace.groups import position

_CHUNK_ROWS = 1 << 16
_FIRST_ROWS = 1 << 12
"""Often a few rows are wanted only: a small first batch, as a batch is taken apart as a whole."""


class HasTables(Protocol):
    """What has tables by name."""

    def table(self, name: str) -> pa.Table:
        """Return a table whole."""
        ...


def large(tables: HasTables, name: str) -> Large | None:
    """Return where a table that is too large to be kept whole is read by group."""
    found: Large | None = tables.large(name) if hasattr(tables, "large") else None
    return found


def some(tables: HasTables, name: str, names: Sequence[str]) -> pa.Table:
    """Return some columns of a table whole; of a large one nothing else is read. Raises `TraceError`."""
    store = large(tables, name)
    if store is None:
        return tables.table(name).select(list(names))
    batches = list(store.batches(TABLES[name], names))
    return pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().select(list(names))


def pieces(
    tables: HasTables, name: str, names: Sequence[str], first: int | None = None, last: int | None = None
) -> Iterator[pa.Table]:
    """Yield some columns of a table in order of rounds, whole rounds at a time, from round `first` to `last`.

    A small table comes in one piece, or in none where it has no rows. Raises `TraceError`.
    """
    rows = RowsFrom(tables, name, [*names, *({"round"} - set(names))], key="round")
    held: list[pa.RecordBatch] = []
    for batch in rows.pieces(first):
        rounds = batch["round"].to_numpy()
        if last is not None and rounds[-1] > last:
            batch = batch.slice(0, int(np.searchsorted(rounds, last, side="right")))
            yield from _joined([*held, batch])
            return
        cut = int(np.searchsorted(rounds, rounds[-1]))
        if cut:
            yield from _joined([*held, batch.slice(0, cut)])
            held = []
        held.append(batch.slice(cut))
    yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.Table]:
    some_ = [batch for batch in batches if batch.num_rows]
    if some_:
        yield pa.Table.from_batches(some_).unify_dictionaries().combine_chunks()


class RowsFrom:
    """Some columns of a table, whose rows are in order of an integer column, the key."""

    def __init__(self, tables: HasTables, name: str, names: Sequence[str], key: str) -> None:
        """`key` must be among `names`. Raises `TraceError`."""
        self._names = list(names)
        store = large(tables, name)
        self._grouped = None if store is None else grouped(store, TABLES[name], names, key=key)
        self._whole: Any = None if store is not None else tables.table(name).select(self._names)
        self._keys: Any = None if self._whole is None else self._whole[key].to_numpy()

    def since(self, least: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose key is `least` or more (None: all). Raises `TraceError`, also on the way."""
        for rows in self.pieces(least):
            start = 0
            while start < rows.num_rows:
                size = _CHUNK_ROWS if start or least is None else _FIRST_ROWS
                yield rows.slice(start, size)
                start += size

    def between(self, first: int, last: int) -> pa.Table:
        """Return the rows whose key lies from `first` to `last`. Raises `TraceError`."""
        if self._grouped is not None:
            return self._grouped.between(first, last).select(self._names)
        low, high = position(self._keys, first), position(self._keys, last + 1)
        return self._whole.slice(low, high - low)

    def pieces(self, least: int | None) -> Iterator[pa.RecordBatch]:
        """Yield what `since` does as it lies in memory or in row groups. Raises `TraceError`, also on the way."""
        if self._grouped is not None:
            low = 0 if least is None else self._grouped.at_least(least)
            for batch in self._grouped.since(low):
                yield batch.select(self._names)
        else:
            low = 0 if least is None else position(self._keys, least)
            yield from (batch for batch in self._whole.slice(low).to_batches() if batch.num_rows)
