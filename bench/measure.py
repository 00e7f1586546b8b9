"""Paired, interleaved repeats: the machine has neighbours, so only ratios within one run are worth anything."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from .calibration import calibration_ms

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of the table: `value` in `unit` against `budget` (at most it, or at least it; None: no budget)."""

    figure: str
    case: str
    value: float
    unit: str
    budget: float | None = None
    at_least: bool = False
    note: str = ""

    @property
    def verdict(self) -> str:
        """Return whether the budget is met; empty without one."""
        if self.budget is None:
            return ""
        return "met" if (self.value >= self.budget if self.at_least else self.value <= self.budget) else "MISSED"


@dataclass(frozen=True, slots=True)
class Paired:
    """Figures of two sides, one of each a repeat, in the same unit, and the calibration loop beside them."""

    base: Sequence[float]
    other: Sequence[float]
    calibration_ms: float

    @property
    def base_median(self) -> float:
        """The median of the first side."""
        return statistics.median(self.base)

    @property
    def ratio(self) -> float:
        """The median over pairs of other / base."""
        return statistics.median(o / b for b, o in zip(self.base, self.other, strict=True))

    @property
    def difference(self) -> float:
        """The median over pairs of other - base."""
        return statistics.median(o - b for b, o in zip(self.base, self.other, strict=True))

    @property
    def spread(self) -> str:
        """The quartiles of other / base over the pairs, in words."""
        ratios = sorted(o / b for b, o in zip(self.base, self.other, strict=True))
        low, high = ratios[len(ratios) // 4], ratios[(3 * len(ratios)) // 4]
        return f"[{low:.3f}..{high:.3f}] of {len(ratios)} pairs, calibration {self.calibration_ms:.2f} ms"

    @property
    def span(self) -> str:
        """The least and the greatest other / base over the pairs, in words."""
        ratios = [o / b for b, o in zip(self.base, self.other, strict=True)]
        return f"[{min(ratios):.3f}..{max(ratios):.3f}] of {len(ratios)} pairs"


def joined(parts: Sequence[Paired]) -> Paired:
    """Return the pairs of several runs as those of one."""
    base = [value for part in parts for value in part.base]
    other = [value for part in parts for value in part.other]
    return Paired(base, other, statistics.median(part.calibration_ms for part in parts))


@contextmanager
def quiet() -> Iterator[None]:
    """Collect garbage once, then keep the collector off."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def interleave(base: Callable[[], float], other: Callable[[], float], pairs: int) -> Paired:
    """Run both sides alternately, each first in every second pair, the collector off while they run."""
    return interleave_each(base, other, pairs, (float,))[0]


def interleave_each(
    base: Callable[[], T], other: Callable[[], T], pairs: int, figures: Sequence[Callable[[T], float]]
) -> list[Paired]:
    """Do what `interleave` does with runs that have several figures; one `Paired` a figure."""
    firsts: list[T] = []
    seconds: list[T] = []
    calibrations: list[float] = []
    for pair in range(pairs):
        with quiet():
            if pair % 2:
                second, first = other(), base()
            else:
                first, second = base(), other()
        firsts.append(first)
        seconds.append(second)
        if pair % 8 == 0:
            calibrations.append(calibration_ms(3))
    calibration = statistics.median(calibrations)
    return [Paired([f(v) for v in firsts], [f(v) for v in seconds], calibration) for f in figures]
