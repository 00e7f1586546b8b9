"""Scenarios: what is read from a trace runs to the same plans again; findings over recorded tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tsviz.cli.main import main
from tsviz.engine.workloads.model import Span, WorkRequest
from tsviz.query.problem import QueryError
from tsviz.replay.scenario.predicates import NAMED, Absent, Finding, named_predicate
from tsviz.replay.scenario.predicates_text import UnknownFinding, parse_predicate
from tsviz.replay.scenario.read import read_scenario
from tsviz.replay.scenario.scenario import NotAScenario, behind, cut
from tsviz.replay.scenario.tokens import SpanBook
from tsviz.trace.reader import open_bundle

from .apart_runs import calm, locked, record, request, run, scenario

TRACES = Path(__file__).parents[2] / "traces"


def test_spans_are_cut_and_continued() -> None:
    """The first five of (3 + 4) tokens are 3 + 2, and what is left starts at the third of the second span."""
    spans = (Span(1, 0, 3), Span(2, 10, 4))
    assert cut(spans, 5) == (Span(1, 0, 3), Span(2, 10, 2))
    assert behind(spans, 5) == (Span(2, 12, 2),)


def test_prefixes_are_shared_exactly_where_pages_are() -> None:
    """[7, 8] and [7, 9] share one page of two; 8 behind another first page is another prefix."""
    book = SpanBook(2)
    for pages in ([7, 8], [7, 9], [5, 8]):
        book.add(pages)
    first, second, third = (book.spans(i, 4) for i in range(3))
    assert first == (Span(1, 0, 4),)
    assert second == (Span(1, 0, 2), Span(2, 0, 2))
    assert third == (Span(3, 0, 4),)


def test_a_trace_runs_again_to_the_same_plans(tmp_path: Path) -> None:
    """The scenario read from a recording with shared prefixes and answers makes every digest of it again."""
    shared = (
        WorkRequest("a", (Span(1, 0, 5),), (Span(1, 5, 3),), 0, 0),
        WorkRequest("b", (Span(1, 0, 8), Span(2, 0, 3)), (Span(2, 3, 2),), 0, after="a", think_ns=2_000_000),
        request("c", 3, 7, 3, 4_000_000),
    )
    part = record(scenario(shared, 60), tmp_path / "t").parts[0]
    again = run(read_scenario(part))
    recorded = part.table("rounds")["digest_structural"].to_pylist()
    assert again.table("rounds")["digest_structural"].to_pylist() == recorded
    assert part.table("operations")["begin_tokens"].to_pylist().count(8) == 1, "b goes on behind a's answer"


def test_a_request_whose_leader_is_gone_arrives_when_it_did(tmp_path: Path) -> None:
    """Without a, b arrives at the time at which it arrived in the recording."""
    pair = (request("a", 1, 4, 2), WorkRequest("b", (Span(2, 0, 4),), (Span(2, 4, 2),), 0, after="a", think_ns=5))
    part = record(scenario(pair, 40), tmp_path / "t").parts[0]
    (left,) = read_scenario(part).only(["b"]).requests
    assert (left.after, left.arrival_ns) == (None, part.table("submissions")["arrival_ns"].to_pylist()[1])


def test_a_node_of_a_pair_is_no_scenario(tmp_path: Path) -> None:
    """A config of role P is refused by name."""
    part = record(calm(), tmp_path / "t").parts[0]
    part.config["role"] = "P"
    with pytest.raises(NotAScenario, match="role: expected a node that prefills and decodes"):
        read_scenario(part)


def test_the_live_lock_is_found_and_names_who_takes_turns() -> None:
    """The known live-lock is found over its tables, with its two turn-takers; the calm run has none."""
    found = NAMED["livelock"].judge(run(locked()), 100)
    assert isinstance(found, Finding)
    assert sorted(found.requests) == ["a", "b"]
    assert found.shown_by == found.first_round + 100
    calm_run = NAMED["livelock"].judge(run(calm()), 100)
    assert isinstance(calm_run, Absent)


def test_a_threshold_that_is_not_reached_says_how_near_it_was() -> None:
    """A lock of a bit over a hundred rounds is none of a thousand, and the answer says how long it was."""
    outcome = named_predicate("livelock", 1000).check(run(locked()))
    assert isinstance(outcome, Absent)
    assert 100 < outcome.most < 1000
    assert outcome.needed == 1000


def test_a_request_that_outgrows_the_pool_locks_alone() -> None:
    """Sixteen tokens of pool, a prompt of ten and no end in sight: it is thrown back and admitted for ever."""
    alone = run(scenario((request("a", 1, 10, 50),), 160, num_host_pages=0))
    found = NAMED["livelock"].judge(alone, 50)
    assert isinstance(found, Finding)
    assert found.requests == ("a",)
    assert isinstance(NAMED["stall"].judge(alone, 2), Absent), "rows are scheduled: it is no stall"


def test_the_shipped_stall_is_found(tmp_path: Path) -> None:
    """The incident mixed-stall (traces/README.md): from round 3 on plans stay empty for ever."""
    command = json.loads((TRACES / "incidents.json").read_text())["mixed-stall"]["command"].split()[1:]
    arguments = [a.replace("plain:", f"plain:{TRACES}/") for a in command]
    with pytest.raises(SystemExit) as ended:
        main([*arguments, "--out", str(tmp_path / "stall"), "--scheduler", "twin"])
    assert not ended.value.code
    found = NAMED["stall"].judge(open_bundle(tmp_path / "stall").parts[0], 2)
    assert isinstance(found, Finding)
    assert found.first_round == 3


def test_retractions_in_a_window_make_a_storm() -> None:
    """The live-lock retracts 15 times in 90 rounds (2 in 12): more than 10 in 100 rounds, not more than 60."""
    part = run(locked())
    assert isinstance(NAMED["retraction_storm"].judge(part, 10), Finding)
    assert isinstance(NAMED["retraction_storm"].judge(part, 60), Absent)


def test_an_sql_condition_is_asked_of_the_run() -> None:
    """A true condition holds, a false one does not, a number is an error of the condition."""
    part = run(locked())
    assert isinstance(parse_predicate("exists (from rounds where retracted_requests > 0)").check(part), Finding)
    assert isinstance(parse_predicate("exists (from rounds where retracted_requests > 9)").check(part), Absent)
    with pytest.raises(QueryError, match="must be true or false"):
        parse_predicate("(select 7)").check(part)


def test_an_unknown_finding_is_named_with_those_there_are() -> None:
    """One word that is no finding is not taken for SQL."""
    with pytest.raises(UnknownFinding, match="did you mean livelock"):
        parse_predicate("live_lock")


def test_a_scenario_without_host_tier_has_no_live_lock() -> None:
    """The lock hangs on readmissions, which need a host tier (scheduler-rules.md, section 9.1)."""
    without = replace(locked(), scheduler=replace(locked().scheduler, num_host_pages=0))
    assert isinstance(NAMED["livelock"].judge(run(without), 100), Absent)
