"""Slices: the same rounds, the same state, made again from the keyframe at their start."""

from __future__ import annotations

import errno
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from tests.trace import lives
from tsviz.replay.diff.compare import diff
from tsviz.replay.findings.scan import BY_NAME, check_part
from tsviz.replay.lost.blame import blame, left_out
from tsviz.replay.lost.model import BEFORE_SLICE
from tsviz.replay.overview import overview
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.reexecution.run import NoKeyframe
from tsviz.replay.reexecution.verify import verify
from tsviz.replay.slice import BadRange, write_slice
from tsviz.replay.view import PartView
from tsviz.replay.whatif.source import CannotRetime
from tsviz.replay.whatif.study import study
from tsviz.replay.why.answer import facts_of
from tsviz.replay.why.causes import retraction
from tsviz.scheduler import compat as twin
from tsviz.trace import compact
from tsviz.trace.catalogue import DECISIONS
from tsviz.trace.decided import DECIDED
from tsviz.trace.reader import Bundle, open_bundle

from .apart_runs import locked, record

FIRST, LAST = 30, 45
TRACES = Path(__file__).resolve().parents[2] / "traces"


@pytest.fixture
def whole(tmp_path: Path) -> Bundle:
    """The live-lock."""
    return record(locked(), tmp_path / "whole")


@pytest.fixture
def sliced(whole: Bundle, tmp_path: Path) -> Bundle:
    """Sixteen rounds out of its middle."""
    write_slice(whole, whole.parts[0], FIRST, LAST, tmp_path / "slice")
    return open_bundle(tmp_path / "slice")


@pytest.mark.parametrize("table", ["rounds", "calls", "zeroed", "forwards"])
def test_a_slice_has_exactly_the_rows_of_its_rounds(whole: Bundle, sliced: Bundle, table: str) -> None:
    """Tables that name no request are the recorded rows of the rounds, unchanged."""
    rows = whole.parts[0].table(table).to_pylist()
    assert sliced.parts[0].table(table).to_pylist() == [r for r in rows if FIRST <= r["round"] <= LAST]


@pytest.mark.parametrize("round_", [FIRST, FIRST + 1, LAST])
def test_a_slice_shows_the_same_rows_counters_and_block_tables(whole: Bundle, sliced: Bundle, round_: int) -> None:
    """At its start, behind it and at its end: rows, counters, and the pages of every scheduled request."""
    before, after = (PartView(bundle, bundle.parts[0]) for bundle in (whole, sliced))
    old, new = before.snapshot(round_), after.snapshot(round_)
    assert new.counts == old.counts
    assert [(r.request, r.input_tokens) for r in new.rows] == [(r.request, r.input_tokens) for r in old.rows]
    for one, two in zip(old.rows, new.rows, strict=True):
        pages = [
            [t.pages for t in view.snapshot(round_, row.submission).tables]
            for view, row in ((before, one), (after, two))
        ]
        assert pages[0] == pages[1]


def test_an_overview_of_a_slice_counts_the_rounds_that_it_holds(sliced: Bundle) -> None:
    """Rounds 30 to 45 are sixteen."""
    (told,) = overview(sliced)["parts"]
    assert (told["rounds"], told["first_round"], told["last_round"]) == (16, FIRST, LAST)


def test_why_counts_retractions_of_who_lived_before_a_slice_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """r3 was retracted in round 35 too: in a slice from round 90 its second time is the first since then."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    whole = open_bundle(TRACES / "retract-and-grant")
    write_slice(whole, whole.parts[0], 90, 110, tmp_path / "cut")
    part = open_bundle(tmp_path / "cut").parts[0]
    (told,) = retraction(facts_of(part, build_index(part)), 2, 101)
    assert told.words.startswith(
        "retracted in round 101 for r6 (needs 17 of full; 0 blocks in reach, 17 short), 1 time"
    )
    assert "1 time since round 90, where this trace begins; tables over" in told.words


def test_the_rounds_of_a_slice_are_made_again(sliced: Bundle) -> None:
    """All sixteen rounds of it are equal to the recorded ones, from the state at its start."""
    found = verify(sliced.parts[0], twin)
    assert (found.complete, found.verified_rounds) == (True, 16)


def test_a_slice_of_a_slice_is_made_again(sliced: Bundle, tmp_path: Path) -> None:
    """Six rounds out of the sixteen, submissions numbered anew twice, have the digests of the whole trace."""
    write_slice(sliced, sliced.parts[0], 35, 40, tmp_path / "smaller")
    found = verify(open_bundle(tmp_path / "smaller").parts[0], twin)
    assert (found.complete, found.verified_rounds) == (True, 6)


def test_decisions_derived_of_a_slice_are_those_of_the_whole(
    whole: Bundle, sliced: Bundle, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Every phase, attempt, refusal, retraction and victim of its rounds, with the same stops and numbers."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    before, after = (build_index(bundle.parts[0]) for bundle in (whole, sliced))
    assert (after.verified_rounds, after.divergence) == (16, None)
    for name in ("phases", "attempts", "refusals", "retractions", "victims", "pool"):
        old = [row for row in before.table(name).to_pylist() if FIRST <= row["round"] <= LAST]
        new = after.table(name).to_pylist()
        for row in (*old, *new):
            row.pop("submission", None)
            row.pop("item")  # counted from the first decision that is told of a round
        assert [row for row in new if row["round"] >= FIRST] == old
        assert name != "victims" or old


def test_a_slice_and_its_origin_do_not_part_in_front_of_its_end(whole: Bundle, sliced: Bundle) -> None:
    """Rounds, calls and rows that only the whole trace holds, before round 30, are no difference; its end at 45 is."""
    found = diff(whole.parts[0], sliced.parts[0])
    assert (found.equal_rounds, found.plans and found.plans.column) == (LAST - FIRST + 1, "(count)")
    assert found.inputs is not None and found.inputs.round > LAST
    assert found.rows is not None and found.rows.round > LAST


def test_rows_from_before_a_slice_are_of_none_of_its_plans(sliced: Bundle) -> None:
    """Rows from before the slice are in it, and no plan of it is said to break the budget of 2 tokens by them."""
    part = sliced.parts[0]
    assert min(part.table("operations")["round"].to_pylist()) < FIRST
    (one,) = check_part(sliced, part, None, [BY_NAME["plan_breach"]])
    assert one.outcome == "not_found"


def test_a_slice_is_refused_where_it_cannot_go_on(sliced: Bundle, whole: Bundle, tmp_path: Path) -> None:
    """Another scheduler than the twin has no state to go on from; a trace that the twin left before it has none."""
    with pytest.raises(NoKeyframe, match="another scheduler, which would have to begin before round 30"):
        verify(sliced.parts[0], SimpleNamespace())
    part = whole.parts[0]
    changed = part.table("rounds")
    at = changed.schema.get_field_index("digest_structural")
    wrong = pa.array([digest // 2 for digest in changed["digest_structural"].to_pylist()], pa.uint64())
    part._loaded["rounds"] = changed.set_column(at, changed.schema.field(at), wrong)
    done = write_slice(whole, part, FIRST, LAST, tmp_path / "left")
    assert "the twin leaves the recording in round 1 " in done.no_keyframe
    with pytest.raises(NoKeyframe, match="a slice from round 30 without a keyframe"):
        verify(open_bundle(tmp_path / "left").parts[0], twin)


def test_what_came_before_a_slice_makes_no_finding_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which prompts ran, and what was computed, is not in it; who was away and which copies pin pages is, and is found.

    As of the whole recordings: row-0000001 is out from round 767 to 1,314, and no page is missing without a copy.
    """
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    cannot = ("not_checkable", "not checkable on a slice: ")
    for name, first, expected in (
        ("escalating-headroom", 848, {
            "head_of_line": ("not_found", "none"), "recompute_tax": cannot,
            "readmission_waits": ("found", "a readmission waits: 'row-0000001' was retracted by round 848 and is out"),
        }),
        ("mixed-undeclared-livelock", 1400, {
            "page_breach": ("not_found", "none"), "low_hit_rate": cannot,
        }),
    ):  # fmt: skip
        bundle = open_bundle(TRACES / name)
        write_slice(bundle, bundle.parts[0], first, first + 100, tmp_path / name)
        cut = open_bundle(tmp_path / name)
        (part,) = cut.parts
        checks = [BY_NAME[name] for name in expected]
        for one in check_part(cut, part, facts_of(part, build_index(part)), checks):
            outcome, begins = expected[one.check.name]
            assert one.outcome == outcome
            assert one.sentence.startswith(begins)


@pytest.mark.parametrize("first, begun", [(FIRST, 0), (5, 1)])
def test_time_before_a_slice_has_no_cause(whole: Bundle, tmp_path: Path, first: int, begun: int) -> None:
    """Nothing is known from arrival to the slice's first plan; c, whose first token is before round 5, is left out."""
    write_slice(whole, whole.parts[0], first, LAST, tmp_path / "cut")
    part = open_bundle(tmp_path / "cut").parts[0]
    start_ns = whole.parts[0].table("rounds")["start_ns"].to_pylist()[first - 1]
    facts = facts_of(part, None)
    lost = blame(facts)
    assert {one.request for one in lost} == {"a", "b", "d"}
    assert left_out(facts) == begun
    for one in lost:
        assert one.causes[BEFORE_SLICE] == start_ns - one.begin_ns
        assert sum(one.causes.values()) == one.span_ns


def test_a_slice_cannot_be_run_again_with_knobs(sliced: Bundle) -> None:
    """What-if refuses a slice, whose requests' beginnings it does not have, and says from which round it is."""
    with pytest.raises(CannotRetime, match="a slice from round 30: expected a trace from its first round"):
        study(sliced.parts[0], twin)


def test_a_slice_from_the_first_round_can_be_verified(whole: Bundle, tmp_path: Path) -> None:
    """Nothing came before round 1, so all its rounds are made again."""
    write_slice(whole, whole.parts[0], 1, 20, tmp_path / "head")
    found = verify(open_bundle(tmp_path / "head").parts[0], twin)
    assert (found.complete, found.verified_rounds) == (True, 20)


def test_a_slice_that_cannot_be_written_leaves_nothing(
    whole: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that is full when the tables are compacted: the folder is gone, and the same slice can be asked again."""

    def full(_directory: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="No space left"):
        patch.setattr(compact, "compact_part", full)
        write_slice(whole, whole.parts[0], FIRST, LAST, tmp_path / "slice")
    assert not (tmp_path / "slice").exists()
    assert write_slice(whole, whole.parts[0], FIRST, LAST, tmp_path / "slice").last_round == LAST


def test_rounds_outside_the_trace_are_refused(whole: Bundle, tmp_path: Path) -> None:
    """The refusal says which rounds there are, and nothing is written."""
    with pytest.raises(BadRange, match="B <= 140, found 100:200"):
        write_slice(whole, whole.parts[0], 100, 200, tmp_path / "no")
    assert not (tmp_path / "no").exists()


def test_a_slice_carries_what_recorded_decisions_left_open_at_its_start(tmp_path: Path) -> None:
    """Verdicts that hold, states, reserves and operations that are out in front of its first plan, and no more."""

    def storage(config: Any) -> None:
        config.num_host_pages, config.enable_l3_storage = 40, True

    lives.record(twin, tmp_path / "whole", 505, tokens="identity", steps=200, tune=storage, level=DECISIONS)
    whole = open_bundle(tmp_path / "whole")
    facts = facts_of(whole.parts[0], None)
    seen = set()
    for first in range(10, whole.parts[0].last_round - 3, 9):
        write_slice(whole, whole.parts[0], first, first + 3, tmp_path / f"{first}")
        cut = open_bundle(tmp_path / f"{first}").parts[0]
        here = facts_of(cut, None)
        live = facts.live(first)
        assert [here.life.names[s] for s in here.live(first)] == [facts.life.names[s] for s in live]
        for new, old in zip(here.live(first), live, strict=True):
            assert here.state(new, first, 0) == facts.state(old, first, 0)
            for round_ in range(first, min(first + 4, int(facts.life.end_round[old]))):
                one, two = here.verdict(new, round_), facts.verdict(old, round_)
                assert one is not None and two is not None
                cut_off = two.since_round <= first and facts.life.submitted[old] < first
                assert one == replace(two, since_round=max(two.since_round, first), at_least=bool(cut_off))
        assert here.tickets(first, 0) == facts.tickets(first, 0)
        items = [r["item"] for name in DECIDED for r in cut.table(name).to_pylist() if r["round"] == first]
        assert len(set(items)) == len(items)
        seen |= {bool(live), *(ticket.kind for ticket in here.tickets(first, 0))}
    assert True in seen and len(seen) > 2
