"""The keeper of a flight recorder: `python -m tsviz.replay.ring.keeper OUT.ring`, a process beside the recorded one.

It follows what the recorder commits, has every trigger look at it, drops the oldest segment once what is behind it is
enough (and makes the keyframe from which the rest is re-executed), and writes the kept part out as a trace: `OUT`,
`OUT.2`, ... It ends when the recording has: what is kept then is written out if that, or a crash, is a trigger. The
recorder never waits for it; killed, it can be started again, or `tsviz repair OUT.ring NEW` does its last step.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from tsviz.trace import layout
from tsviz.trace.errors import TraceError
from tsviz.trace.layout import RING_FILE
from tsviz.trace.lock import ALIVE, GONE, recorder_of
from tsviz.trace.ring import KEEPER_LOCK, OTHER_KEEPER, TOLD

from .http import serve
from .keeping import Keeper

POLL_SECONDS = 0.1
_FAULTS = 3
_START_SECONDS = 60.0
_CLOSE_SECONDS = 5.0
"""How long after its program a recording is closed at the latest, where no lock says it."""


class Told:
    """What is told of the program by whoever started this keeper, on the input: its exit code, once it has ended."""

    def __init__(self, source: BinaryIO | io.FileIO) -> None:
        self.done = threading.Event()
        self.status = 0
        self._source, self._ended = source, 0.0
        threading.Thread(target=self._read, name="tsviz-told", daemon=True).start()

    def _read(self) -> None:
        words = self._source.read(16).decode("ascii", "replace").strip()
        if words.lstrip("-").isdigit():
            self.status, self._ended = int(words), time.monotonic()
        self.done.set()

    def long_ago(self) -> bool:
        """Return whether the program has ended, and its recording had the time to."""
        return self._ended > 0 and time.monotonic() - self._ended > _CLOSE_SECONDS


@contextlib.contextmanager
def _locked(home: Path) -> Iterator[bool]:
    """Take the lock of a ring's keeper, which ends with its process; gives whether nobody else has it.

    The file holds the process (`tsviz.trace.ring.keeper_of` tells it).
    """
    with contextlib.ExitStack() as stack:
        alone = True
        try:
            file = stack.enter_context((home / KEEPER_LOCK).open("ab", buffering=0))  # another one's stays as it is
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.truncate(0)
            file.write(b"%d" % os.getpid())
        except BlockingIOError:
            alone = False
        except OSError:  # a disk without room, or without locks: nobody can be told from nobody
            pass
        yield alone


def keep(home: Path, told: Told | None = None) -> int:
    """Keep a ring until its recording has ended, if no other keeper does. Returns an exit code.

    A recording has ended when it is closed, when its lock is nobody's, or, where there are no locks, when the program
    has ended long enough ago.
    """
    until = time.monotonic() + _START_SECONDS
    while not (home / RING_FILE).exists() and time.monotonic() < until:
        time.sleep(POLL_SECONDS)  # the recorder makes the folder first
    with _locked(home) as alone:
        return _kept(Keeper(home), told) if alone else OTHER_KEEPER


def _kept(keeper: Keeper, told: Told | None) -> int:
    home, faults, server = keeper.home, 0, None
    for text in keeper.triggers:
        if text.startswith("http:"):
            server = serve(home, int(text.removeprefix("http:")))
    while True:
        closed = (home / layout.END_FILE).exists()
        recorder = recorder_of(home)
        ended = closed or recorder == GONE or (recorder != ALIVE and told is not None and told.long_ago())
        try:
            if ended:
                closed = closed or (home / layout.END_FILE).exists()
                if closed and told is not None and keeper.waits_for_status():
                    told.done.wait()
                return keeper.finish(keeper.crash(closed=closed, status=told.status if told is not None else 0))
            if not keeper.step():
                time.sleep(POLL_SECONDS)
        except (TraceError, OSError, ValueError, KeyError) as error:
            faults += 1
            with contextlib.suppress(OSError):  # the log is on the disk that may be full
                traceback.print_exc()
                if faults > _FAULTS:
                    print(f"the keeper gives up: {error}", file=sys.stderr, flush=True)
            if faults > _FAULTS:
                return 1
            time.sleep(POLL_SECONDS)
        finally:
            if ended and server is not None:
                server.shutdown()


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # `tsviz run` holds its program's signals, and started this
    with contextlib.suppress(OSError):
        os.nice(10)
    told_on = open(sys.stdin.fileno(), "rb", buffering=0, closefd=False)  # noqa: SIM115  # no lock that outlives the end
    sys.exit(keep(Path(sys.argv[1]), Told(told_on) if TOLD in sys.argv[2:] else None))
