"""Reading hot tables: IPC streams, trusted up to the last whole commit (architecture.md, section 5, *On disk*)."""

from __future__ import annotations

import io
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
from .segments import parse_commit
from .validate import ARROW_FAULTS, checked_batch, checked_schema, wanted

_COMMITS_LIMIT_BYTES = 1 << 30


class HotTables:
    """The committed part of the hot tables of one part directory's `hot`.

    `last_round` and `last_seq` are those of the last commit (0 and -1 if there is none); `final` says whether it closed
    the recording. `torn` says, in words, what lies behind it: bytes of a flush that was not committed; it is normal
    after a crash.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.last_round, self.last_seq = 0, -1
        self._tables: dict[str, Any] = {}
        self.torn: str | None = None
        self.final = False
        self._read_commits()

    def _read_commits(self) -> None:
        path = layout.regular_file(layout.directory(self._directory) / layout.COMMITS_FILE)
        if path.stat().st_size > _COMMITS_LIMIT_BYTES:
            raise Damaged(path, "size", f"at most {_COMMITS_LIMIT_BYTES} bytes", f"{path.stat().st_size}")
        *lines, rest = path.read_bytes().split(b"\n")
        if rest and parse_commit(rest) is not None:
            lines.append(rest)
        elif rest and parse_commit(rest[:-1]) is not None:
            raise Damaged(path, f"line {len(lines) + 1}", "a line end", repr(rest[-1:]))
        elif rest:
            self.torn = "an unfinished commit"
        for index, line in enumerate(lines):
            record = parse_commit(line)
            if record is None:
                raise Damaged(path, f"line {index + 1}", "a commit with its CRC", "a line that contradicts it")
            self._take(path, index, record)

    def _take(self, path: Path, index: int, record: dict[str, Any]) -> None:
        place = f"line {index + 1}"
        if layout.field(path, record, "commit", int) != index:
            raise Damaged(path, place, f"commit {index}", f"commit {record['commit']}")
        self.last_round = layout.field(path, record, "last_round", int)
        self.last_seq = layout.field(path, record, "last_seq", int)
        tables = layout.field(path, record, "tables", dict)
        for name, entry in tables.items():
            if not (isinstance(entry, list) and len(entry) == 3 and all(isinstance(v, int) and v >= 0 for v in entry)):
                raise Damaged(path, f"{place} {name!r}"[:80], "[bytes, crc, rows]", "something else")
        self._tables = tables
        self.final = layout.field(path, record, "final", bool)

    def _at(self, record: dict[str, Any]) -> None:
        """Be as a commit says that was read and checked elsewhere."""
        self.last_round, self.last_seq = int(record.get("last_round", 0)), int(record.get("last_seq", -1))
        self.final, self.torn = bool(record.get("final", False)), None
        self._tables = dict(record.get("tables", {}))

    def rows(self, table: Table) -> int:
        """Committed rows of a table."""
        return int(self._tables.get(table.name, (0, 0, 0))[2])

    def check_bytes(self, whole_bytes: int) -> None:
        """Compare what was committed with its CRCs; nothing of more than `whole_bytes` in all. Raises `Damaged`."""
        if sum(entry[0] for entry in self._tables.values()) <= whole_bytes:
            for name in self._tables.keys() & TABLES.keys():
                self._checked(name)

    def _checked(self, name: str) -> tuple[Path, bytes]:
        """Return the file of a table and its committed bytes. Raises `Damaged` if they contradict the commit."""
        length, crc, _ = self._tables[name]
        path = layout.regular_file(self._directory / f"{name}.arrows")
        data = _read(path, length)
        if (found := zlib.crc32(data)) != crc:
            raise Damaged(path, f"bytes 0 to {length}", f"CRC {crc:08x}", f"{found:08x}")
        return path, data

    def batches(self, table: Table) -> Iterator[pa.RecordBatch]:
        """Yield the committed batches of a table, validated. Raises `Damaged` if bytes contradict the commit."""
        if table.name not in self._tables:
            return
        expected_rows = self._tables[table.name][2]
        path, data = self._checked(table.name)
        rows = 0
        try:
            with ipc.open_stream(io.BytesIO(data)) as stream:
                columns, mapping = wanted(checked_schema(path, table, stream.schema))
            with ipc.open_stream(io.BytesIO(data), options=ipc.IpcReadOptions(included_fields=columns)) as stream:
                for index, batch in enumerate(stream):
                    rows += batch.num_rows
                    if rows > expected_rows:
                        break
                    yield checked_batch(path, f"batch {index}", table, mapping, batch)
        except ARROW_FAULTS as error:
            raise Damaged(path, "content", "an Arrow stream", first_line(error)) from None
        if rows != expected_rows:
            raise Damaged(path, "rows", f"{expected_rows} rows", f"{rows} rows")


def _read(path: Path, length: int) -> bytes:
    size = path.stat().st_size
    if size < length:
        raise Damaged(path, "size", f"at least {length} bytes", f"{size} bytes (the file was cut)")
    with path.open("rb") as file:
        return file.read(length)
