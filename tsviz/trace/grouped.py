"""A cold table read by row group.

Row groups are in order of the table's key; their statistics say where a key lies (architecture.md, section 5, *Cold*).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .cold import ColdTables, check_group
from .columns import TEXT, Table
from .errors import Damaged, first_line
from .groups import Groups, Kept, Longs
from .grown import GrownTables
from .validate import ARROW_FAULTS, Mapping, checked_batch, checked_schema, wanted

Large = ColdTables | GrownTables
"""Tables that are read by group."""


def grouped(store: Large, table: Table, columns: Sequence[str], key: str = "round") -> Groups:
    """Return some columns of a table that is closed, or of one that grows, as it is there. Raises `Damaged`.

    `key` is the column in whose order the rows are; it must be among `columns`.
    """
    narrow = Table(table.name, table.doc, tuple(c for c in table.columns if c.name in columns), key=key)
    return store.groups(narrow) if isinstance(store, GrownTables) else GroupedTable(store, narrow)


class GroupedTable(Groups):
    """Some columns of a cold table, by row number or by key."""

    def __init__(self, store: ColdTables, table: Table) -> None:
        """`table` has those columns alone, its key among them. Raises `Damaged`."""
        none = np.zeros(0, np.int64)
        starts, first, last = np.zeros(1, np.int64), none, none
        if store.rows(table):
            self._path = store.file(table, whole=False)
            words = [c.name for c in table.columns if c.type == TEXT]
            try:
                self._file = pq.ParquetFile(
                    self._path, page_checksum_verification=True, read_dictionary=words, memory_map=True
                )
                columns, self._mapping = wanted(checked_schema(self._path, table, self._file.schema_arrow))
                names = self._file.schema_arrow.names
                self._names = [names[position] for position in columns]
                groups = [self._file.metadata.row_group(i) for i in range(self._file.num_row_groups)]
                starts = np.cumsum([0, *(group.num_rows for group in groups)])
                first, last = _bounds(self._path, self._file, names.index(table.key))
            except ARROW_FAULTS as error:
                raise Damaged(self._path, "footer", "a Parquet footer", first_line(error)) from None
            if starts[-1] != store.rows(table):
                raise Damaged(self._path, "rows", f"{store.rows(table)} rows", f"{starts[-1]} rows")
        super().__init__(table, starts, first, last)
        self._kept = Kept()

    def _group(self, group: int) -> pa.RecordBatch:
        return self._kept.get(group, lambda: self._read(group, self._table, self._names, self._mapping))

    def _values(self, group: int, name: str) -> Longs:
        (chosen,) = (c for c in self._table.columns if c.name == name)
        single = Table(self._table.name, self._table.doc, (chosen,))
        found: Longs = self._read(group, single, [name], [0]).column(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return found

    def _read(self, group: int, table: Table, names: list[str], mapping: Mapping) -> pa.RecordBatch:
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


def _bounds(path: Path, file: pq.ParquetFile, column: int) -> tuple[Longs, Longs]:
    """Return the least and the greatest key of every row group."""
    least, greatest = [], []
    for group in range(file.num_row_groups):
        statistics = file.metadata.row_group(group).column(column).statistics
        if statistics is None or not statistics.has_min_max:
            raise Damaged(path, f"row group {group}", "statistics of its key", "none")
        least.append(statistics.min)
        greatest.append(statistics.max)
    return np.array(least, np.int64), np.array(greatest, np.int64)
