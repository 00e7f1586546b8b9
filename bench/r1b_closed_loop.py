"""R1b: rounds a second of a closed loop with recording, all threads, against without.

The engine's loop on a simulated device that takes no wall time: the writer never gets a pause to catch up in, and the
recorded side is timed until its last commit. Compacting at close is shown apart.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

from tsviz.engine.configs import SchedulerOptions
from tsviz.engine.workloads.model import Workload
from tsviz.trace.tokens import FULL, IDENTITY

from .measure import Line, interleave
from .runs import mooncake, run_bare, run_recorded, scratch
from .steady import steady_options, steady_workload

_STEADY = {64: 500, 256: 120}
_PAIRS = 7
_MOONCAKE_ROWS = 300


def figures() -> Iterator[Line]:
    """Yield the ratio recorded / bare of rounds a second per workload and token mode."""
    cases: dict[str, tuple[SchedulerOptions, Workload]] = {
        f"{rows} rows": (steady_options(rows, output), steady_workload(rows, output))
        for rows, output in _STEADY.items()
    }
    sample = mooncake(_MOONCAKE_ROWS)
    if sample is None:
        yield Line("R1b", "mooncake: the sample is not at hand", float("nan"), "")
    else:
        cases[f"mooncake, {_MOONCAKE_ROWS} requests"] = sample
    for (name, case), tokens in itertools.product(cases.items(), (IDENTITY, FULL)):
        with scratch() as directory:
            yield _line(f"{name}, {tokens}", case, tokens, directory)


def _line(name: str, case: tuple[SchedulerOptions, Workload], tokens: str, directory: Path) -> Line:
    numbers = itertools.count()

    def bare() -> float:
        return run_bare(*case).rounds_per_second

    def recorded() -> float:
        return run_recorded(*case, directory / str(next(numbers)), tokens).rounds_per_second

    sides: tuple[Callable[[], float], Callable[[], float]] = bare, recorded
    pair = interleave(*sides, _PAIRS)
    note = f"{pair.base_median:.0f} rounds/s without; {pair.spread}"
    return Line("R1b", name, pair.ratio, "of rounds/s", 0.9, at_least=True, note=note)
