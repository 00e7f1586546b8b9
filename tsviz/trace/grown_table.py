"""One hot table of a recording that is being written: where its batches lie, and what they hold when it is asked."""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc as ipc

from .columns import TEXT, Table
from .errors import Damaged, first_line
from .groups import Groups, Kept, Longs
from .hot_file import HotFile, Read
from .validate import ARROW_FAULTS, checked_batch, checked_schema, wanted

GROUP_ROWS = 1 << 13
"""Batches with fewer rows together are decoded together."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a table was read: its groups, as `Groups` has them, and the batch with which each begins."""

    table: GrowingTable
    starts: Longs
    first: Longs
    last: Longs
    begins: list[int]
    """And behind them the number of batches."""

    def pieces(self) -> Iterator[tuple[int, int]]:
        """Yield the first batch of each group, and the batch behind its last."""
        return zip(self.begins[:-1], self.begins[1:], strict=True)


class GrowingTable:
    """One table: where its batches lie, and the words of their dictionaries."""

    def __init__(self, directory: Path, table: Table, told: Sequence[str]) -> None:
        read = tuple(c for c in table.columns if c.name in told or c.name == table.key or c.type == TEXT)
        self._table = Table(table.name, table.doc, read, key=table.key)
        self._file = HotFile(directory / f"{table.name}.arrows", self._table)
        self._places: list[tuple[int, int, int]] = []
        self._rows, self._last = [0], [-1]
        self._begins: list[int] = []
        self._first: list[int] = []
        self._words: dict[str, list[tuple[int, pa.Array]]] = {c.name: [] for c in read if c.type == TEXT}
        self._kept: dict[tuple[str, ...], Kept] = {}

    def read_to(self, length: int, crc: int, rows: int) -> list[pa.RecordBatch]:
        """Read on to a committed length and return what is new, as far as it is read."""
        found = [read for read in self._file.read_to(length, crc, rows) if read.batch.num_rows]
        for read in found:
            self._take(read)
        return [read.batch for read in found]

    def _take(self, read: Read) -> None:
        number, keys = len(self._places), read.batch[self._table.key].to_numpy()
        again = [self._know(name, number, read.batch[name].dictionary) for name in self._words]
        if not self._begins or any(again) or self._rows[-1] - self._rows[self._begins[-1]] >= GROUP_ROWS:
            self._begins.append(number)
            self._first.append(int(keys.min()))
        self._places.append((read.begin_byte, read.end_byte, read.crc))
        self._rows.append(self._rows[-1] + read.batch.num_rows)
        self._last.append(int(keys.max()))
        if read.batch.num_rows >= GROUP_ROWS and self._begins[-1] == number:
            for names, kept in self._kept.items():  # what is new is looked at next
                if set(names) <= set(self._table.names):
                    kept.put((number, number + 1), read.batch.select(names))

    def _know(self, name: str, number: int, words: pa.Array) -> bool:
        """Take the words of a batch; return whether they are others than before, not only more."""
        known = self._words[name]
        before = known[-1][1] if known else words
        if known and not words.slice(0, len(before)).equals(before):
            known.append((number, words))
            return True
        known[-1:] = [(known[-1][0] if known else 0, words)]
        return False

    def extent(self) -> Extent:
        """Return how far the table was read."""
        begins = [*self._begins, len(self._places)]
        starts, last = (np.array([of[at] for at in begins], np.int64) for of in (self._rows, self._last))
        return Extent(self, starts, np.array(self._first, np.int64), last[1:], begins)

    def kept(self, names: tuple[str, ...]) -> Kept:
        """Return the groups of some columns that were decoded last."""
        return self._kept.setdefault(names, Kept())

    def decoded(self, first: int, behind: int, table: Table) -> pa.RecordBatch:
        """Return some columns of the batches from `first` to before `behind`, validated. Raises `Damaged`."""
        file, place = self._file, f"batches {first} to {behind - 1}"
        assert file.schema is not None, "read before"
        columns, mapping = wanted(checked_schema(file.path, table, file.schema))
        try:
            raw = b"".join([_numbers(file.schema).serialize(), *self._messages(first, behind)])
            with ipc.open_stream(pa.BufferReader(raw), options=ipc.IpcReadOptions(included_fields=columns)) as stream:
                (batch,) = stream.read_all().combine_chunks().to_batches()
            arrays = [self._worded(file.schema.field(at), batch.column(i), first) for i, at in enumerate(columns)]
            batch = pa.RecordBatch.from_arrays(arrays, [file.schema.field(at).name for at in columns])
        except ARROW_FAULTS as error:
            raise Damaged(file.path, place, "Arrow record batches", first_line(error)) from None
        if batch.num_rows != self._rows[behind] - self._rows[first]:
            raise Damaged(file.path, place, "as many rows as were read before", f"{batch.num_rows}")
        return checked_batch(file.path, place, table, mapping, batch)

    def _worded(self, field: pa.Field, values: pa.Array, first: int) -> pa.Array:
        if field.name not in self._words:
            return values
        known = self._words[field.name]
        at = bisect_left(known, first + 1, key=lambda entry: entry[0]) - 1
        return pa.DictionaryArray.from_arrays(values, known[at][1])

    def _messages(self, first: int, behind: int) -> Iterator[bytes]:
        """Yield the record batches of the file, without the dictionaries that stand between them. Raises `Damaged`."""
        for begin, end, crc in self._places[first:behind]:
            data = self._file.bytes_at(begin, end)
            if (found := zlib.crc32(data)) != crc:
                raise Damaged(self._file.path, f"bytes {begin} to {end}", f"CRC {crc:08x}", f"{found:08x}")
            reader, at = pa.BufferReader(data), 0
            while at < len(data):
                message = ipc.read_message(reader)
                if message.type == "record batch":
                    yield data[at : reader.tell()]
                at = reader.tell()


def _numbers(schema: pa.Schema) -> pa.Schema:
    """Return a schema with the numbers of words in place of the words."""
    return pa.schema(
        pa.field(f.name, f.type.index_type if pa.types.is_dictionary(f.type) else f.type, f.nullable) for f in schema
    )


class GrownGroups(Groups):
    """Some columns of a table that has rows."""

    def __init__(self, extent: Extent, table: Table) -> None:
        super().__init__(table, extent.starts, extent.first, extent.last)
        self._extent, self._kept = extent, extent.table.kept(table.names)

    def _group(self, group: int) -> pa.RecordBatch:
        first, behind = self._extent.begins[group : group + 2]
        return self._kept.get((first, behind), lambda: self._extent.table.decoded(first, behind, self._table))

    def _values(self, group: int, name: str) -> Longs:
        first, behind = self._extent.begins[group : group + 2]
        single = Table(self._table.name, self._table.doc, tuple(c for c in self._table.columns if c.name == name))
        values = self._extent.table.decoded(first, behind, single).column(0).to_numpy(zero_copy_only=False)
        found: Longs = values.astype(np.int64)
        return found


class NoGroups(Groups):
    """A table that has no rows yet."""

    def __init__(self, table: Table) -> None:
        super().__init__(table, np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def _group(self, group: int) -> pa.RecordBatch:
        raise IndexError(group)

    def _values(self, group: int, name: str) -> Longs:
        raise IndexError((group, name))
