"""The calibration loop: how fast this machine is at this moment (docs/performance.md, *Noise*)."""

from __future__ import annotations

import statistics
import time

ITERATIONS = 20_000


def calibration_ms(repeats: int = 9) -> float:
    """Return the median time of a loop of 20,000 iterations `s += i & 7`, in milliseconds."""
    return statistics.median(_once() for _ in range(repeats)) / 1e6


def _once() -> int:
    start = time.perf_counter_ns()
    s = 0
    for i in range(ITERATIONS):
        s += i & 7
    return time.perf_counter_ns() - start
