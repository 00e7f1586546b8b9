"""Rows of one table from a place on: of a small table from memory, of a large one a row group at a time.

What is read of a large table is bounded by what is asked for, not by the trace (architecture.md, section 6).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tsviz.trace.catalogue import TABLES
from tsviz.trace.grouped import GroupedTable
from tsviz.trace.reader import Part

_CHUNK_ROWS = 1 << 16
_FIRST_ROWS = 1 << 12
"""Often a few rows are wanted only: a small first batch, as a batch is taken apart as a whole."""


class RowsFrom:
    """Some columns of a table of a part, whose rows are in order of an integer column, the key."""

    def __init__(self, part: Part, name: str, names: Sequence[str], key: str) -> None:
        """`key` must be among `names`. Raises `TraceError`."""
        self._names, self._key = list(names), key
        store = part.large(name)
        self._grouped = None if store is None else GroupedTable(store, TABLES[name], names, key=key)
        self._whole: Any = None if store is not None else part.table(name).select(self._names)

    def since(self, least: int | None) -> Iterator[pa.RecordBatch]:
        """Yield the rows whose key is `least` or more (None: all). Raises `TraceError`, also on the way."""
        for rows in self._pieces(least):
            start = 0
            while start < rows.num_rows:
                size = _CHUNK_ROWS if start or least is None else _FIRST_ROWS
                yield rows.slice(start, size)
                start += size

    def between(self, first: int, last: int) -> list[dict[str, Any]]:
        """Return the rows whose key lies from `first` to `last`. Raises `TraceError`."""
        if self._grouped is not None:
            found = self._grouped.between(first, last).select(self._names)
        else:
            found = self._whole
            low, high = np.searchsorted(found[self._key].to_numpy(), (first, last + 1))
            found = found.slice(low, high - low)
        rows: list[dict[str, Any]] = found.to_pylist()
        return rows

    def _pieces(self, least: int | None) -> Iterator[pa.RecordBatch]:
        if self._grouped is not None:
            low = 0 if least is None else self._grouped.at_least(least)
            for batch in self._grouped.since(low):
                yield batch.select(self._names)
        else:
            low = 0 if least is None else int(np.searchsorted(self._whole[self._key].to_numpy(), least))
            yield from self._whole.slice(low).to_batches()
