"""One table's file of a recording that is being written: what is committed of it is read on, nothing twice."""

from __future__ import annotations

import os
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.ipc as ipc

from . import layout
from .columns import Table
from .errors import Damaged, first_line
from .validate import ARROW_FAULTS, Mapping, checked_batch, checked_schema, wanted


@dataclass(frozen=True, slots=True)
class Read:
    """A batch that was read: where it lies in the file, its dictionaries in front of it, with the CRC of its bytes."""

    batch: pa.RecordBatch
    begin_byte: int
    end_byte: int
    crc: int


class HotFile:
    """The file of one table, of which only committed bytes are handed to Arrow. It stays open."""

    def __init__(self, path: Path, table: Table) -> None:
        """Of the columns of `table` alone batches are made. Raises `Damaged`."""
        self.path, self._table = path, table
        self._file = layout.regular_file(path).open("rb", buffering=0)
        self._window = _Window(path, self._file)
        self._reader: Any = None
        self._mapping: Mapping = []
        self.schema: pa.Schema | None = None
        """Everything that the file holds; None before anything was read."""
        self._batches = self._rows = 0

    def read_to(self, length: int, crc: int, rows: int) -> list[Read]:
        """Read on to a committed length and return what is new. Raises `Damaged`."""
        found: list[Read] = []
        try:
            self._window.allow(length)
            if self._reader is None:
                self._open()
            while self._rows < rows:
                begin = self._window.position
                batch = self._reader.read_next_batch()
                place = f"batch {self._batches}"
                batch = checked_batch(self.path, place, self._table, self._mapping, batch)
                found.append(Read(batch, begin, self._window.position, self._window.crc_since(begin)))
                self._batches += 1
                self._rows += batch.num_rows
        except StopIteration:
            raise Damaged(self.path, "rows", f"{rows} rows", f"{self._rows} rows") from None
        except ARROW_FAULTS as error:
            raise Damaged(self.path, "content", "an Arrow stream", first_line(error)) from None
        seen = self._window.checked()
        if seen != crc or self._rows != rows:
            raise Damaged(self.path, f"bytes 0 to {length}", f"CRC {crc:08x}, {rows} rows",
                          f"{seen:08x}, {self._rows} rows")  # fmt: skip
        return found

    def bytes_at(self, begin: int, end: int) -> bytes:
        """Return bytes that were read before. For any thread. Raises OSError."""
        return pread(self._file, begin, end - begin)

    def _open(self) -> None:
        with ipc.open_stream(pa.PythonFile(self._window, mode="r")) as stream:
            self.schema = stream.schema
            columns, self._mapping = wanted(checked_schema(self.path, self._table, stream.schema))
        self._window.rewind()
        options = ipc.IpcReadOptions(included_fields=columns)
        self._reader = ipc.open_stream(pa.PythonFile(self._window, mode="r"), options=options)


def pread(file: IO[bytes], begin: int, size: int) -> bytes:
    """Return `size` bytes at a place of a file, fewer at its end."""
    return os.pread(file.fileno(), size, begin)


class _Window:
    """A file that seems to end where the last commit says, and knows the CRC of everything up to there."""

    closed = False

    def __init__(self, path: Path, file: IO[bytes]) -> None:
        self._path, self._file = path, file
        self._data, self.position, self._crc = bytearray(), 0, 0
        self._start = 0

    def allow(self, length: int) -> None:
        """Read the file on to a length. Raises `Damaged` where it was cut."""
        have = self._start + len(self._data)
        more = pread(self._file, have, max(length - have, 0))
        if have + len(more) < length:
            found = f"{have + len(more)} bytes (the file was cut)"
            raise Damaged(self._path, "size", f"at least {length} bytes", found)
        self._crc = zlib.crc32(more, self._crc)
        self._data += more

    def crc_since(self, begin: int) -> int:
        """Return the CRC of the bytes from a place to the position; nothing behind it was forgotten yet."""
        return zlib.crc32(memoryview(self._data)[begin - self._start : self.position - self._start])

    def checked(self) -> int:
        """Return the CRC of all that was allowed so far; what was read of it is forgotten."""
        del self._data[: self.position - self._start]
        self._start = self.position
        return self._crc

    def rewind(self) -> None:
        """Start again; only before anything was forgotten."""
        self.position = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` of the bytes that are allowed; none at their end."""
        begin = self.position - self._start
        data = bytes(self._data[begin:] if size < 0 else self._data[begin : begin + size])
        self.position += len(data)
        return data

    def readable(self) -> bool:
        """It is read."""
        return True

    def writable(self) -> bool:
        """It is not written."""
        return False

    def seekable(self) -> bool:
        """It is read from front to back."""
        return False

    def close(self) -> None:
        """What is read is the application's to close."""
        self.closed = True
