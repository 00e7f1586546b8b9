"""Standing aside: what records does not run on a processor that a busy scheduling loop runs on.

Where processors are few the kernel puts a thread that is woken where its waker runs, and the loop then waits for a turn
of its own: measured with two, that was more than all else that recording cost (docs/performance.md). A loop that mostly
waits for its device is left to the kernel, which finds the idle processor itself.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

LOOK_SECONDS = 0.25
_BUSY = 0.5
_TICKS = os.sysconf("SC_CLK_TCK")
_UTIME, _STIME, _PROCESSOR = 11, 12, 36
"""Places in `/proc/PID/task/TID/stat` behind the name of the thread."""


class Aside:
    """Keeps threads of this process away from loops, each of which is (process id, thread id)."""

    def __init__(self, threads: Sequence[int] | None = None) -> None:
        """`threads`: the ids of the threads that stand aside, 0 for the caller's; None: all of this process."""
        self._threads = threads
        self._allowed = os.sched_getaffinity(0)
        self._chosen: Collection[int] = self._allowed
        self._looked = -LOOK_SECONDS
        self._ran: dict[tuple[int, int], tuple[int, float]] = {}

    def look(self, loops: Iterable[tuple[int, int]], now: float) -> None:
        """Look where loops run, now and then; `now` in seconds. Whatever cannot be read or set is left as it is."""
        if now - self._looked < LOOK_SECONDS or len(self._allowed) < 2:
            return
        self._looked = now
        taken = {processor for loop in loops if (processor := self._busy_on(loop, now)) is not None}
        wanted = (self._allowed - taken) or self._allowed
        if wanted == self._chosen:
            return
        self._chosen = wanted
        threads = self._threads
        if threads is None:
            threads = [int(path.name) for path in Path("/proc/self/task").iterdir()]
        for thread in threads:
            with contextlib.suppress(OSError):
                os.sched_setaffinity(thread, wanted)

    def _busy_on(self, loop: tuple[int, int], now: float) -> int | None:
        """Return the processor of a loop that ran for half of the time since the last look."""
        process, thread = loop
        try:
            fields = Path(f"/proc/{process}/task/{thread}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            self._ran.pop(loop, None)
            return None
        ticks = int(fields[_UTIME]) + int(fields[_STIME])
        before, then = self._ran.get(loop, (ticks, now))
        self._ran[loop] = ticks, now
        return int(fields[_PROCESSOR]) if ticks - before > _BUSY * _TICKS * (now - then) else None
