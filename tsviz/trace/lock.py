"""Whether somebody records a bundle: the recorder holds a lock that ends with its process, however it ends.

A lock says more than a process id, which another process may carry later. Where the file system has no locks nothing is
said, and a follower says that it does not know.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import IO

try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None  # type: ignore[assignment]

LOCK_FILE = "recording.lock"
ALIVE, GONE, UNKNOWN = "alive", "gone", "unknown"


class RecordingLock:
    """Held from the first call of a recording to its end. Never raises and never waits: recording comes first."""

    def __init__(self, bundle: Path) -> None:
        """Take the lock of a bundle if that is possible."""
        self._path = bundle / LOCK_FILE
        self._file: IO[bytes] | None = None
        if fcntl is None:
            return
        with contextlib.suppress(OSError):
            file = self._path.open("wb")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = file
            except OSError:
                file.close()
                self._path.unlink()

    def abandon(self) -> None:
        """Let go of the lock and leave its file: a parent's, in its child, or that of a recording that failed."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def release(self) -> None:
        """End the lock and take its file away."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._path.unlink()
            self._file.close()
            self._file = None


def recorder_of(bundle: Path) -> str:
    """Return whether the process that records a bundle is alive, gone, or not known."""
    return holder_of(bundle / LOCK_FILE)


def holder_of(lock: Path) -> str:
    """Return whether the process that holds a lock's file is alive, gone, or not known."""
    if fcntl is None:
        return UNKNOWN
    try:
        with lock.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return ALIVE
            return GONE
    except OSError:
        return UNKNOWN
