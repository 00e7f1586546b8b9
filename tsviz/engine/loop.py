"""The event loop: one round after the other, in the exact order of `executor-rules.md` section 1.

A loop is a generator of *waits*: it never sleeps itself, so that a driver can run it alone or join the two nodes of a
P/D pair on one clock. It is one object because a round is one procedure over one set of live requests; what a round
delegates (intake, storage, device, link) has a module of its own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tsviz.engine.binding import Plan
from tsviz.engine.clock import Clock
from tsviz.engine.device import DeviceHandle, ForwardResult, PendingForward, Planned
from tsviz.engine.events import (
    Aborted,
    Event,
    Extended,
    Finished,
    Loaded,
    PeerFailed,
    RemotePrefillDone,
    Reserved,
    Retracted,
    Stored,
    Succeeded,
)
from tsviz.engine.faults import ClientAborts
from tsviz.engine.intake import Intake
from tsviz.engine.observe import RunObserver
from tsviz.engine.port import Port, Submission
from tsviz.engine.reading import read_plan
from tsviz.engine.remote import RemoteSide
from tsviz.engine.storage import StorageKeeper
from tsviz.engine.summary import EndReason, RunSummary
from tsviz.engine.workloads.model import WorkRequest, expand

SETTLED_ROUNDS = 3
"""Empty rounds that moved nothing before the loop trusts that only something from outside can change the plan.

One is not enough: a round that retracts may be empty although the next one schedules (`executor-rules.md` section 11).
"""


@dataclass(frozen=True, slots=True)
class LoopOptions:
    """How a node runs: results in flight, width of a decode, what is enabled, what an empty round costs."""

    overlap_schedule_depth: int = 0
    decode_input_tokens: int = 1
    prefill_only: bool = False
    kv_events: bool = False
    empty_round_ns: int = 0
    max_rounds: int | None = None


class Wait(NamedTuple):
    """Resume the loop not before `until_ns`; an idle loop may as well sleep until something can change its plan."""

    until_ns: int
    idle: bool


@dataclass(slots=True)
class _Live:
    """A submitted request: what it still has to say, and where its unfinished prompt chunk ended (-1: none)."""

    request: WorkRequest
    output_tokens: int
    generated_tokens: int = 0
    chunk_end: int = -1


class _InFlight(NamedTuple):
    """A forward that was launched, with its rows' requests of that time."""

    planned: Planned
    lives: Sequence[_Live]
    pending: PendingForward


class EventLoop:
    """Drives one port and one device; `rounds` is the loop, `summary` what it has come to."""

    def __init__(
        self,
        port: Port,
        device: DeviceHandle,
        clock: Clock,
        intake: Intake,
        options: LoopOptions,
        *,
        storage: StorageKeeper | None = None,
        remote: RemoteSide | None = None,
        aborts: ClientAborts | None = None,
        observer: RunObserver | None = None,
        stop: Callable[[], bool] | None = None,
    ) -> None:
        self._port = port
        self._device = device
        self._clock = clock
        self._intake = intake
        self._options = options
        self._storage = storage
        self._remote = remote
        self._aborts = aborts
        self._observer = observer
        self._stop = stop
        self._live: dict[str, _Live] = {}
        self._in_flight: deque[_InFlight] = deque()
        self._aborting: set[str] = set()
        self._quiet_rounds = 0
        self._sizes: tuple[int, ...] = ()
        self.rounds_done = 0
        self.limit: EndReason | None = None
        self._scheduled_rounds = self._scheduled_rows = self._retractions = self._kv_events = 0
        self._submitted = self._finished = self._aborted = self._failed = self._generated_tokens = 0

    def rounds(self) -> Iterator[Wait]:
        """Run rounds until the limit or the stop flag, yielding where the loop waits; `limit` then says which."""
        while True:
            if self._stop is not None and self._stop():
                self.limit = EndReason.STOPPED
                return
            if self._options.max_rounds is not None and self.rounds_done >= self._options.max_rounds:
                self.limit = EndReason.MAX_ROUNDS
                return
            yield from self._round()

    @property
    def settled(self) -> bool:
        """Whether another round would plan nothing, unless something comes from outside."""
        return self._quiet_rounds >= (SETTLED_ROUNDS if self._live else 1)

    @property
    def live(self) -> int:
        """How many submitted requests have not ended."""
        return len(self._live)

    @property
    def generated_tokens(self) -> int:
        """How many tokens were generated so far."""
        return self._generated_tokens

    @property
    def not_arrived(self) -> int:
        """How many requests have yet to arrive."""
        return self._intake.not_arrived

    def next_change_ns(self) -> int | None:
        """Return when something from outside (device, link, client) may next change the plan; None: never."""
        times = [self._device.next_change_ns(), self._intake.next_ns(self._live.__contains__)]
        if self._remote is not None:
            times.append(self._remote.next_change_ns())
        if self._aborts is not None:
            times.append(self._aborts.next_ns())
        return min((t for t in times if t is not None), default=None)

    def summary(self, reason: EndReason, detail: str = "") -> RunSummary:
        """Return what the run has come to."""
        return RunSummary(
            reason=reason,
            detail=detail,
            rounds=self.rounds_done,
            scheduled_rounds=self._scheduled_rounds,
            scheduled_rows=self._scheduled_rows,
            submitted=self._submitted,
            finished=self._finished,
            aborted=self._aborted,
            failed=self._failed,
            refusals=tuple(self._intake.refusals),
            live=len(self._live),
            not_arrived=self.not_arrived,
            retractions=self._retractions,
            generated_tokens=self._generated_tokens,
            kv_events=self._kv_events,
            end_ns=self._clock.now_ns(),
        )

    def _round(self) -> Iterator[Wait]:
        """One round: the steps of section 1, in its order."""
        start_ns = self._clock.now_ns()
        moved = self._receive(start_ns)
        moved |= self._advance_head()
        if self._storage is not None:
            self._storage.refresh()
        plan, planned = self._plan()
        planned, retracts = yield from self._prefetch(planned)
        # Before the commits below: they delete the state of requests that may sit in this very batch.
        lives = [self._live[request_id] for request_id in planned.request_ids]
        pending = self._execute(plan, planned, lives)
        tail: list[Event] = []
        yield from self._commit_down_to(self._options.overlap_schedule_depth if pending is not None else 0, tail)
        self._advance_tail(tail, retracts)
        if pending is not None:
            self._quiet_rounds = 0
            return
        self._count_quiet(moved or bool(tail), planned)
        yield Wait(start_ns + self._options.empty_round_ns, idle=True)

    def _receive(self, now_ns: int) -> bool:
        taken = self._intake.take(now_ns, self._live.__contains__)
        if not taken:
            return False
        submissions = []
        for request, arrival in taken:
            tokens = expand(request.prompt)
            if self._storage is not None:
                self._storage.submitting(tokens)
            submissions.append(Submission(request.request_id, tokens, request.max_new_tokens))
            self._live[request.request_id] = _Live(request, request.output_tokens)
            if self._remote is not None:
                self._remote.registered(request)
            if self._aborts is not None:
                self._aborts.arrived(request.request_id, arrival.arrival_ns)
        if self._observer is not None:
            self._observer.arrivals({request.request_id: arrival for request, arrival in taken})
        self._submitted += len(submissions)
        self._port.submit(submissions)
        return True

    def _advance_head(self) -> bool:
        results = self._device.poll_cache_results()
        if results:
            self._port.advance([Stored(r.op_id) if r.is_store else Loaded(r.op_id, r.success) for r in results])
        return bool(results)

    def _plan(self) -> tuple[Plan, Planned]:
        waiting_before = self._port.waiting_size()
        plan = self._port.plan()
        self.rounds_done += 1
        self._intake.reaped()
        planned = read_plan(plan, lambda request_id: self._live[request_id].request)
        remote = [
            len(batch.request_ids) for batch in (planned.remote_prefill, planned.remote_decode) if batch is not None
        ]
        self._scheduled_rows += len(planned.request_ids) + sum(remote)
        admitted = 0 if planned.remote_prefill is None else len(planned.remote_prefill.request_ids)
        for row, prefix in enumerate(planned.extend_prefix_lens):
            live = self._live[planned.request_ids[row]]
            admitted += live.chunk_end != prefix
            end = prefix + planned.input_lengths[row]
            live.chunk_end = end if end < planned.prefill_lengths[row] else -1
        # Waiting requests leave by admission only and come back by retraction only.
        self._retractions += max(0, self._port.waiting_size() - waiting_before + admitted)
        return plan, planned

    def _prefetch(self, planned: Planned) -> Generator[Wait, None, tuple[Planned, Sequence[Retracted]]]:
        """Fetch what the plan wants from storage; return what is left of it, and whom a page that is gone retracts."""
        if self._storage is None:
            return planned, ()
        fetched = self._storage.prefetch(planned)
        for retract in fetched.retracts:
            self._live[retract.request_id].chunk_end = -1
        if fetched.end_ns is not None:
            yield Wait(fetched.end_ns, idle=False)
        return fetched.planned, fetched.retracts

    def _execute(self, plan: Plan, planned: Planned, lives: Sequence[_Live]) -> PendingForward | None:
        pending = self._device.execute(plan, planned)
        if pending is not None:
            self._scheduled_rounds += 1
            self._in_flight.append(_InFlight(planned, lives, pending))
            if self._observer is not None and pending.start_ns is not None and pending.end_ns is not None:
                self._observer.forward(pending.start_ns, pending.end_ns)
        if self._remote is not None:
            self._remote.executed(planned)
        return pending

    def _commit_down_to(self, depth: int, tail: list[Event]) -> Iterator[Wait]:
        """Commit the oldest results, each once it is there, until `depth` are out."""
        while len(self._in_flight) > depth:
            oldest = self._in_flight.popleft()
            if oldest.pending.end_ns is not None:
                yield Wait(oldest.pending.end_ns, idle=False)
            self._commit(oldest, oldest.pending.result(), tail)

    def _advance_tail(self, tail: list[Event], retracts: Sequence[Retracted]) -> None:
        """Tell the scheduler the results in `tail`, and behind them what else happened since the last round."""
        if self._remote is not None:
            self._poll_remote(self._remote, tail)
        tail += retracts
        if self._aborts is not None:
            self._abort(self._aborts, tail)
        if tail:
            self._port.advance(tail)
        if self._options.kv_events:
            self._kv_events += self._port.drain_kv_events()

    def _commit(self, flight: _InFlight, result: ForwardResult, tail: list[Event]) -> None:
        planned, lives, _ = flight
        num_extends = planned.num_extends
        speculates = self._options.decode_input_tokens > 1
        current = self._live
        for row, request_id in enumerate(planned.request_ids):
            live = lives[row]
            if current.get(request_id) is not live:
                continue  # It ended while this forward was out.
            tokens = result.tokens[row]
            if not tokens:
                tail.append(Extended(request_id, ()))
                continue
            left = live.output_tokens - live.generated_tokens
            if len(tokens) > left:
                tokens = tokens[:left]
            live.generated_tokens += len(tokens)
            self._generated_tokens += len(tokens)
            if self._options.prefill_only:
                candidates = result.candidates[row] if result.candidates else ()
                tail.append(Extended(request_id, tokens, candidates))
            else:
                tail.append(Extended(request_id, tokens))
            if row in result.corrupt:
                self._give_up(request_id, tail)
            elif self._options.prefill_only:
                continue
            elif live.generated_tokens >= live.output_tokens or row in result.ended:
                self._finish(request_id, tail)
            elif speculates and row >= num_extends:
                tail.append(Reserved(request_id, len(tokens)))

    def _poll_remote(self, remote: RemoteSide, tail: list[Event]) -> None:
        for event, candidates in remote.poll():
            live = self._live.get(event.request_id)
            if live is None:
                continue  # Late news of a request that has ended.
            tail.append(event)
            if isinstance(event, RemotePrefillDone):
                self._device.land_remote(live.request, event.token, candidates)
                live.generated_tokens = 1
                self._generated_tokens += 1
                if live.output_tokens == 1:
                    self._finish(event.request_id, tail)
            elif isinstance(event, Succeeded):
                self._finished += 1
                self._end(event.request_id)
            elif isinstance(event, PeerFailed):
                if event.request_id in self._aborting:
                    self._aborted += 1
                else:
                    self._failed += 1
                self._end(event.request_id)

    def _abort(self, aborts: ClientAborts, tail: list[Event]) -> None:
        for request_id in aborts.take(self._clock.now_ns()):
            if request_id not in self._live:
                continue
            if self._remote is not None and self._remote.abort(request_id):
                self._aborting.add(request_id)
            else:
                self._give_up(request_id, tail)

    def _finish(self, request_id: str, tail: list[Event]) -> None:
        tail.append(Finished(request_id))
        self._finished += 1
        self._end(request_id)

    def _give_up(self, request_id: str, tail: list[Event]) -> None:
        tail.append(Aborted(request_id))
        self._aborted += 1
        self._end(request_id)

    def _end(self, request_id: str) -> None:
        del self._live[request_id]
        self._aborting.discard(request_id)
        self._device.release(request_id)
        if self._remote is not None:
            self._remote.ended(request_id)
        self._intake.ended(request_id, self._clock.now_ns())

    def _count_quiet(self, moved: bool, planned: Planned) -> None:
        """Count rounds in a row in which nothing was submitted, applied, copied, sent or shifted between states."""
        sizes = self._port.sizes() if self._live else ()
        remote = planned.remote_prefill is not None or planned.remote_decode is not None
        copied = planned.stores is not None or planned.loads is not None
        still = not (moved or remote or copied) and (not self._live or sizes == self._sizes)
        self._sizes = sizes
        self._quiet_rounds = self._quiet_rounds + 1 if still else 0
