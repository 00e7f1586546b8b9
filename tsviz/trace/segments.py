"""Appending to the hot tables of one part and committing them: one IPC stream a table, one commit line a flush."""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.ipc as ipc

from .columns import Table
from .layout import COMMITS_FILE

_OPTIONS = ipc.IpcWriteOptions(compression="zstd", emit_dictionary_deltas=True)


class _Counting:
    """A file that knows length and CRC of what went through it."""

    def __init__(self, path: Path) -> None:
        self._file: IO[bytes] = path.open("wb")
        self.length = 0
        self.crc = 0
        self.closed = False

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self.crc = zlib.crc32(view, self.crc)
        self.length += view.nbytes
        self._file.write(view)
        return view.nbytes

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._file.close()

    def fileno(self) -> int:
        return self._file.fileno()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        return self.length


class HotSegments:
    """The hot files of one part. A table's file exists once it has a row."""

    def __init__(self, directory: Path) -> None:
        """Begin in an empty directory, which is made. Raises OSError."""
        directory.mkdir(parents=True)
        self._directory = directory
        self._streams: dict[str, tuple[_Counting, ipc.RecordBatchStreamWriter]] = {}
        self._rows: dict[str, int] = {}
        self._commits = (directory / COMMITS_FILE).open("wb")
        self._sequence = 0
        self._last = (0, -1)

    @property
    def written_bytes(self) -> int:
        """How many bytes of tables were written so far."""
        return sum(file.length for file, _ in self._streams.values())

    def append(self, table: Table, batch: pa.RecordBatch) -> None:
        """Write one batch; readers do not see it before `commit`."""
        stream = self._streams.get(table.name)
        if stream is None:
            file = _Counting(self._directory / f"{table.name}.arrows")
            stream = self._streams[table.name] = (file, ipc.new_stream(file, table.schema, options=_OPTIONS))
        stream[1].write_batch(batch)
        self._rows[table.name] = self._rows.get(table.name, 0) + batch.num_rows

    def start_at(self, last_round: int, last_seq: int) -> None:
        """Say where the rows of the segment in front of this one end."""
        self._last = (last_round, last_seq)

    def commit(self, last_round: int, last_seq: int) -> None:
        """Make everything appended so far visible: tables first, their record last."""
        self._last = (last_round, last_seq)
        self._commit(final=False)

    def finish(self) -> None:
        """Add the record that says that the recording was closed and nothing follows."""
        self._commit(final=True)

    def _commit(self, *, final: bool) -> None:
        last_round, last_seq = self._last
        tables = {}
        for name, (file, _) in self._streams.items():
            file.flush()
            tables[name] = [file.length, file.crc, self._rows[name]]
        record = {
            "commit": self._sequence, "last_round": last_round, "last_seq": last_seq, "tables": tables, "final": final,
        }  # fmt: skip
        self._commits.write(commit_line(record))
        self._commits.flush()
        self._sequence += 1

    def abandon(self) -> None:
        """Lead the files of a parent process nowhere: what its buffers hold is not written twice."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for number in (*(file.fileno() for file, _ in self._streams.values()), self._commits.fileno()):
            os.dup2(nowhere, number, inheritable=False)
        os.close(nowhere)

    def close(self) -> None:
        """Close the files; the streams get no end marker, since the last commit says where they end.

        What a full disk did not take stays behind the last commit, where no reader looks.
        """
        for close in (*(file.close for file, _ in self._streams.values()), self._commits.close):
            with contextlib.suppress(OSError):
                close()


def commit_line(record: dict[str, Any]) -> bytes:
    """Return one line of `commits.jsonl`: the record, then the CRC of its bytes."""
    body = json.dumps(record, sort_keys=True, separators=(",", ":")).encode()
    return body + b" %08x\n" % zlib.crc32(body)


def parse_commit(line: bytes) -> dict[str, Any] | None:
    """Return the record of a whole commit line; None for a torn or damaged one, at which reading must stop."""
    body, _, crc = line.rpartition(b" ")
    if not body or len(crc) != 8:
        return None
    try:
        if int(crc, 16) != zlib.crc32(body):
            return None
        record = json.loads(body)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
