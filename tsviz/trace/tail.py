"""Following hot tables while they are written: what is new since the last look is read, nothing twice.

A `Tail` keeps what it has read; `committed()` is a frozen view of it at one commit, in all tables alike, so that a part
that was opened then says the same whatever is committed later (architecture.md, section 5, *On disk*).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc as ipc

from . import layout
from .catalogue import TABLES
from .columns import Table
from .errors import Damaged, first_line
from .hot import HotTables
from .segments import parse_commit
from .validate import ARROW_FAULTS, Mapping, checked_batch, checked_schema, wanted


class Tail:
    """The hot tables of one part directory's `hot`, read on and on."""

    def __init__(self, directory: Path) -> None:
        """Read nothing yet."""
        self._directory = directory
        self._path = directory / layout.COMMITS_FILE
        self._offset = 0
        self._commits = 0
        self._record: dict[str, Any] = {}
        self._streams: dict[str, _Stream] = {}

    @property
    def last_round(self) -> int:
        """The last committed round; 0 if none is."""
        return int(self._record.get("last_round", 0))

    @property
    def final(self) -> bool:
        """Whether the recording was closed."""
        return bool(self._record.get("final", False))

    def refresh(self) -> bool:
        """Take the commits that came since; return whether there were any. Raises `Damaged`.

        A line that is not whole yet is left for later.
        """
        path = layout.regular_file(self._path)
        with path.open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        *lines, _ = data.split(b"\n")
        for line in lines:
            place = f"line {self._commits + 1}"
            record = parse_commit(line)
            if record is None:
                raise Damaged(path, place, "a commit with its CRC", "a line that contradicts it")
            if layout.field(path, record, "commit", int) != self._commits:
                raise Damaged(path, place, f"commit {self._commits}", f"commit {record['commit']}")
            for name, entry in layout.field(path, record, "tables", dict).items():
                whole = isinstance(entry, list) and len(entry) == 3 and all(type(v) is int and v >= 0 for v in entry)
                if not whole:
                    raise Damaged(path, f"{place} {name!r}"[:80], "[bytes, crc, rows]", "something else")
            layout.field(path, record, "last_round", int)
            layout.field(path, record, "last_seq", int)
            layout.field(path, record, "final", bool)
            self._record, self._commits = record, self._commits + 1
            self._offset += len(line) + 1
        return bool(lines)

    def committed(self) -> HotTables:
        """Read what was committed and not read yet, and return all of it, frozen. Raises `Damaged`."""
        tables = self._record.get("tables", {})
        read: dict[str, tuple[pa.RecordBatch, ...]] = {}
        for name, (length, crc, rows) in tables.items():
            if name in TABLES:
                stream = self._streams.get(name)
                if stream is None:
                    stream = self._streams[name] = _Stream(self._directory / f"{name}.arrows", TABLES[name])
                read[name] = stream.read_to(length, crc, rows)
        return _Committed(self._record, read)


class _Committed(HotTables):
    """The hot tables as they were at one commit, in memory."""

    def __init__(self, record: dict[str, Any], read: dict[str, tuple[pa.RecordBatch, ...]]) -> None:
        self.last_round, self.last_seq = int(record.get("last_round", 0)), int(record.get("last_seq", -1))
        self.final, self.torn = bool(record.get("final", False)), None
        self._tables = dict(record.get("tables", {}))
        self._read = read

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the committed batches of a table; they were validated when they were read."""
        yield from self._read.get(table.name, ())


class _Stream:
    """One table's file, of which only committed bytes are handed to Arrow."""

    def __init__(self, path: Path, table: Table) -> None:
        self._path, self._table = path, table
        self._window = _Window(layout.regular_file(path))
        self._reader: Any = None
        self._mapping: Mapping = []
        self._batches: list[pa.RecordBatch] = []
        self._rows = 0

    def read_to(self, length: int, crc: int, rows: int) -> tuple[pa.RecordBatch, ...]:
        """Read on to a committed length and return every batch up to it."""
        self._window.allow(length)
        try:
            if self._reader is None:
                self._open()
            while self._rows < rows:
                batch = self._reader.read_next_batch()
                place = f"batch {len(self._batches)}"
                self._batches.append(checked_batch(self._path, place, self._table, self._mapping, batch))
                self._rows += batch.num_rows
        except StopIteration:
            raise Damaged(self._path, "rows", f"{rows} rows", f"{self._rows} rows") from None
        except ARROW_FAULTS as error:
            raise Damaged(self._path, "content", "an Arrow stream", first_line(error)) from None
        found = self._window.checked()
        if found != crc or self._rows != rows:
            raise Damaged(self._path, f"bytes 0 to {length}", f"CRC {crc:08x}, {rows} rows",
                          f"{found:08x}, {self._rows} rows")  # fmt: skip
        return tuple(self._batches)

    def _open(self) -> None:
        with ipc.open_stream(pa.PythonFile(self._window, mode="r")) as stream:
            columns, self._mapping = wanted(checked_schema(self._path, self._table, stream.schema))
        self._window.rewind()
        options = ipc.IpcReadOptions(included_fields=columns)
        self._reader = ipc.open_stream(pa.PythonFile(self._window, mode="r"), options=options)


class _Window:
    """A file that seems to end where the last commit says, and knows the CRC of everything up to there."""

    closed = False

    def __init__(self, path: Path) -> None:
        self._path, self._data, self._position, self._crc = path, bytearray(), 0, 0
        self._start = 0

    def allow(self, length: int) -> None:
        """Read the file on to a length. Raises `Damaged` where it was cut."""
        have = self._start + len(self._data)
        size = self._path.stat().st_size
        if size < length:
            raise Damaged(self._path, "size", f"at least {length} bytes", f"{size} bytes (the file was cut)")
        with self._path.open("rb") as file:
            file.seek(have)
            more = file.read(length - have)
        self._crc = zlib.crc32(more, self._crc)
        self._data += more

    def checked(self) -> int:
        """Return the CRC of all that was allowed so far; what was read of it is forgotten."""
        del self._data[: self._position - self._start]
        self._start = self._position
        return self._crc

    def rewind(self) -> None:
        """Start again; only before anything was forgotten."""
        self._position = 0
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` of the bytes that are allowed; none at their end."""
        begin = self._position - self._start
        data = bytes(self._data[begin:] if size < 0 else self._data[begin : begin + size])
        self._position += len(data)
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
        """Nothing is held open between two looks."""
        self.closed = True
