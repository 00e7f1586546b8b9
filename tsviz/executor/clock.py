"""Real time for runs on a real device."""

from __future__ import annotations

import time


class MonotonicClock:
    """Implements `Clock`: nanoseconds since it was made; waiting sleeps."""

    def __init__(self) -> None:
        self._zero = time.monotonic_ns()

    def now_ns(self) -> int:
        """Return the time since the start."""
        return time.monotonic_ns() - self._zero

    def wait_until_ns(self, at_ns: int) -> None:
        """Sleep until then."""
        while (left := at_ns - self.now_ns()) > 0:
            time.sleep(left / 1e9)
