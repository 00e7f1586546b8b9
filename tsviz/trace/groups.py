"""Rows of a table in groups that are in order of its key: what one look-up needs is decoded, and the last are kept."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .columns import Table

Longs = npt.NDArray[np.int64]
KEPT_BYTES = 12 << 20
"""What the decoded groups of one table may take together; at least one is kept."""


def position(keys: npt.NDArray[Any], key: int) -> int:
    """Return where a key stands, or would, in rising keys; they are not copied to be compared with a wider number."""
    limits = np.iinfo(keys.dtype)
    if key > limits.max:
        return len(keys)
    return int(np.searchsorted(keys, keys.dtype.type(max(key, limits.min))))


class Kept:
    """The decoded groups that were asked for last. For several threads at once."""

    def __init__(self, limit_bytes: int = KEPT_BYTES) -> None:
        self._limit_bytes, self._bytes = limit_bytes, 0
        self._groups: OrderedDict[Hashable, pa.RecordBatch] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: Hashable, read: Callable[[], pa.RecordBatch]) -> pa.RecordBatch:
        """Return a group, read if it is not there."""
        with self._lock:
            if key in self._groups:
                self._groups.move_to_end(key)
                return self._groups[key]
        batch = read()
        self.put(key, batch)
        return batch

    def put(self, key: Hashable, batch: pa.RecordBatch) -> None:
        """Keep a group."""
        with self._lock:
            if key not in self._groups:
                self._groups[key] = batch
                self._bytes += batch.nbytes
            while len(self._groups) > 1 and self._bytes > self._limit_bytes:
                self._bytes -= self._groups.popitem(last=False)[1].nbytes


class Groups(ABC):
    """Some columns of a table, by row number or by key."""

    def __init__(self, table: Table, starts: Longs, first: Longs, last: Longs) -> None:
        """`table` has the columns alone. Groups begin at the rows `starts`, behind which stands the number of all rows,
        and have keys from `first` to `last`.
        """
        self._table, self.schema = table, table.schema
        self._starts, self._first, self._last = starts, first, last
        self.rows = int(starts[-1])

    @abstractmethod
    def _group(self, group: int) -> pa.RecordBatch:
        """Return a group, validated. Raises `Damaged`."""

    @abstractmethod
    def _values(self, group: int, name: str) -> Longs:
        """Return an integer column of a group, of which nothing is kept. Raises `Damaged`."""

    def slice(self, low: int, high: int) -> pa.Table:
        """Return the rows from `low` to before `high`. Raises `Damaged`."""
        if low >= high:
            return self.schema.empty_table()
        first = int(np.searchsorted(self._starts, low, side="right")) - 1
        last = int(np.searchsorted(self._starts, high, side="left")) - 1
        parts = []
        for group in range(first, last + 1):
            start = int(self._starts[group])
            batch = self._group(group)
            begin, end = max(low - start, 0), min(high - start, batch.num_rows)
            parts.append(batch.slice(begin, end - begin))
        return pa.Table.from_batches(parts, self.schema)

    def bounds(self, first: int, last: int) -> tuple[int, int]:
        """Return the numbers of the rows whose key lies from `first` to `last`: the first, and the one behind."""
        if not self.rows:
            return 0, 0
        low_group = int(np.searchsorted(self._last, first, side="left"))
        high_group = int(np.searchsorted(self._first, last, side="right")) - 1
        if low_group > high_group:
            return 0, 0
        low = int(self._starts[low_group] + position(self._key(low_group), first))
        high = int(self._starts[high_group] + position(self._key(high_group), last + 1))
        return low, high

    def at_least(self, key: int) -> int:
        """Return the number of the first row whose key is `key` or more; the number of all rows without one."""
        group = int(np.searchsorted(self._last, key)) if self.rows else 0
        if group >= len(self._starts) - 1:
            return self.rows
        return int(self._starts[group] + position(self._key(group), key))

    def between(self, first: int, last: int) -> pa.Table:
        """Return the rows whose key lies from `first` to `last`. Raises `Damaged`."""
        return self.slice(*self.bounds(first, last))

    def since(self, low: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from number `low` on, a group at a time. Raises `Damaged`."""
        if low >= self.rows:
            return
        first = int(np.searchsorted(self._starts, low, side="right")) - 1
        for group in range(first, len(self._starts) - 1):
            yield self._group(group).slice(max(0, low - int(self._starts[group])))

    def column(self, name: str) -> Longs:
        """Return one integer column whole; nothing else is read and nothing kept. Raises `Damaged`."""
        parts = [self._values(group, name) for group in range(len(self._starts) - 1)]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)

    def _key(self, group: int) -> Longs:
        batch = self._group(group)
        return batch.column(self._table.names.index(self._table.key)).to_numpy()  # type: ignore[no-any-return]
