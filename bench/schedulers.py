"""The twin against the real package: the same driver on both, alternately, by the CPU time of the calling thread.

A ratio's verdict is that of CPU time, which does not count the time in which others had the processor; the ratio of
wall time stands in the note. On a machine with nobody else on it the two are the same.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .measure import Paired, interleave_each, joined
from .steady import Steady


class Took(NamedTuple):
    """Nanoseconds a round (or whatever was counted): CPU time of the thread, and wall time."""

    cpu_ns: float
    wall_ns: float


class Measured(NamedTuple):
    """The same pairs by CPU and by wall time."""

    cpu: Paired
    wall: Paired

    @property
    def note(self) -> str:
        """Both sides in us, the spread of the ratio, the ratio of wall times and the calibration loop."""
        other = statistics.median(self.cpu.other)
        return (
            f"{other / 1e3:.4g} us against {self.cpu.base_median / 1e3:.4g} us CPU, {self.cpu.span}; "
            f"wall {self.wall.ratio:.3f} {self.wall.span}; calibration {self.cpu.calibration_ms:.2f} ms"
        )


def twin() -> Any:
    """Return the twin's drop-in module."""
    from tsviz.scheduler import compat

    return compat


def rounds(side: Steady, count: int) -> Callable[[], Took]:
    """Return what runs `count` rounds of a steady side and gives the median round of each clock.

    Reading the CPU clock around each round is in the figure: about 1 us.
    """

    def run() -> Took:
        cpu, wall = [], []
        for _ in range(count):
            start = time.thread_time_ns()
            wall += side.rounds(1)
            cpu.append(time.thread_time_ns() - start)
        return Took(statistics.median(cpu), statistics.median(wall))

    return run


def stretch(side: Steady, count: int) -> Callable[[], Took]:
    """Return what runs `count` rounds of a steady side and gives the mean CPU time: for rounds of a few us."""

    def run() -> Took:
        start = time.thread_time_ns()
        wall = side.rounds(count)
        return Took((time.thread_time_ns() - start) / count, statistics.median(wall))

    return run


def measured(base: Callable[[], Took], other: Callable[[], Took], pairs: int) -> Measured:
    """Interleave two sides."""
    return Measured(*interleave_each(base, other, pairs, (lambda took: took.cpu_ns, lambda took: took.wall_ns)))


def together(parts: list[Measured]) -> Measured:
    """Return the pairs of several builds as those of one."""
    return Measured(joined([part.cpu for part in parts]), joined([part.wall for part in parts]))
