"""Sessions: a cursor, live states from a worker, and what becomes of a worker that dies."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import tsviz
from tsviz.replay.live.as_bytes import to_bytes
from tsviz.replay.live.ask import Live, Nothing
from tsviz.replay.live.state import LiveState
from tsviz.replay.session import NoHit, Position, Session
from tsviz.replay.slice import write_slice
from tsviz.trace import layout
from tsviz.trace.catalogue import TABLES
from tsviz.trace.reader import Part, open_bundle
from tsviz.trace.segments import HotSegments

from .apart_runs import locked, record

TRACES = Path(__file__).resolve().parents[2] / "traces"
LONG = 60.0


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def session() -> Iterator[Session]:
    """The start of an incident whose decisions are not recorded: 310 rounds, retractions in 101 and 212."""
    with tsviz.open(TRACES / "retract-and-grant").replay() as opened:
        yield opened


def _state(session: Session) -> LiveState:
    found = session.state(LONG)
    assert isinstance(found, LiveState), found
    return found


def test_a_state_is_that_of_its_round_and_says_what_recorded_facts_say(session: Session) -> None:
    """At rounds forward and back: same requests, same pages in the same slots, same rows as recorded."""
    for round_ in (101, 102, 100, 300, 7):
        session.seek(round_)
        live, recorded = _state(session), session.snapshot()
        assert (live.round, live.stop) == (round_, None)
        assert [r.request for r in live.rows] == [r.request for r in recorded.rows]
        there = {line.request: line for line in recorded.requests if line.state not in ("finished", "aborted")}
        assert {r.request for r in live.requests} == there.keys()
        assert live.tier.empty_blocks == recorded.pool.empty_pages
        for request in live.requests:
            shown = session.snapshot(request.request).tables
            if request.tables and request.scheduled:
                assert [table.pages for table in shown] == [*request.tables]


def test_stops_come_in_order_and_a_step_goes_to_the_next_one(session: Session) -> None:
    """In round 101 the first stop is a phase and the third a candidate; the last step leads behind the plan."""
    session.seek(101, 0)
    stops = session.stops(wait_seconds=LONG)
    assert not isinstance(stops, Nothing)
    assert [(s.number, s.kind) for s in stops[:3]] == [(1, "phase"), (2, "phase"), (3, "candidate")]
    seen = [session.step(by="stop", wait_seconds=LONG) for _ in range(len(stops) + 1)]
    assert seen == [*(Position(101, s.number) for s in stops), Position(101)]
    back = [session.step(-1, by="stop", wait_seconds=LONG) for _ in range(len(stops) + 1)]
    assert back == [*(Position(101, s.number) for s in reversed(stops)), Position(100)]


def test_inside_a_round_the_state_moves_with_the_stops(session: Session) -> None:
    """Round 101 retracts r1 and r3: neither before its plan, both behind it, and in between one after the other."""
    counts = []
    for stop in (0, *(s.number for s in session.stops(101, wait_seconds=LONG)), None):  # type: ignore[union-attr]
        session.seek(101, stop)
        states = {r.request: r.state for r in _state(session).requests}
        counts.append(sum(states[name] == "Retracted" for name in ("r1", "r3")))
    assert (counts[0], counts[-1]) == (0, 2)
    assert counts == sorted(counts) and 1 in counts


def test_stories_by_reexecution_are_those_of_an_index() -> None:
    """Every stop of rounds 95 to 105, derived in the worker, has the words and facts that indexed decisions give."""
    trace = tsviz.open(TRACES / "retract-and-grant")
    with trace.replay() as without:
        found = [without.stops(round_, wait_seconds=LONG) for round_ in range(95, 106)]
    trace.index()
    with trace.replay() as indexed:
        assert [indexed.stops(round_) for round_ in range(95, 106)] == found
        assert indexed.wait_verified(wait_seconds=LONG).words == "verified"
        indexed.seek(101)
        why: Any = indexed.why("r3")
        assert why.request == "r3" and why.round == 101


def test_run_until_goes_to_computed_hits(session: Session) -> None:
    """Two rounds retract more than one request: 101 and 212, from either side; beyond them there is no hit."""
    predicate = "rounds.retracted_requests > 1"
    assert session.run_until(predicate) == Position(101)
    assert session.run_until(predicate) == Position(212)
    assert session.run_until(predicate) == NoHit("no hit behind 212")
    assert session.run_until(predicate, -1) == Position(101)
    assert session.position == Position(101)


def _spoil(part: Part, round_: int) -> None:
    """Write a part anew with another structural digest in one round."""
    tables = {name: part.table(name) for name in TABLES}
    rounds = tables["rounds"]
    digests = [digest ^ (number == round_) for number, digest in enumerate(rounds["digest_structural"].to_pylist(), 1)]
    at = rounds.schema.get_field_index("digest_structural")
    tables["rounds"] = rounds.set_column(at, rounds.schema.field(at), pa.array(digests, pa.uint64()))
    shutil.rmtree(part.directory / layout.COLD)
    segments = HotSegments(part.directory / layout.HOT)
    for name, rows in tables.items():
        for batch in rows.unify_dictionaries().combine_chunks().to_batches():
            segments.append(TABLES[name], batch)
    segments.commit(part.last_round, tables["calls"]["seq"][-1].as_py())
    segments.finish()
    segments.close()


def test_nothing_is_derived_where_the_twin_leaves_the_recording(tmp_path: Path) -> None:
    """With one wrong digest in round 60 states are there up to 59, and from 60 on the divergence is said."""
    bundle = record(locked(), tmp_path / "lock")
    _spoil(bundle.parts[0], 60)
    with tsviz.open(bundle.path).replay() as session:
        proven = session.wait_verified(wait_seconds=LONG)
        assert (proven.verified_round, proven.words) == (59, "diverged at 60")
        session.seek(59)
        assert _state(session).round == 59
        session.seek(60)
        found = session.state(LONG)
        assert isinstance(found, Nothing) and found.cause == "diverged"
        assert isinstance(session.stops(wait_seconds=LONG), Nothing)


def test_a_slice_has_a_session(tmp_path: Path) -> None:
    """It begins at the first round of the slice, and shows the same states as the whole trace."""
    whole = record(locked(), tmp_path / "whole")
    write_slice(whole, whole.parts[0], 30, 45, tmp_path / "slice")
    pages = []
    for path in ("whole", "slice"):
        with tsviz.open(tmp_path / path).replay() as session:
            session.seek(35)
            pages.append([(r.request, r.tables) for r in _state(session).requests])
            first = session.seek(1)
    assert pages[0] == pages[1]
    assert first == Position(30)


def test_a_killed_worker_is_started_again(session: Session) -> None:
    """The state behind a kill is the one before it; a worker that ends again and again is a value that says so."""
    session.seek(101)
    before = to_bytes(_state(session))
    live = session._live
    for _ in range(2):
        assert live._process is not None
        live._process.kill()
        live._process.wait()
        time.sleep(0.2)
        live._states.clear()
        assert to_bytes(_state(session)) == before
    assert live._process is not None
    live._process.kill()
    live._process.wait()
    time.sleep(0.2)
    live._states.clear()
    assert session.state(5) == Nothing("crashed", "the worker ended 3 times (exit status -9)")


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("import time; time.sleep(60)", "hung"),
        ("raise SystemExit(3)", "crashed"),
        ("print('nonsense' * 1000)", "crashed"),
    ],
)
def test_a_worker_that_is_none_is_a_value(monkeypatch: pytest.MonkeyPatch, code: str, cause: str) -> None:
    """One that says nothing is stopped, one that ends or talks nonsense is given up: each is a `Nothing`."""
    monkeypatch.setattr("tsviz.replay.live.ask.WORKER", [sys.executable, "-c", code])
    live = Live(TRACES / "retract-and-grant", "F", 0, 1, 310, hang_seconds=0.5)
    found = live.state((5, None), 20)
    live.close()
    assert isinstance(found, Nothing) and found.cause == cause, found


def test_nobody_waits_longer_than_asked(session: Session) -> None:
    """A state that is not made yet is `pending` at once, and closing ends a session with a word."""
    session.seek(300)
    begin = time.monotonic()
    found = session.state(0.0)
    assert isinstance(found, Nothing) and found.cause == "pending"
    assert time.monotonic() - begin < 1
    session.close()
    assert session.state(0.0) == Nothing("closed", "the session was closed")


def test_what_cannot_be_reexecuted_is_said(tmp_path: Path) -> None:
    """A slice with a flipped bit in its keyframe has recorded state, and no live one."""
    whole = record(locked(), tmp_path / "whole")
    write_slice(whole, whole.parts[0], 30, 45, tmp_path / "slice")
    sliced = open_bundle(tmp_path / "slice").parts[0]
    cold = sliced.directory / "cold" / "keyframes.parquet"
    data = cold.read_bytes()
    cold.write_bytes(data[:200] + bytes([data[200] ^ 1]) + data[201:])
    with tsviz.open(tmp_path / "slice").replay() as session:
        session.seek(31)
        found = session.state(LONG)
        assert isinstance(found, Nothing) and found.cause == "unreadable"
        assert "keyframes.parquet" in found.words
        assert session.snapshot().round == 31
