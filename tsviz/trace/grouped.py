"""A cold table read by row group: what one look-up needs is decoded, and the last groups are kept.

Row groups are in order of the table's key; their statistics say where a key lies (architecture.md, section 5, *Cold*).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from .cold import ColdTables, check_group
from .columns import TEXT, Table
from .errors import Damaged, first_line
from .validate import ARROW_FAULTS, checked_batch, checked_schema, wanted

KEPT_BYTES = 12 << 20
"""What the decoded groups of one table may take together; at least one is kept."""


class GroupedTable:
    """Some columns of a cold table, by row number or by key."""

    def __init__(self, store: ColdTables, table: Table, columns: Sequence[str], key: str = "round") -> None:
        """`key` is the column in whose order the rows are; it must be among `columns`. Raises `Damaged`."""
        self._table = Table(table.name, table.doc, tuple(c for c in table.columns if c.name in columns), key=key)
        self.rows = store.rows(table)
        self.schema = self._table.schema
        self._kept: OrderedDict[int, pa.RecordBatch] = OrderedDict()
        self._kept_bytes = 0
        self._starts = np.zeros(1, np.int64)
        if not self.rows:
            return
        self._path = store.file(table, whole=False)
        words = [c.name for c in self._table.columns if c.type == TEXT]
        try:
            self._file = pq.ParquetFile(
                self._path, page_checksum_verification=True, read_dictionary=words, memory_map=True
            )
            self._columns, self._mapping = wanted(checked_schema(self._path, self._table, self._file.schema_arrow))
            names = self._file.schema_arrow.names
            self._names = [names[position] for position in self._columns]
            groups = [self._file.metadata.row_group(i) for i in range(self._file.num_row_groups)]
            self._starts = np.cumsum([0, *(group.num_rows for group in groups)])
            self._first, self._last = _bounds(self._path, self._file, names.index(key))
        except ARROW_FAULTS as error:
            raise Damaged(self._path, "footer", "a Parquet footer", first_line(error)) from None
        if self._starts[-1] != self.rows:
            raise Damaged(self._path, "rows", f"{self.rows} rows", f"{self._starts[-1]} rows")

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
        low = int(self._starts[low_group] + np.searchsorted(self._key(low_group), first, side="left"))
        high = int(self._starts[high_group] + np.searchsorted(self._key(high_group), last, side="right"))
        return low, high

    def at_least(self, key: int) -> int:
        """Return the number of the first row whose key is `key` or more; the number of all rows without one."""
        group = int(np.searchsorted(self._last, key)) if self.rows else 0
        if group >= len(self._starts) - 1:
            return self.rows
        return int(self._starts[group] + np.searchsorted(self._key(group), key))

    def between(self, first: int, last: int) -> pa.Table:
        """Return the rows whose key lies from `first` to `last`. Raises `Damaged`."""
        return self.slice(*self.bounds(first, last))

    def since(self, low: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows from number `low` on, a row group at a time. Raises `Damaged`."""
        if low >= self.rows:
            return
        first = int(np.searchsorted(self._starts, low, side="right")) - 1
        for group in range(first, len(self._starts) - 1):
            yield self._group(group).slice(max(0, low - int(self._starts[group])))

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """Return one integer column whole; nothing else is read and nothing kept. Raises `Damaged`."""
        if not self.rows:
            return np.zeros(0, np.int64)
        (chosen,) = (c for c in self._table.columns if c.name == name)
        single = Table(self._table.name, self._table.doc, (chosen,))
        parts = []
        for group in range(len(self._starts) - 1):
            batch = self._read(group, single, [name], [0])
            parts.append(batch.column(0).to_numpy(zero_copy_only=False))
        return np.concatenate(parts)

    def _key(self, group: int) -> npt.NDArray[np.int64]:
        batch = self._group(group)
        return batch.column(self._table.names.index(self._table.key)).to_numpy()  # type: ignore[no-any-return]

    def _group(self, group: int) -> pa.RecordBatch:
        kept = self._kept
        if group in kept:
            kept.move_to_end(group)
            return kept[group]
        batch = self._read(group, self._table, self._names, self._mapping)
        kept[group] = batch
        self._kept_bytes += batch.nbytes
        while len(kept) > 1 and self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= kept.popitem(last=False)[1].nbytes
        return batch

    def _read(self, group: int, table: Table, names: list[str], mapping: list[int | None]) -> pa.RecordBatch:
        place = f"row group {group}"
        try:
            check_group(self._path, group, self._file.metadata.row_group(group))
            whole = self._file.read_row_group(group, columns=names, use_threads=False)
            (batch,) = whole.unify_dictionaries().combine_chunks().to_batches()
        except ARROW_FAULTS as error:
            raise Damaged(self._path, place, "Parquet pages with their checksums", first_line(error)) from None
        if batch.num_rows != self._starts[group + 1] - self._starts[group]:
            raise Damaged(self._path, place, "as many rows as its footer says", f"{batch.num_rows}")
        return checked_batch(self._path, place, table, mapping, batch)


def _bounds(path: Path, file: pq.ParquetFile, column: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the least and the greatest key of every row group."""
    least, greatest = [], []
    for group in range(file.num_row_groups):
        statistics = file.metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max:
            raise Damaged(path, f"row group {group}", "statistics of its key", "none")
        least.append(statistics.min)
        greatest.append(statistics.max)
    return np.array(least, np.int64), np.array(greatest, np.int64)
