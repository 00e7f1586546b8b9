"""Mirrored schedulers: every rank gets the same calls, rank 0 drives the device, one rank may be perturbed.

Nothing is detected here: all ranks run, so that their traces can be compared. Only where a rank that has gone its own
way would refuse a call (or, for a result nobody waits for, end the process) does the run end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tsviz.engine.arrivals import Arrivals
from tsviz.engine.binding import Plan, SchedulerModule
from tsviz.engine.clock import VirtualClock
from tsviz.engine.configs import SchedulerOptions
from tsviz.engine.drive import Ending, drive
from tsviz.engine.events import Aborted, Event, Extended, Finished, Retracted
from tsviz.engine.observe import Arrival, RunObserver
from tsviz.engine.port import SchedulerPort, SchedulerRaised, StorageKey, Submission
from tsviz.engine.run import RunOptions, build_loop
from tsviz.engine.summary import EndReason, RunSummary
from tsviz.engine.workloads.model import Workload


class PerturbationKind(Enum):
    """In what a rank differs."""

    PAGE_FEWER = "page_fewer"
    """One device page fewer, from the start."""
    LATE_EVENT = "late_event"
    """One event is applied a round later."""
    MISSING_KEY = "missing_key"
    """One storage key is not registered."""


@dataclass(frozen=True, slots=True)
class Perturbation:
    """One rank's difference: the first event or key once `from_plan` plans were made.

    `event` names its type in `engine.events`, such as `Stored` or `Finished`; None takes any.
    """

    kind: PerturbationKind
    rank: int
    from_plan: int = 0
    event: str | None = None


class RankFailed(Exception):
    """A rank refused what rank 0 accepted."""

    def __init__(self, rank: int, plans: int, why: str) -> None:
        super().__init__(f"rank {rank}, after {plans} plans: {why}")


class _Rank:
    """A rank other than 0: its port, its perturbation, and which rows it has out."""

    def __init__(self, number: int, port: SchedulerPort, perturbation: Perturbation | None) -> None:
        self.number = number
        self.port = port
        self._perturbation = perturbation
        self._late: list[Event] = []
        self._out: Counter[str] = Counter()

    def plan(self) -> None:
        """Plan, remember the rows, and apply the event that comes a round late."""
        for batch in self.port.plan().forward:
            self._out.update(batch.request_ids)
        late, self._late = self._late, []
        self._apply(late)

    def advance(self, events: Sequence[Event], plans: int) -> None:
        """Apply the events, less the one that is to come late.

        Raises:
            ValueError: a result comes for a row that this rank has not out; the scheduler would end the process.
        """
        kept = list(events)
        if self._is_due(PerturbationKind.LATE_EVENT, plans):
            name = self._perturbation.event if self._perturbation is not None else None
            for i, event in enumerate(kept):
                if name is None or type(event).__name__ == name:
                    self._late.append(kept.pop(i))
                    self._perturbation = None
                    break
        self._apply(kept)

    def register_storage(self, keys: Sequence[StorageKey], plans: int) -> None:
        """Register, less the key that is missing here."""
        if self._is_due(PerturbationKind.MISSING_KEY, plans):
            keys = keys[1:]
            self._perturbation = None
        if keys:
            self.port.register_storage(keys)

    def _is_due(self, kind: PerturbationKind, plans: int) -> bool:
        p = self._perturbation
        return p is not None and p.kind is kind and plans >= p.from_plan

    def _apply(self, events: Sequence[Event]) -> None:
        for event in events:
            self._check(event)
        if events:
            self.port.advance(events)

    def _check(self, event: Event) -> None:
        if isinstance(event, Extended):
            request_id = event.request_id
            if self._out[request_id] > 0:
                self._out[request_id] -= 1
            elif self.port.scheduler.request_token_size(request_id) >= 0:
                raise ValueError(f"a result for {request_id!r}, of which this rank has no forward out")
        elif isinstance(event, Aborted | Finished | Retracted):
            self._out.pop(event.request_id, None)


class MirroredPort(SchedulerPort):
    """A port to rank 0 that repeats every state-changing call on the other ranks."""

    def __init__(self, modules: Sequence[SchedulerModule], options: SchedulerOptions, p: Perturbation | None) -> None:
        """Make one scheduler a module.

        Raises:
            ValueError: a rank that does not exist, or rank 0, is to be perturbed.
        """
        if p is not None and not 1 <= p.rank < len(modules):
            raise ValueError(f"expected a perturbed rank in 1..{len(modules) - 1}, found {p.rank}")
        super().__init__(modules[0], options.build(modules[0]))
        self._plans = 0
        self._others = []
        for number, module in enumerate(modules[1:], start=1):
            own = options
            if p is not None and p.rank == number and p.kind is PerturbationKind.PAGE_FEWER:
                own = replace(options, num_device_pages=options.num_device_pages - 1)
            port = SchedulerPort(module, own.build(module))
            self._others.append(_Rank(number, port, p if p is not None and p.rank == number else None))

    def submit(self, submissions: Sequence[Submission]) -> None:
        """Submit on every rank."""
        super().submit(submissions)
        self._on_others(lambda rank: rank.port.submit(submissions))

    def advance(self, events: Sequence[Event]) -> None:
        """Apply on every rank."""
        super().advance(events)
        self._on_others(lambda rank: rank.advance(events, self._plans))

    def plan(self) -> Plan:
        """Plan on every rank; return rank 0's."""
        plan = super().plan()
        self._on_others(_Rank.plan)
        self._plans += 1
        return plan

    def drain_kv_events(self) -> int:
        """Drain on every rank; count rank 0's."""
        self._on_others(lambda rank: rank.port.drain_kv_events())
        return super().drain_kv_events()

    def register_storage(self, keys: Sequence[StorageKey]) -> None:
        """Register on every rank."""
        super().register_storage(keys)
        self._on_others(lambda rank: rank.register_storage(keys, self._plans))

    def unregister_storage(self, keys: Sequence[StorageKey]) -> None:
        """Unregister on every rank."""
        super().unregister_storage(keys)
        self._on_others(lambda rank: rank.port.unregister_storage(keys))

    def _on_others(self, call: Callable[[_Rank], object]) -> None:
        for rank in self._others:
            try:
                call(rank)
            except (SchedulerRaised, RuntimeError, ValueError) as error:
                raise RankFailed(rank.number, self._plans, str(error)) from error


class _Observers:
    """Passes on what it hears to every rank's observer."""

    def __init__(self, observers: Sequence[RunObserver]) -> None:
        self._observers = observers

    def arrivals(self, arrivals: Mapping[str, Arrival]) -> None:
        for observer in self._observers:
            observer.arrivals(arrivals)

    def forward(self, start_ns: int, end_ns: int) -> None:
        for observer in self._observers:
            observer.forward(start_ns, end_ns)


def run_ranks(
    modules: Sequence[SchedulerModule],
    scheduler: SchedulerOptions,
    workload: Workload,
    run: RunOptions,
    perturbation: Perturbation | None = None,
    *,
    clock: VirtualClock | None = None,
    observers: Sequence[RunObserver] = (),
) -> RunSummary:
    """Run a workload on one fused scheduler a module, all fed alike; return what rank 0 came to.

    Raises ValueError for a perturbed rank that is not there and for a configuration that a scheduler refuses.
    """
    clock = clock or VirtualClock()
    port = MirroredPort(modules, scheduler, perturbation)
    observer = _Observers(observers) if observers else None
    loop = build_loop(port, scheduler, Arrivals(workload.requests), run, clock, observer=observer)
    try:
        ending = drive([loop], clock)
    except RankFailed as failure:
        ending = Ending(EndReason.RANK_FAILED, str(failure))
    return loop.summary(*ending)
