"""A what-if from the middle: the recorded calls up to a round, made again as they were, then a turned knob.

Until the turn the loop only keeps its books: the port makes the recorded calls in its place, arrivals and results
come in the rounds in which they were recorded, and the clock follows the recorded times. At the turn the scheduler is
rebuilt from a snapshot of itself in which the knob stands elsewhere; from then on the run is as any other.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from heapq import heappop
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tsviz.engine.arrivals import Arrivals
from tsviz.engine.clock import VirtualClock
from tsviz.engine.observe import Arrival
from tsviz.engine.workloads.model import WorkRequest
from tsviz.replay.reexecution.call_log import Call, CallLog
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.rows.lifetimes import column
from tsviz.trace import entries as e
from tsviz.trace.api_events import make_execution_event, make_spec
from tsviz.trace.reader import Part

from .knobs import Change
from .source import CannotRetime, Source
from .turn import RefusedConfig, turned


class Script:
    """What the recording says of the rounds in front of the turn; the turn is right before the plan of `at_round`."""

    def __init__(self, source: Source, module: Any, at_round: int) -> None:
        """Prove the prefix on `module`. Raises CannotRetime, and `TraceError` when a table cannot be read."""
        part = source.part
        if not 1 <= at_round <= part.last_round:
            raise CannotRetime(f"round {at_round}: expected one of 1 to {part.last_round}")
        if not hasattr(module.Scheduler, "restore"):
            raise CannotRetime(f"round {at_round}: only the twin can change its configuration while it runs")
        if at_round > 1:
            proof = verify(part, module, until=at_round - 1)
            if proof.divergence is not None:
                where = proof.divergence
                raise CannotRetime(f"round {where.round}: {where.field} is made otherwise than it was recorded")
        self.at_round = at_round
        self.source = source
        self._by_round: dict[int, list[tuple[WorkRequest, Arrival]]] = defaultdict(list)
        self._read_submissions(part)
        self._landed_ns: dict[int, int] = self._landings(part)
        forwards = part.table("forwards")
        numbers, ends = column(forwards, "round").tolist(), column(forwards, "end_ns").tolist()
        self._forward_end_ns: dict[int, int] = dict(zip(numbers, ends, strict=True))
        self.acknowledged = self._acknowledged(part)

    def start_ns(self, round_: int) -> int:
        """Return when a round in front of the turn began; the turn itself for later ones."""
        found = self.source.start_ns(min(round_, self.at_round))
        return found if found is not None else self.source.origin_ns

    def landed_ns(self, round_: int) -> int:
        """Return when the results of a round's batch came to the scheduler."""
        return self._landed_ns.get(round_, self.start_ns(round_ + 1))

    def forward_end_ns(self, round_: int) -> int:
        """Return when the device was done with a round's batch, as far as the recording tells."""
        return self._forward_end_ns.get(round_, self.landed_ns(round_))

    def submitted(self, round_: int) -> list[tuple[WorkRequest, Arrival]]:
        """Return who was submitted in front of the plan of a round, up to the turn."""
        return list(self._by_round.get(round_, ()))

    def calls(self) -> Iterator[Call]:
        """Iterate over the recorded calls up to the turn, the plan at it left out."""
        for call in CallLog(self.source.part):
            if call.round > self.at_round or (call.round == self.at_round and call.kind == e.PLAN):
                return
            yield call

    def _read_submissions(self, part: Part) -> None:
        table = part.table("submissions")
        rounds = dict(zip(column(table, "submission").tolist(), column(table, "round").tolist(), strict=True))
        for request in self.source.requests:
            submission = request.prompt[0].source
            if rounds[submission] <= self.at_round:
                arrival = Arrival(self.source.arrival_ns(submission), request.after, request.think_ns)
                self._by_round[rounds[submission]].append((request, arrival))

    def _landings(self, part: Part) -> dict[int, int]:
        """Return when the results of each round came, and check that the loop would have had the same ones out."""
        events, calls = part.table("events"), part.table("calls")
        results = _is_result(events)
        came, cause = column(events, "round")[results], column(events, "cause_round")[results]
        times = column(calls, "time_ns")[np.searchsorted(column(calls, "seq"), column(events, "call_seq")[results])]
        out_since = self.at_round - part.config["overlap_schedule_depth"]
        known = cause > 0
        early = known & (came <= self.at_round) & (cause >= out_since)
        late = known & (came > self.at_round) & (cause < out_since)
        if early.any() or late.any():
            raise CannotRetime(
                f"round {self.at_round}: expected the results of rounds from {out_since} on to be out and no others;"
                f" found {int(early.sum())} that had come and {int(late.sum())} older ones that had not"
            )
        return dict(zip(cause[known].tolist(), times[known].tolist(), strict=True))

    def _acknowledged(self, part: Part) -> frozenset[int]:
        events = part.table("events")
        ops = column(events, "op_id")[column(events, "round") <= self.at_round]
        return frozenset(ops[ops >= 0].tolist())


def _is_result(events: Any) -> Any:
    return pc.equal(events["kind"], e.EXTEND_RESULT).to_numpy()


class Conductor:
    """Where one run stands in a script. `turned` once the plan at the turn was asked for."""

    def __init__(self, script: Script, changes: Sequence[Change]) -> None:
        self.script, self.changes = script, changes
        self.round = 0
        self.turned = False
        self._calls = script.calls()
        self._next = next(self._calls, None)

    def make_until(self, module: Any, scheduler: Any, *, plan: bool) -> Any:
        """Make the recorded calls of the current round that were not made yet; with `plan` return its plan."""
        while (call := self._next) is not None and call.round <= self.round:
            if call.kind == e.PLAN and not plan:
                return None
            self._next = next(self._calls, None)
            if call.kind == e.PLAN and call.outcome != "ok":
                raise CannotRetime(f"round {call.round}: the plan raised {call.outcome}; nothing goes on behind it")
            made = None
            with suppress(Exception) if call.outcome != "ok" else nullcontext():
                made = _make(module, scheduler, call)
            if call.kind == e.PLAN:
                return made
        return None

    def turn(self, scheduler: Any) -> Any:
        """Return the scheduler that goes on: with changes it is rebuilt from a changed snapshot."""
        self.turned = True
        if not self.changes:
            return scheduler
        changed = turned(scheduler.snapshot(), self.changes)
        try:
            return type(scheduler).restore(changed)
        except ValueError as error:
            raise RefusedConfig(str(error)) from error


def _make(module: Any, scheduler: Any, call: Call) -> Any:
    match call.kind:
        case e.PLAN:
            return scheduler.next_execution_plan()
        case e.SUBMIT:
            return scheduler.submit_requests([make_spec(module, spec) for spec in call.specs])
        case e.ADVANCE:
            return scheduler.advance(make_execution_event(module, call.events))
        case e.CLEAR | e.CLEAR_L1 | e.DRAIN:
            return getattr(scheduler, call.kind)()
    raise CannotRetime(f"call {call.seq}: a what-if cannot make a call {call.kind} again")


class ScriptedClock(VirtualClock):
    """A clock that never passes the beginning of the next recorded round while the script lasts."""

    def __init__(self, conductor: Conductor) -> None:
        super().__init__(conductor.script.source.origin_ns)
        self._conductor = conductor

    def wait_until_ns(self, at_ns: int) -> None:
        """Wait; in front of the turn no longer than the recording did."""
        conductor = self._conductor
        if not conductor.turned:
            at_ns = min(at_ns, conductor.script.start_ns(conductor.round + 1))
        super().wait_until_ns(at_ns)


class RestArrivals(Arrivals):
    """The arrivals that the script does not make: everything in it is dropped when its time comes."""

    def __init__(self, requests: Iterable[WorkRequest], script: Script) -> None:
        super().__init__(requests)
        self._scripted = {
            request.prompt[0].source for round_ in range(script.at_round + 1) for request, _ in script.submitted(round_)
        }

    def next_ns(self) -> int | None:
        """Return the time of the next arrival that the script does not make."""
        while self._heap and self._heap[0][2].prompt[0].source in self._scripted:
            heappop(self._heap)
        return super().next_ns()

    def take(self, now_ns: int) -> Sequence[tuple[WorkRequest, Arrival]]:
        """Remove and return who has arrived by `now_ns` and was not submitted by the script."""
        return [taken for taken in super().take(now_ns) if taken[0].prompt[0].source not in self._scripted]
