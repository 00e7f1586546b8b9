"""Live states: what a straight run has at each stop, wherever one comes from."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from tsviz.replay.live.as_bytes import from_bytes, to_bytes
from tsviz.replay.live.run import Known, LiveRun, Place
from tsviz.replay.live.state import Seen, live_state, plan_rows
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.reexecution.keyframe_files import KeyframeFiles
from tsviz.replay.reexecution.run import Reexecution
from tsviz.replay.slice import write_slice
from tsviz.scheduler import compat
from tsviz.scheduler import decisions as d
from tsviz.scheduler.snapshot import capture
from tsviz.trace import entries as e
from tsviz.trace.reader import Part, open_bundle

from .apart_runs import locked, record

TRACES = Path(__file__).resolve().parents[2] / "traces"


class _Straight:
    """Runs a part from its start under observation and keeps the bytes of the state at every stop."""

    def __init__(self, part: Part) -> None:
        self.states: dict[Place, bytes] = {}
        self._execution = Reexecution(part, compat, observer=self)
        self._core: Any = self._execution.scheduler.core
        for executed in self._execution:
            if executed.call.kind == e.PLAN:
                plan = self._last
                self._keep((executed.call.round, None), plan)

    def __call__(self, round_: int, stop: int, decision: d.Decision) -> None:
        core = self._core
        if core.building:
            self._last = core.plan_so_far
            if isinstance(decision, d.STOPS):
                self._keep((round_, stop), self._last)

    def _keep(self, place: Place, plan: Any) -> None:
        snapshot = capture(self._core)
        known = {r.request_id: self._execution.submission(r.request_id) for r in snapshot.requests}
        rows, zeroed = (), ()
        if plan is not None:
            rows, zeroed = plan_rows(plan), plan.zero_pages or ()
        self.states[place] = to_bytes(live_state(Seen(*place, snapshot, rows, zeroed, known)))


def _bytes(run: LiveRun, place: Place) -> bytes:
    seen = run.look(place)
    assert seen is not None
    return to_bytes(live_state(seen))


@pytest.fixture(params=["mixed-stall", "bounded-replay", "head-of-line", "prefill-decode-pair", "retract-and-grant"])
def part(request: pytest.FixtureRequest) -> Part:
    """The first part of an incident."""
    return open_bundle(TRACES / request.param).parts[0]


def test_any_stop_in_any_order_is_as_in_a_straight_run(part: Part) -> None:
    """At 60 random places, jumped to without order, the state has the bytes that a run without a jump has there."""
    straight, run = _Straight(part).states, LiveRun(part)
    run.verify_for(60)
    assert run.done and run.divergence is None
    places, dice = sorted(straight, key=lambda at: (at[0], at[1] or 0)), Random(1)
    for place in dice.choices(places, k=60):
        assert _bytes(run, place) == straight[place], place


def test_back_equals_forward(part: Part) -> None:
    """Rounds stepped through from the last to the first show the states of the same rounds stepped forward."""
    one, other = LiveRun(part), LiveRun(part)
    for run in (one, other):
        run.verify_for(60)
    places: list[Place] = [(round_, None) for round_ in range(1, min(part.last_round, 60) + 1)]
    forward = [_bytes(one, place) for place in places]
    assert [_bytes(other, place) for place in reversed(places)] == forward[::-1]


def test_a_state_survives_its_bytes(part: Part) -> None:
    """What a worker says is read back as the same bytes, queues and holders."""
    run = LiveRun(part)
    run.verify_for(60)
    seen = run.look((part.last_round // 2, None))
    assert seen is not None
    state = live_state(seen)
    again = from_bytes(to_bytes(state))
    assert to_bytes(again) == to_bytes(state)
    assert again.requests == state.requests and again.rows == state.rows and again.tickets == state.tickets


def test_keyframes_of_an_index_lead_to_the_same_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: Part
) -> None:
    """From keyframes of every seventh round, states are as in a straight run; a lost file is no harm."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path))
    monkeypatch.setattr("tsviz.replay.reexecution.derive.KeyframeWriter", _every_seventh)
    index = build_index(part)
    straight = _Straight(part).states
    files = KeyframeFiles(index.directory, part)
    assert files.rounds == list(range(8, part.last_round + 2, 7))
    for lost in (False, True):
        if lost:
            (index.directory / "keyframes" / "0.block").write_bytes(b"gone")
        run = LiveRun(part, Known(KeyframeFiles(index.directory, part), index.last_round, None))
        for place in Random(2).choices(sorted(straight, key=lambda at: (at[0], at[1] or 0)), k=25):
            assert _bytes(run, place) == straight[place], place


def _every_seventh(directory: Path, part: Part) -> Any:
    from tsviz.replay.reexecution.keyframe_files import KeyframeWriter

    return KeyframeWriter(directory, part, every_rounds=7)


def test_states_of_a_slice_are_those_of_the_whole(tmp_path: Path) -> None:
    """Requests, tables, pages and turns of eviction at the end of round 33 are the same in the whole and in a slice."""
    whole = record(locked(), tmp_path / "whole")
    write_slice(whole, whole.parts[0], 30, 45, tmp_path / "slice")
    runs = [LiveRun(whole.parts[0]), LiveRun(open_bundle(tmp_path / "slice").parts[0])]
    states = []
    for run in runs:
        run.verify_for(60)
        seen = run.look((33, None))
        assert seen is not None
        states.append(live_state(seen))
    named = [[(r.request, r.state, r.queue, r.place, r.tables, r.computed_tokens) for r in s.requests] for s in states]
    assert named[0] == named[1]
    for column in ("owners", "kind", "epoch", "eviction"):
        assert getattr(states[0].tier.groups[0], column).tolist() == getattr(states[1].tier.groups[0], column).tolist()
