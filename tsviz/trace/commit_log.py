"""The commits of hot tables that are being written, read on and on."""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any

from . import layout
from .errors import Damaged
from .segments import parse_commit


class CommitLog:
    """The commits in one part directory's `hot`. The file stays open: it can be read to its end when it is removed."""

    def __init__(self, directory: Path) -> None:
        """Read nothing yet."""
        self._path = directory / layout.COMMITS_FILE
        self._file: IO[bytes] | None = None
        self._offset = 0
        self._commits = self._taken_rows = 0
        self.record: dict[str, Any] = {}
        """The last commit."""
        self._new: list[dict[str, Any]] = []
        """Those that `taken` has not returned yet."""

    @property
    def last_round(self) -> int:
        """The last committed round; 0 if none is."""
        return int(self.record.get("last_round", 0))

    @property
    def final(self) -> bool:
        """Whether the recording was closed."""
        return bool(self.record.get("final", False))

    @property
    def opened(self) -> bool:
        """Whether the file was there when it was looked for."""
        return self._file is not None

    def refresh(self) -> bool:
        """Take the commits that came since; return whether there were any. Raises `Damaged`.

        A line that is not whole yet is left for later.
        """
        if self._file is None:
            self._file = layout.regular_file(self._path).open("rb")
        self._file.seek(self._offset)
        *lines, _ = self._file.read().split(b"\n")
        for line in lines:
            self._take(line)
            self._offset += len(line) + 1
        return bool(lines)

    def _take(self, line: bytes) -> None:
        path, place = self._path, f"line {self._commits + 1}"
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
        self.record, self._commits = record, self._commits + 1
        self._new.append(record)

    def taken(self, least_rows: int) -> dict[str, Any] | None:
        """Return the first commit with so many rows more than the one that was returned before, or the last one there
        is; None if none came since.
        """
        had, found = self._taken_rows, None
        while self._new and (found is None or self._taken_rows < had + least_rows):
            found = self._new.pop(0)
            self._taken_rows = sum(rows for _, _, rows in found["tables"].values())
        return found
