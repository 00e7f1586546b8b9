"""Live states of a part: re-executed from the nearest keyframe, verified on the way, the neighbours kept.

This runs in the worker of a session (`worker.py`), never in the process that shows.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.reexecution.call_log import CallLog
from tsviz.replay.reexecution.keyframe_files import KeyframeFiles
from tsviz.replay.reexecution.run import Executed, Reexecution
from tsviz.replay.reexecution.verify import Divergence, compare
from tsviz.replay.rows.rows_from import some
from tsviz.scheduler import compat
from tsviz.scheduler import decisions as d
from tsviz.scheduler.binding.plan import core_plan
from tsviz.scheduler.snapshot import capture
from tsviz.trace import entries as e
from tsviz.trace.builder import TableBuilder, Vocabulary
from tsviz.trace.decided import DECIDED, DecisionRows
from tsviz.trace.reader import Part

from .state import LiveRow, Seen, plan_rows

Place = tuple[int, int | None]
"""Round and stop: 0 right before the plan, None behind it."""

SPACING_SECONDS = 0.15
"""CPU time of re-execution between two keyframes in memory: a live state costs half of it in the mean."""
_FRAMES, _SEEN, _NEAR = 256, 96, 12
_LEAST = 32
_PAGES = 4_000_000
"""So many pages of pools are held in keyframes in memory, and half as many in states: about 48 bytes each."""
_BEHIND, _JUMPED = 24, 3
"""So many rounds in front of the one that is asked for are kept too, when somebody goes back and after a jump: going
back costs what going forward does."""
_STOPS = 12


@dataclass(frozen=True, slots=True)
class Known:
    """What an index knows: keyframes, the last verified round, and where the twin left the recording."""

    frames: KeyframeFiles
    verified: int
    divergence: Divergence | None


@dataclass(slots=True)
class _Watch:
    """An observer that keeps what it is told of one round, and looks at the scheduler at the stops that are wanted."""

    round: int
    wanted: Callable[[int], bool]
    core: Any = None
    told: list[tuple[int, d.Decision]] = field(default_factory=list)
    seen: list[tuple[int, Any, Any]] = field(default_factory=list)

    def __call__(self, round_: int, stop: int, decision: d.Decision) -> None:
        if round_ != self.round:
            return
        self.told.append((stop, decision))
        if isinstance(decision, d.STOPS) and self.wanted(stop):
            self.seen.append((stop, capture(self.core), self.core.plan_so_far))


@dataclass(frozen=True, slots=True)
class Told:
    """What was decided in a round: the numbers of its stops, and its rows of the decided tables."""

    stops: tuple[int, ...]
    rows: dict[str, pa.RecordBatch]


def decided_rows(
    round_: int, told: list[tuple[int, d.Decision]], submission: Callable[[str], int]
) -> dict[str, pa.RecordBatch]:
    """Return decisions of a round as rows of their tables."""
    requests, words = Vocabulary(), Vocabulary()
    builders = {name: TableBuilder(table, requests, words) for name, table in DECIDED.items()}
    rows = DecisionRows(builders, submission)
    for stop, decision in told:
        rows.add(round_, stop, decision)
    rows.settle()
    return {name: builder.take() for name, builder in builders.items() if builder.rows}


@dataclass(slots=True)
class _Line:
    """A re-execution on its way: the next round whose first call it would make."""

    execution: Reexecution
    calls: Iterator[Executed]
    round: int


class LiveRun:
    """What the worker knows of a part. `verified` is the frontier: the last round that was made again and is equal."""

    def __init__(self, part: Part, known: Known | None = None) -> None:
        """`known`: keyframes and the frontier of an index. Raises `NoKeyframe`, `TraceError`."""
        self.part, self._known = part, known
        self.first: int = part.meta.get("starts_at", 1)
        self.recorded = part.last_round
        self.divergence: Divergence | None = None
        self._frames: dict[int, Keyframe] = {}
        self._spacing = SPACING_SECONDS
        self._spent = 0.0
        self._digests = compare(part)
        self._seen: OrderedDict[Place, Seen] = OrderedDict()
        self._told: OrderedDict[int, Told] = OrderedDict()
        self._ahead: _Line | None = None
        self._near: OrderedDict[int, Keyframe] = OrderedDict()
        self._call_rounds = some(part, "calls", ("round",))["round"].to_numpy()
        if known is None:
            execution = Reexecution(part, compat)
            self._log = execution.log
            self._main: _Line | None = _Line(execution, iter(execution), self.first)
            self._frames[self.first] = execution.keyframe()
            self.verified = self.first - 1
        else:
            self._main, self._log = None, CallLog(part, columns=True)
            self._frames[self.first] = Reexecution(part, compat, log=self._log).keyframe()
            self.verified, self.divergence = known.verified, known.divergence

    @property
    def done(self) -> bool:
        """Whether verification is at its end: at the last recorded round, or at a divergence."""
        return self._main is None

    def verify_for(self, seconds: float) -> None:
        """Verify on for a while, leaving keyframes behind."""
        line = self._main
        begin = time.thread_time()
        while line is not None:
            if not self._round(line):
                self._main = line = None
                break
            self.verified = line.round - 1
            now = time.thread_time()
            if self._spent + now - begin >= self._spacing:
                self._keep(line.execution.keyframe())
                self._spent, begin, seconds = 0.0, now, seconds - (now - begin)
            if now - begin >= seconds:
                break
        self._spent += time.thread_time() - begin

    def _keep(self, frame: Keyframe) -> None:
        self._frames[frame.round] = frame
        if len(self._frames) > self._most(_FRAMES, _PAGES):
            for round_ in sorted(self._frames)[1::2]:
                del self._frames[round_]
            self._spacing *= 2

    def _most(self, count: int, pages: int) -> int:
        """Return how many states to keep, at most `count`, so that their pools have at most so many pages."""
        config = self.part.config
        held = int(config["num_device_pages"]) + int(config["num_host_pages"])
        return max(_LEAST, min(count, pages // max(1, held)))

    def _round(self, line: _Line) -> Executed | None:
        """Make the calls of one round and its plan; None at the end of the recording or where the twin leaves it."""
        for executed in line.calls:
            divergence = self._digests.check(executed)
            if divergence is not None:
                if self.divergence is None:
                    self.divergence = divergence
                return None
            if executed.call.kind == e.PLAN:
                line.round = executed.call.round + 1
                return executed
        return None

    def seen(self, place: Place) -> Seen | None:
        """Return the scheduler at a place that is kept; None when it has to be made again."""
        found = self._seen.get(place)
        if found is not None:
            self._seen.move_to_end(place)
        return found

    def look(self, place: Place) -> Seen | None:
        """Return the scheduler at a place of a verified round, and keep its neighbours.

        A stop of which nothing is told stands for the one before it. None where the twin leaves the recording.
        """
        round_, stop = place
        if self.seen(place) is None and stop is None:
            self._run_to(round_)
        elif self.seen(place) is None and stop is not None:
            stop = max(number for number in (0, *self.told(round_).stops) if number <= stop)
            if self.seen((round_, stop)) is None:
                self._watch_round(round_, stop)
        return self.seen((round_, stop))

    def _calls_before_plan(self, round_: int) -> int:
        first, end = (int(np.searchsorted(self._call_rounds, round_, side)) for side in ("left", "right"))
        return end - first - (round_ <= self.recorded)

    def told(self, round_: int) -> Told:
        """Return what was decided in a verified round, up to the next plan."""
        if round_ not in self._told:
            self._watch_round(round_, 0)
        return self._told[round_]

    def _run_to(self, round_: int) -> None:
        """Look at the ends of a round and of those in front of it."""
        line = self._ahead
        behind = _JUMPED
        if line is None or not round_ - _JUMPED <= line.round <= round_:
            if (round_ + 1, None) in self._seen:
                behind = _BEHIND
            frame = self._nearest(max(self.first, round_ + 1 - behind))
            line = self._ahead = self._line(frame)
        while line.round <= round_:
            at = line.round
            executed = self._round(line)
            if executed is None:
                self._ahead = None
                return
            if at > round_ - behind:
                self._look_behind(line, at, executed)

    def _look_behind(self, line: _Line, round_: int, executed: Executed) -> None:
        plan = None if executed.plan is None else core_plan(executed.plan)
        rows: tuple[LiveRow, ...] = () if plan is None else plan_rows(plan)
        zeroed = () if plan is None else plan.zero_pages or ()
        self._put(line, (round_, None), capture(line.execution.scheduler.core), rows, zeroed)

    def _put(self, line: _Line, place: Place, snapshot: Any, rows: Any, zeroed: Any) -> None:
        known = {r.request_id: line.execution.submission(r.request_id) for r in snapshot.requests}
        self._seen[place] = Seen(*place, snapshot, rows, zeroed, known)
        self._seen.move_to_end(place)
        while len(self._seen) > self._most(_SEEN, _PAGES // 2):
            self._seen.popitem(last=False)

    def _watch_round(self, round_: int, stop: int) -> None:
        """Make one round again under observation: all its stops, and the scheduler at those around `stop`."""
        frame = self._before(round_)
        watch = _Watch(round_, lambda number: abs(number - stop) <= _STOPS or number <= 1)
        line = self._line(frame, watch)
        for _ in range(self._calls_before_plan(round_)):
            self._digests.check(next(line.calls))
        core = watch.core = line.execution.scheduler.core
        self._put(line, (round_, 0), capture(core), (), ())
        done = self._round(line)
        if done is not None:
            self._look_behind(line, round_, done)
            self._remember(line.execution.keyframe())
            for _ in range(self._calls_before_plan(round_ + 1)):
                self._digests.check(next(line.calls))
        for number, snapshot, plan in sorted(watch.seen, key=lambda item: -abs(item[0] - stop)):
            self._put(line, (round_, number), snapshot, plan_rows(plan), plan.zero_pages or ())
        stops = tuple(number for number, decision in watch.told if isinstance(decision, d.STOPS))
        self._told[round_] = Told(stops, decided_rows(round_, watch.told, line.execution.submission))
        while len(self._told) > _SEEN:
            self._told.popitem(last=False)

    def _nearest(self, round_: int) -> Keyframe:
        """Return the last keyframe at or in front of a round that is to hand."""
        held = max(at for frames in (self._frames, self._near) for at in frames if at <= round_)
        if self._known is not None:
            while (at := self._known.frames.nearest(round_)) > held:
                frame = self._known.frames.load(at)
                if frame is not None:
                    return self._remember(frame)
        return self._frames.get(held) or self._near[held]

    def _remember(self, frame: Keyframe) -> Keyframe:
        self._near[frame.round] = frame
        self._near.move_to_end(frame.round)
        while len(self._near) > _NEAR:
            self._near.popitem(last=False)
        return frame

    def _before(self, round_: int) -> Keyframe:
        """Return the state before the first call of a round."""
        frame = self._nearest(round_)
        if frame.round == round_:
            return frame
        line = self._line(frame)
        while line.round < round_ and self._round(line) is not None:
            pass
        return self._remember(line.execution.keyframe())

    def _line(self, frame: Keyframe, watch: _Watch | None = None) -> _Line:
        options = {} if watch is None else {"observer": watch}
        execution = Reexecution(self.part, compat, start=frame, log=self._log, reads=False, **options)
        return _Line(execution, iter(execution), frame.round)
