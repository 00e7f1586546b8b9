"""Lost time: causes add up to what was measured, to the nanosecond."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.notation import full
from tests.incidents.scene import Scene
from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked
from tsviz.replay.lost.blame import blame, class_of, shares
from tsviz.replay.lost.keys import HOLDER, lost_keys
from tsviz.replay.lost.model import AFTER, AGAIN, CUT_OFF, OPEN, OWN_CAUSES, TPOT, TTFT, Lost
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.why.answer import facts_of
from tsviz.scheduler import compat
from tsviz.scheduler import decisions as d
from tsviz.trace.reader import Bundle, open_bundle

TRACES = Path(__file__).parents[2] / "traces"


def measured(bundle: Bundle) -> dict[int, dict[str, Any]]:
    """The times of each request as the SQL view `requests` has them, by submission."""
    locked = Locked(Catalog([bundle]))
    try:
        columns = "submission, accepted, ttft_ns, tpot_ns, end_ns - arrival_ns AS life_ns, ended_by"
        rows = locked.query(f"SELECT {columns} FROM requests")[0].to_pylist()
    finally:
        locked.close()
    return {row["submission"]: row for row in rows}


def adds_up(lost: list[Lost], times: dict[int, dict[str, Any]]) -> None:
    """Every span is the sum of its causes, and the spans are those that were measured."""
    for one in lost:
        assert sum(one.causes.values()) == one.span_ns
        assert set(one.causes) <= {*d.CAUSES, *OWN_CAUSES}
        assert all(time_ns > 0 for time_ns in one.causes.values())
        assert set(one.longest) == set(one.causes)
        assert all(0 < run.time_ns <= one.causes[cause] for cause, run in one.longest.items())
        assert all(run.first_round <= run.last_round for run in one.longest.values())
    first = {one.submission: one.span_ns for one in lost if one.phase == TTFT}
    assert first == {s: row["ttft_ns"] for s, row in times.items() if row["ttft_ns"] is not None}
    cut_off = {one.submission: one.span_ns for one in lost if one.phase == CUT_OFF}
    without = {s: row for s, row in times.items() if row["accepted"] and row["ttft_ns"] is None}
    assert cut_off == {s: row["life_ns"] for s, row in without.items() if row["life_ns"] is not None}
    assert {one.submission for one in lost if one.phase == OPEN} == without.keys() - cut_off.keys()
    whole = {one.submission: sum(o.span_ns for o in lost if o.submission == one.submission) for one in lost}
    cut = {s: row["life_ns"] for s, row in times.items() if row["life_ns"] is not None and row["ended_by"] != "finish"}
    assert {s: whole[s] for s in cut} == cut  # nothing of the life of who was aborted is left out
    later = {one.submission: one.span_ns / one.tokens for one in lost if one.phase == TPOT}
    assert later == pytest.approx({s: row["tpot_ns"] for s, row in times.items() if row["tpot_ns"] is not None})


@pytest.mark.parametrize("name", ["head-of-line", "retract-and-grant", "escalating-headroom", "mixed-stall"])
def test_shipped_traces_add_up(shared_indexes: None, name: str) -> None:
    """The split spans of a recording of the real scheduler are the `ttft_ns` and `tpot_ns` of the SQL view."""
    bundle = open_bundle(TRACES / name)
    part = bundle.parts[0]
    adds_up(blame(facts_of(part, build_index(part))), measured(bundle))


steps = st.lists(
    st.tuples(st.sampled_from("srrrlf"), st.integers(1, 24), st.integers(0, 12)), min_size=1, max_size=24
)  # submit a prompt of n tokens with m declared, a round, a plan whose results are still out, abort the oldest


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(script=steps, mixed=st.booleans())
def test_any_run_adds_up(tmp_path_factory: pytest.TempPathFactory, script: list[Any], mixed: bool) -> None:
    """Whatever happens on 12 blocks, causes add up to spans and spans are those of the SQL view."""
    folder = tmp_path_factory.mktemp("run") / "scene"
    s = Scene(compat, [full(4)], folder, page=4, pages=13, budget=16, enable_mixed_prefill_decode=mixed)
    there: list[str] = []
    for index, (kind, tokens, new) in enumerate(script):
        if kind == "s":
            there.append(f"r{index}")
            s.submit(there[-1], tokens, new)
        elif kind == "r":
            s.round()
        elif kind == "l":
            s.plan()
        elif there:
            s.abort(there.pop(0))
    s.close()
    bundle = open_bundle(folder)
    adds_up(blame(facts_of(bundle.parts[0], None)), measured(bundle))


def test_a_wait_has_the_time_of_its_rounds(tmp_path: Path) -> None:
    """B waits behind A for two rounds: from the plan of round 1 to that of round 3."""
    s = Scene(compat, [full(4)], tmp_path / "scene", page=4, pages=21, budget=8)
    s.submit("A", 24)
    s.submit("B", 4)
    s.rounds(4)
    s.close()
    part = open_bundle(tmp_path / "scene").parts[0]
    starts = part.table("rounds")["start_ns"].to_pylist()
    rows = {one.request: one for one in blame(facts_of(part, None)) if one.phase == TTFT}
    # A's 24 tokens go in rounds 1 to 3; its last chunk uses the budget up.
    assert rows["B"].causes[d.HEAD_OF_LINE] == starts[2] - starts[0]
    assert rows["B"].causes[d.BUDGET_SPENT] == starts[3] - starts[2]


def test_an_aborted_wait_is_split_up_to_the_abort(tmp_path: Path) -> None:
    """B waits behind A in rounds 1 and 2 and is aborted in front of the third: it was in line all the time."""
    s = Scene(compat, [full(4)], tmp_path / "scene", page=4, pages=21, budget=8)
    s.submit("A", 24)
    s.submit("B", 4)
    s.rounds(2)
    s.abort("B")
    s.rounds(2)
    s.close()
    part = open_bundle(tmp_path / "scene").parts[0]
    starts = part.table("rounds")["start_ns"].to_pylist()
    (one,) = (one for one in blame(facts_of(part, None)) if one.request == "B")
    assert one.phase == CUT_OFF
    assert one.causes[d.HEAD_OF_LINE] == one.end_ns - starts[0]
    assert starts[1] < one.end_ns < starts[2]
    run = one.longest[d.HEAD_OF_LINE]
    assert (run.first_round, run.last_round) == (1, 2)


def test_who_stands_still_behind_a_token_lost_time_too(shared_indexes: None) -> None:
    """In the stall `resident` waits from its token to the end of the trace, `newcomer` for its pages."""
    part = open_bundle(TRACES / "mixed-stall").parts[0]
    lost = {(one.request, one.phase): one for one in blame(facts_of(part, build_index(part)))}
    still = lost["resident", AFTER]
    # The last of the five rounds begins at the end of the trace: they are 8.08 ms and three empty ones of 8 ms.
    assert still.causes == {d.HOLDBACK: 3 * 8_000_000}
    assert {who: held.time_ns for who, held in still.behind.items()} == {(d.HOLDBACK, "newcomer"): 3 * 8_000_000}
    wait = lost["newcomer", OPEN]
    assert [*wait.behind] == [(d.NOTHING_RETRACTABLE, "resident")]
    assert wait.longest[d.NOTHING_RETRACTABLE].behind == "resident"


def test_a_holder_has_the_time_that_it_held(shared_indexes: None) -> None:
    """r1 sealed the door for five requests, 54 rounds at a time; a holder's time is what its causes have with it."""
    part = open_bundle(TRACES / "readmission-seals").parts[0]
    lost = blame(facts_of(part, build_index(part)))
    holders = {key.key: key for key in lost_keys(lost) if key.view == HOLDER}
    for name, key in holders.items():
        assert key.span_ns == sum(held.time_ns for one in lost for (_, who), held in one.behind.items() if who == name)
    (first,) = (phase for phase in holders["r1"].phases if phase.phase == TTFT)
    sealed = next(cause for cause in first.causes if cause.cause == d.SEALED)
    assert (sealed.request, sealed.run.first_round, sealed.run.last_round) == ("new-1", 195, 248)
    assert first.spans == 5


def test_rows_that_compute_again_are_told_apart(shared_indexes: None) -> None:
    """In the live-lock no token of row-0001321 landed, and most of what it was scheduled for was computed before."""
    part = open_bundle(TRACES / "mixed-undeclared-livelock").parts[0]
    facts = facts_of(part, build_index(part))
    (one,) = blame(facts, [facts.submission_of("row-0001321", 2800)])
    assert one.phase == OPEN
    assert one.causes[AGAIN] > one.causes[d.SCHEDULED]


@pytest.mark.parametrize("by", ["request", "class", "cause"])
def test_sums_lose_nothing(shared_indexes: None, by: str) -> None:
    """Whatever they are summed by, the shares of a phase make up its spans."""
    part = open_bundle(TRACES / "head-of-line").parts[0]
    lost = blame(facts_of(part, build_index(part)))
    found = shares(lost, by)
    for phase in (TTFT, TPOT):
        spans = sum(one.span_ns for one in lost if one.phase == phase)
        assert sum(share.time_ns for share in found if share.phase == phase) == spans
    if by == "class":
        assert {share.key for share in found} == {"chat", "report"}


@pytest.mark.parametrize(
    ("request_id", "expected"),
    [("chat-2", "chat"), ("row-0001321", "row"), ("q4", "q"), ("17", "17"), ("report", "report")],
)
def test_the_class_is_the_id_without_its_number(request_id: str, expected: str) -> None:
    """A class is what ids have in common before their number."""
    assert class_of(request_id) == expected
