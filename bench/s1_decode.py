"""S1 and S2: a decode round of the twin as part of the real package's, at 1K context.

Contexts are staggered over a page, so every round has its share of rows that cross into a new one; of one row, which
crosses every 16 rounds, the mean over whole pages of rounds is taken. Budgets of requests are undeclared: each such
crossing takes a page from the pool. With declared ones the pages are prepaid at admission; one such case stands beside.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .measure import Line
from .recorded import real
from .schedulers import Measured, measured, rounds, stretch, together, twin
from .steady import PAGE_TOKENS, Steady, steady_options


class Case(NamedTuple):
    """Rows, page, rounds of a stretch (whole pages), pairs of stretches a build, builds, budgets declared."""

    rows: int
    page_tokens: int
    rounds: int
    pairs: int
    builds: int
    declared: bool = False


_S1 = (
    Case(16, PAGE_TOKENS, 48, 4, 4),
    Case(64, PAGE_TOKENS, 32, 4, 4),
    Case(64, PAGE_TOKENS, 32, 4, 3, declared=True),
    Case(256, PAGE_TOKENS, 16, 4, 3),
    Case(1024, PAGE_TOKENS, 16, 5, 1),
)
_S2 = ((Case(64, 64, 64, 3, 3), 1.5), (Case(1, PAGE_TOKENS, 160, 4, 4), 2.0))


def figures() -> Iterator[Line]:
    """Yield the ratio twin / real per number of rows."""
    for case in _S1:
        yield line("S1", case, 1.0)


def line(figure: str, case: Case, budget: float) -> Line:
    """Return the figure of one case."""
    found = compare(case)
    name = f"{case.rows} rows, page {case.page_tokens}" + (", declared" if case.declared else "")
    return Line(figure, name, found.cpu.ratio, "of the real round", budget, note=found.note)


def s2_figures() -> Iterator[Line]:
    """Yield the same for pages of 64 tokens, and for one row."""
    for case, budget in _S2:
        yield line("S2", case, budget)


def compare(case: Case) -> Measured:
    """Return nanoseconds a round, real and twin, on schedulers that are built anew now and then."""
    parts = []
    growth = case.rounds * (case.pairs + 1) + 64
    groups = f"full:{case.page_tokens}"
    options = steady_options(case.rows, growth, groups, page_tokens=case.page_tokens)
    for _ in range(case.builds):
        sides = [
            Steady(module, case.rows, growth, options=options, staggered=True, declared=case.declared)
            for module in (real(), twin())
        ]
        for side in sides:
            side.rounds(PAGE_TOKENS)
        base, other = ((rounds if case.rows > 1 else stretch)(side, case.rounds) for side in sides)
        parts.append(measured(base, other, case.pairs))
    return together(parts)
