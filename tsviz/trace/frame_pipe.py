"""Frames into a pipe, without ever waiting for the other end: what it does not take stays here, as bytes.

Where a disk hangs, what waits is a hundred thousand entries. As the objects that the program gave, they would be walked
by every full collection of its garbage, a quarter of a second and more in which it stands; bytes are not looked at.
"""

from __future__ import annotations

import fcntl
import os
import select
from collections import deque

_PIPE_BYTES = 1 << 20
_LOOK_SECONDS = 0.1


class FramePipe:
    """The writing end of a pipe; for one thread, but for `waiting`, `clear` and `close`."""

    def __init__(self, number: int) -> None:
        """Take the file descriptor over. Raises OSError."""
        self._number, self._closed = number, False
        self._frames: deque[bytes | memoryview] = deque()
        self.waiting_bytes = 0
        """How many bytes wait here."""
        fcntl.fcntl(number, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        os.set_blocking(number, False)

    @property
    def waiting(self) -> int:
        """How many frames the other end has not taken, but for those in the pipe itself."""
        return len(self._frames)

    def put(self, frame: bytes) -> None:
        """Send a frame behind those that wait. Raises OSError when the other end is gone."""
        rest = frame if self._frames else self._write(frame)
        if rest is not None:
            self._frames.append(rest)
            self.waiting_bytes += len(rest)

    def drain(self) -> None:
        """Send what waits, as far as the other end takes it now. Raises OSError when it is gone."""
        frames = self._frames
        try:
            while frames:
                frame = frames[0]
                rest = self._write(frame)
                self.waiting_bytes -= len(frame) - (0 if rest is None else len(rest))
                if rest is not None:
                    frames[0] = rest
                    return
                frames.popleft()
        except IndexError:  # recording ended meanwhile, and all were thrown away
            return

    def drain_all(self) -> None:
        """Send everything, waiting for the other end until this one is closed. Raises OSError when it is gone."""
        while self._frames and not self._closed:
            self.drain()
            if self._frames and not self._closed:
                select.select([], [self._number], [], _LOOK_SECONDS)

    def _write(self, frame: bytes | memoryview) -> memoryview | None:
        """Return what the other end has not taken; None where it took all."""
        try:
            wrote = os.write(self._number, frame)
        except BlockingIOError:
            wrote = 0
        return None if wrote == len(frame) else memoryview(frame)[wrote:]

    def clear(self) -> None:
        """Forget what waits."""
        self._frames.clear()
        self.waiting_bytes = 0

    def close(self) -> None:
        """Close this end, whatever waits. Raises OSError."""
        self._closed = True
        os.close(self._number)
