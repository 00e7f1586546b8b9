"""R1b: rounds a second of a closed loop with recording, all threads, against without.

The engine's loop on a simulated device that takes no wall time: the writer never gets a pause to catch up in, and the
recorded side is timed until its last commit. Where two cores are not to be had, the CPU time of all threads of the
process says what one core alone would do; with a writing process that is without the writer. Compacting is not in it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from tsviz.engine.configs import SchedulerOptions
from tsviz.engine.workloads.model import Workload
from tsviz.trace.tokens import FULL, IDENTITY

from .measure import Line, interleave_each
from .recorded import APART, RING, THREAD
from .runs import mooncake, run_bare, run_recorded, scratch
from .steady import steady_options, steady_workload

_STEADY = {64: 1500, 256: 300}
_PAIRS = 7
_MOONCAKE_ROWS = 300


def figures() -> Iterator[Line]:
    """Yield the ratio recorded / bare of rounds a second per workload and token mode, by wall and by CPU time."""
    cases: dict[str, tuple[SchedulerOptions, Workload]] = {
        f"{rows} rows": (steady_options(rows, output), steady_workload(rows, output))
        for rows, output in _STEADY.items()
    }
    sample = mooncake(_MOONCAKE_ROWS)
    if sample is None:
        yield Line("R1b", "mooncake: the sample is not at hand", float("nan"), "")
    else:
        cases[f"mooncake, {_MOONCAKE_ROWS} requests"] = sample
    ways = ((IDENTITY, APART), (FULL, APART), (IDENTITY, RING), (IDENTITY, THREAD))
    for (name, case), (tokens, how) in itertools.product(cases.items(), ways):
        with scratch() as directory:
            yield from _lines(f"{name}, {tokens}, {how}", case, tokens, how, directory)


def _lines(
    name: str, case: tuple[SchedulerOptions, Workload], tokens: str, how: str, directory: Path
) -> Iterator[Line]:
    numbers = itertools.count()
    wall, cpu = interleave_each(
        lambda: run_bare(*case),
        lambda: run_recorded(*case, directory / str(next(numbers)), tokens, how=how),
        _PAIRS,
        (lambda ran: ran.rounds_per_second, lambda ran: ran.rounds_per_cpu_second),
    )
    note = f"{wall.base_median:.0f} rounds/s without; {wall.spread}"
    yield Line("R1b", name, wall.ratio, "of rounds/s", 0.9, at_least=True, note=note)
    yield Line("R1b", f"{name}, one core", cpu.ratio, "of rounds/CPU s", note=cpu.spread)
