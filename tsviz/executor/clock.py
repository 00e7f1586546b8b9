"""Real time for runs on a real device."""

from __future__ import annotations

import queue
import time

_LONGEST_SLEEP_S = 0.5
"""A signal that comes just before a thread begins to sleep does not end that sleep, and its handler runs behind it."""


class MonotonicClock:
    """Implements `Clock`: nanoseconds since it was made; waiting sleeps until somebody has news."""

    def __init__(self) -> None:
        self._zero = time.monotonic_ns()
        self._news: queue.SimpleQueue[None] = queue.SimpleQueue()
        """Not an event: a signal's handler may put into it whatever the thread that it interrupts is at."""

    def now_ns(self) -> int:
        """Return the time since the start."""
        return time.monotonic_ns() - self._zero

    def wait_until_ns(self, at_ns: int) -> None:
        """Sleep until then, or until `wake` is called; one that nobody waited for ends the next wait at once."""
        while (left := at_ns - self.now_ns()) > 0:
            try:
                self._news.get(timeout=min(left / 1e9, _LONGEST_SLEEP_S))
            except queue.Empty:
                continue
            while not self._news.empty():
                self._news.get_nowait()
            return

    def wake(self) -> None:
        """End a wait early: there is news. From any thread, and from a signal's handler."""
        if self._news.empty():
            self._news.put(None)
