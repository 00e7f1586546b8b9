"""A run with a recorder on every scheduler: the engine does not know that it is recorded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

from tsviz.adapters.tokenspeed import RULE_SET, engine_of, recording_module
from tsviz.engine.clock import VirtualClock
from tsviz.engine.configs import Role
from tsviz.engine.faults import ClientAbort
from tsviz.engine.pd import PairNode, run_pair
from tsviz.engine.ranks import run_ranks
from tsviz.engine.run import RunOptions, run_workload
from tsviz.engine.summary import RunSummary
from tsviz.engine.workloads.model import Workload
from tsviz.trace.api_events import event_reader
from tsviz.trace.config import describe_config
from tsviz.trace.errors import CannotRecord
from tsviz.trace.recorder import Recorder
from tsviz.trace.retention import Retention
from tsviz.trace.ring import RingOptions, ring_home
from tsviz.trace.writer import BundleWriter
from tsviz.version import __version__

from .run_options import RunPlan

_ABORT_EVERY = 10
_KEEPER_SECONDS = 120.0
"""How long a run on virtual time waits for the keeper of its ring, where that takes nothing away."""


class RefusedConfig(Exception):
    """The scheduler does not take this configuration; the message is its own."""


class Recording:
    """Records one run into a bundle; a context manager that closes it whatever happens."""

    def __init__(
        self, out: Path, module: Any, scheduler: str, workload: Workload, plan: RunPlan, *, tokens: str,
        command: Sequence[str], level: str, ring: RingOptions | None = None, retention: Retention | None = None,
    ) -> None:  # fmt: skip
        """Create the bundle. Raises RefusedConfig before anything is written, CannotRecord when `out` is taken."""
        _check_config(module, plan)
        self._module, self._workload, self._plan, self._level = module, workload, plan, level
        self._clock = VirtualClock()
        self._recorders: dict[tuple[str, int], Recorder] = {}
        meta = {
            "tool": f"tsviz {__version__}",
            "command": ["tsviz", *command],
            "scheduler": scheduler,
            "workload": dict(workload.meta),
            "skipped": dict(workload.skipped),
            "options": dict(plan.given),
        }
        if ring is not None and out.exists():
            raise CannotRecord(f"{out}: expected a path that is free, found something there")
        path = out if ring is None else ring_home(out)
        self._writer = BundleWriter(
            path, meta=meta, tokens=tokens, ring=ring, retention=retention,
            keeper_patience_s=_KEEPER_SECONDS,
        )  # fmt: skip
        self.homes = [] if ring is None else [path]
        """Where the segments of a flight recorder lie."""
        self._summaries: dict[str, RunSummary] = {}

    def __enter__(self) -> Recording:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ends = {name: summary.told() for name, summary in self._summaries.items()}
        failed = None if kind is None else f"{kind.__name__}: {error}"
        self._writer.close({"parts": ends, "error": failed})

    def run(self, stop: Callable[[], bool]) -> dict[str, RunSummary]:
        """Run to the end, `max_rounds`, or until `stop()`; returns what each node came to.

        Where rounds come faster than they can be written the run waits: time is virtual, and nobody is served.
        """

        def asked() -> bool:
            self._writer.catch_up()
            return stop()

        plan = self._plan
        aborts: tuple[ClientAbort, ...] = ()
        if plan.abort_ns is not None:
            aborts = tuple(ClientAbort(r.request_id, plan.abort_ns) for r in self._workload.requests[::_ABORT_EVERY])
        options = RunOptions(plan.device, aborts, plan.max_rounds, asked)
        if plan.pd:
            return self._run_pair(options)
        modules = [self._recorded("F", rank) for rank in range(plan.ranks)]
        observers = [_Observer(self._recorders, ("F", rank)) for rank in range(plan.ranks)]
        if plan.ranks == 1:
            summary = run_workload(
                modules[0], plan.scheduler, self._workload, options, clock=self._clock, observer=observers[0]
            )
        else:
            summary = run_ranks(
                modules, plan.scheduler, self._workload, options, plan.perturbation, clock=self._clock,
                observers=observers,
            )  # fmt: skip
        self._summaries["F/0"] = summary
        return self._summaries

    def _run_pair(self, options: RunOptions) -> dict[str, RunSummary]:
        scheduler = self._plan.scheduler
        prefill, decode = (
            PairNode(self._recorded(node, 0), scheduler, _Observer(self._recorders, (node, 0))) for node in ("P", "D")
        )
        pair = run_pair(prefill, decode, self._workload, options, self._plan.link, clock=self._clock)
        self._summaries |= {"P/0": pair.prefill, "D/0": pair.decode}
        return self._summaries

    def _recorded(self, node: str, rank: int) -> Any:
        module = self._module

        def open_recorder(config: Any) -> Recorder:
            recorder = self._writer.recorder(
                node=node, rank=rank, config=describe_config(config), engine=engine_of(module),
                event_reader=event_reader(module), now_ns=self._clock.now_ns, clock="virtual", rule_set=RULE_SET,
                level=self._level,
            )  # fmt: skip
            self._recorders[node, rank] = recorder
            return recorder

        return recording_module(module, open_recorder, observed=self._level == "decisions")


def _check_config(module: Any, plan: RunPlan) -> None:
    roles = (Role.P, Role.D) if plan.pd else (Role.FUSED,)
    for role in roles:
        overlap = 0 if role is Role.P else plan.scheduler.overlap_schedule_depth
        try:
            module.Scheduler(replace(plan.scheduler, role=role, overlap_schedule_depth=overlap).build(module))
        except (ValueError, TypeError) as error:
            raise RefusedConfig(str(error)) from error
        except MemoryError as error:
            pages = f"{plan.scheduler.num_device_pages:,} device and {plan.scheduler.num_host_pages:,} host pages"
            raise RefusedConfig(f"there is no memory for {pages}") from error


class _Observer:
    """Passes what the engine tells an observer to the recorder of one node, which exists once its scheduler does."""

    def __init__(self, recorders: dict[tuple[str, int], Recorder], key: tuple[str, int]) -> None:
        self._recorders, self._key = recorders, key

    def arrivals(self, arrivals: Any) -> None:
        """Arrivals of the next submit call."""
        self._recorders[self._key].arrivals(arrivals)

    def forward(self, start_ns: int, end_ns: int) -> None:
        """Device interval of the last plan's batch."""
        self._recorders[self._key].forward(start_ns, end_ns)
