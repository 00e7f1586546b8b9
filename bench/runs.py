"""Whole runs of the engine on the real package, bare or recorded: what R1b, R2 and R4 look at."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsviz.engine.clock import VirtualClock
from tsviz.engine.configs import SchedulerOptions, parse_groups
from tsviz.engine.run import RunOptions, run_workload
from tsviz.engine.summary import RunSummary
from tsviz.engine.workloads.model import Workload
from tsviz.engine.workloads.mooncake import load_mooncake
from tsviz.engine.workloads.options import WorkloadOptions

from .recorded import THREAD, real, writing

MOONCAKE = Path(__file__).resolve().parents[2] / "shared" / "workloads" / "mooncake-conversation"
"""The sample lies beside the project's checkout; figures that need it are left out, and say so, where it is not."""
_GONE_SECONDS = 60.0
"""How long a folder of bundles may take to go."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: what it came to, its wall time and the CPU time of all threads, both until everything is committed."""

    summary: RunSummary
    seconds: float
    cpu_seconds: float

    @property
    def rounds_per_second(self) -> float:
        """Scheduling rounds a second of wall time."""
        return self.summary.rounds / self.seconds

    @property
    def rounds_per_cpu_second(self) -> float:
        """Scheduling rounds a second of CPU time: what one core alone would do."""
        return self.summary.rounds / self.cpu_seconds


class Observer:
    """Passes arrivals and device intervals to the recorder of the one scheduler of a run."""

    def __init__(self, recorders: list[Any]) -> None:
        self._recorders = recorders

    def arrivals(self, arrivals: Any) -> None:
        """Arrivals of the next submit call."""
        self._recorders[0].arrivals(arrivals)

    def forward(self, start_ns: int, end_ns: int) -> None:
        """Device interval of the last plan's batch."""
        self._recorders[0].forward(start_ns, end_ns)


def run_bare(options: SchedulerOptions, workload: Workload) -> Ran:
    """Run without recording."""
    start, cpu = time.perf_counter(), time.process_time()
    summary = run_workload(real(), options, workload, RunOptions())
    return Ran(summary, time.perf_counter() - start, time.process_time() - cpu)


def run_recorded(
    options: SchedulerOptions, workload: Workload, path: Path, tokens: str, *, compacted: bool = False,
    how: str = THREAD,
) -> Ran:  # fmt: skip
    """Run with recording into the bundle `path`; without `compacted` the hot tables stay as they are.

    The start of a process that writes is not in the times; its last commit is in the wall time.
    """
    clock = VirtualClock()
    recorders: list[Any] = []
    module, writer = writing(path, tokens, clock.now_ns, recorders.append, how)
    start, cpu = time.perf_counter(), time.process_time()
    summary = run_workload(module, options, workload, RunOptions(), clock=clock, observer=Observer(recorders))
    writer.close(compacted=compacted)
    return Ran(summary, time.perf_counter() - start, time.process_time() - cpu)


def mooncake(rows: int, scale: int = 8) -> tuple[SchedulerOptions, Workload] | None:
    """Return the first rows of the Mooncake sample, lengths / scale, arrivals at 4x; None where it is not at hand."""
    if not MOONCAKE.exists():
        return None
    options = SchedulerOptions(groups=parse_groups("full:16"), num_host_pages=4096, mixed=True)
    return options, load_mooncake(MOONCAKE, WorkloadOptions(scale=scale, speed=4.0, rows=rows))


@contextmanager
def scratch() -> Iterator[Path]:
    """A directory of its own for bundles, removed afterwards.

    Writing processes and keepers of rings, which remove their own, end a little later than what they record.
    """
    directory = Path(tempfile.mkdtemp(prefix="tsviz-bench-"))
    try:
        yield directory
    finally:
        until = time.monotonic() + _GONE_SECONDS
        while directory.exists() and time.monotonic() < until:
            shutil.rmtree(directory, ignore_errors=True)
            time.sleep(0.05)
