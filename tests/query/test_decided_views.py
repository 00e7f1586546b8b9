"""The relations over decided tables against numbers worked out by hand on the tiny trace (see `decided.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Locked
from tsviz.query.shipped.definition import Relation
from tsviz.query.source import Bundle
from tsviz.query.views import SHIPPED, decided_in

from .decided import decided, decided_part
from .fakes import FakeBundle, FakePart, table
from .tiny import tiny

Rows = Callable[[str], list[tuple[Any, ...]]]


def rows_of(bundles: Sequence[Bundle], sql: str) -> list[tuple[Any, ...]]:
    """Ask a query over bundles."""
    locked = Locked(Catalog(bundles))
    try:
        return [tuple(row.values()) for row in locked.query(sql)[0].to_pylist()]
    finally:
        locked.close()


@pytest.fixture
def ask() -> Rows:
    """Ask a query on the tiny trace with decisions."""
    return lambda sql: rows_of([decided()], sql)


def test_parts_say_where_decisions_come_from() -> None:
    """Decisions are derived up to the index's round, recorded up to the last, or there are none."""
    recorded = FakePart(dict(decided_part().data), "R")
    bundle = FakeBundle("t", [decided_part(4), recorded, FakePart(tiny(), "N")])
    assert rows_of([bundle], "SELECT node, decisions, decided_round, last_round FROM parts ORDER BY node") == [
        ("F", "derived", 4, 6),
        ("N", "none", None, 6),
        ("R", "recorded", 6, 6),
    ]


def test_parts_and_groups_show_the_config() -> None:
    """Settings and groups come from the config; a value of a wrong type is missing."""
    assert rows_of([decided()], "SELECT role, budget_tokens, prefix_tokens, device_pages, host_pages FROM parts") == [
        ("Fused", 8, 2, 9, None)
    ]
    assert rows_of([decided()], "SELECT * EXCLUDE (trace, node, rank) FROM groups") == [
        (0, "full", "History", "FullHistory", 2, 2, None, False)
    ]


def test_parts_say_what_was_recorded() -> None:
    """A level is one of three words; another one, or none, is missing."""

    @dataclass(frozen=True)
    class LevelledPart(FakePart):
        recorded_level: str = "none"

    levels = ("calls", "plans", "decisions", "everything")
    parts = [LevelledPart(tiny(), name[0], recorded_level=name) for name in levels]
    bundle = FakeBundle("t", [*parts, FakePart(tiny(), "n")])
    assert rows_of([bundle], "SELECT node, level FROM parts ORDER BY node") == [
        ("c", "calls"), ("d", "decisions"), ("e", None), ("n", None), ("p", "plans"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "config", [{}, {"cache_groups": 7}, {"cache_groups": [3]}, {"role": 5, "prefix_granularity": 2**40}]
)
def test_a_hostile_config_is_missing_values(config: dict[str, Any]) -> None:
    """A config of anything at all opens, with nulls."""
    part = decided_part()
    bundle = FakeBundle("t", [type(part)(part.data, config=config)])
    assert rows_of([bundle], "SELECT role, prefix_tokens FROM parts") == [(None, None)]


def test_verdict_runs(ask: Rows) -> None:
    """A run ends in front of the request's next one, of its end, or with the trace."""
    columns = "request, cause, holder, since_round, until_round, rounds"
    assert ask(f"SELECT {columns} FROM verdict_runs ORDER BY request, since_round") == [
        ("a", "scheduled", None, 1, 4, 4),  # finished in front of round 5
        ("b", "head_of_line", "a", 1, 1, 1),
        ("b", "scheduled", None, 2, 3, 2),
        ("b", "retracted", "c", 4, 4, 1),
        ("b", "scheduled", None, 5, 6, 2),
        ("c", "capacity", None, 4, 4, 1),
        ("c", "scheduled", None, 5, 6, 2),
    ]


def test_verdict_runs_end_where_decisions_do() -> None:
    """Behind the last verified round nothing is known: the last runs end there."""
    part = decided_part(3, verdicts=[r for r in decided_part().data["verdicts"].to_pylist() if r["round"] <= 3])
    sql = "SELECT request, until_round FROM verdict_runs ORDER BY request, since_round"
    assert rows_of([FakeBundle("t", [part])], sql) == [("a", 3), ("b", 1), ("b", 3)]


def test_verdict_rounds(ask: Rows) -> None:
    """A run has a row for each of its rounds, which counts them: a waits for nothing in rounds 1 to 4."""
    columns = "round, cause, holder, since_round, waited_rounds"
    assert ask(f"SELECT {columns} FROM verdict_rounds WHERE request = 'a' ORDER BY round") == [
        (1, "scheduled", None, 1, 1),
        (2, "scheduled", None, 1, 2),
        (3, "scheduled", None, 1, 3),
        (4, "scheduled", None, 1, 4),
    ]
    assert ask("SELECT count(*) FROM verdict_rounds") == [(13,)]


def test_cause_counts(ask: Rows) -> None:
    """Scheduled is 4 + 2 + 2 + 2 of 13 request-rounds; the three others are one each."""
    assert ask("SELECT cause, requests, runs, rounds, longest_rounds, share FROM cause_counts") == [
        ("scheduled", 3, 4, 10, 4, pytest.approx(10 / 13)),
        ("capacity", 1, 1, 1, 1, pytest.approx(1 / 13)),
        ("head_of_line", 1, 1, 1, 1, pytest.approx(1 / 13)),
        ("retracted", 1, 1, 1, 1, pytest.approx(1 / 13)),
    ]


def test_lost_time(ask: Rows) -> None:
    """Rounds are 1,000 ns long: b lost round 1 and round 4, c round 4."""
    assert ask("SELECT request, cause, runs, rounds, lost_ns, first_round FROM lost_time") == [
        ("b", "head_of_line", 1, 1, 1000, 1),
        ("b", "retracted", 1, 1, 1000, 4),
        ("c", "capacity", 1, 1, 1000, 4),
    ]


def test_the_last_round_has_no_length() -> None:
    """A run that ends with the last plan counts the time up to that plan: rounds 5 and 6 are 1,000 ns."""
    rows = [r for r in decided_part().data["verdicts"].to_pylist() if r["round"] < 5]
    part = decided_part(verdicts=rows)
    sql = "SELECT request, rounds, lost_ns FROM lost_time WHERE cause IN ('capacity', 'retracted')"
    # Both run from round 4, at 4,000, to round 6, at 6,000.
    assert rows_of([FakeBundle("t", [part])], sql) == [("b", 3, 2000), ("c", 3, 2000)]


def test_blocked_by(ask: Rows) -> None:
    """In round 4 b gave way to c, which is at the root and lacks pages itself."""
    columns = "request, cause, holder, since_round, waited_rounds, chain, root, root_cause"
    assert ask(f"SELECT {columns} FROM blocked_by(4)") == [
        ("b", "retracted", "c", 4, 1, ["c"], "c", "capacity"),
        ("c", "capacity", None, 4, 1, None, None, None),
    ]
    assert ask(f"SELECT {columns} FROM blocked_by(1)") == [("b", "head_of_line", "a", 1, 1, ["a"], "a", "scheduled")]
    assert ask("FROM blocked_by(2)") == []


def test_a_chain_ends_where_it_began() -> None:
    """Requests that name each other in a circle make a chain of each once, and it ends."""
    rows = [
        {"round": 4, "item": n, "request": name, "submission": n, "cause": "sealed_by_readmission", "holder": holder}
        for n, (name, holder) in enumerate([("a", "b"), ("b", "c"), ("c", "a")])
    ]
    part = decided_part(verdicts=rows)
    assert rows_of([FakeBundle("t", [part])], "SELECT request, chain FROM blocked_by(4)") == [
        ("a", ["b", "c", "a"]),
        ("b", ["c", "a", "b"]),
        ("c", ["a", "b", "c"]),
    ]


def test_waiting_says_why(ask: Rows) -> None:
    """Those that wait behind round 4 have the verdict of that round; without decisions it is null."""
    sql = "SELECT request, cause, holder, cause_since_round FROM waiting(4)"
    assert ask(sql) == [("b", "retracted", "c", 4), ("c", "capacity", None, 4)]
    assert rows_of([FakeBundle("t", [FakePart(tiny())])], sql) == [("b", None, None, None), ("c", None, None, None)]


def test_demands(ask: Rows) -> None:
    """An attempt shows its need by group, and what it got."""
    sql = 'SELECT round, request, "group", need_pages, fresh_pages, outcome FROM demands'
    assert ask(sql) == [
        (4, "c", "full", 2, None, "refused"),
        (5, "b", "full", 2, 2, "granted"),
        (5, "c", "full", 1, 0, "granted"),
    ]


def test_deficits(ask: Rows) -> None:
    """c needs 2 pages and has 1 in the group's own parents: half a parent is lacking, which is one."""
    columns = "round, request, need_pages, free_pages, reachable_pages, deficit_pages, need_parents, deficit_parents"
    assert ask(f"SELECT {columns} FROM deficits") == [(4, "c", 2, 1, 1, 1, 1, 1)]


def test_deficits_of_groups_share_parents() -> None:
    """Two groups that each would fit alone lack a parent together."""
    config = {"cache_groups": [{"group_id": "x", "cache_blocks_per_lcm_block": 2}, {"group_id": "y"}]}
    refusal = {
        "round": 1, "request": "a", "need_pages": [4, 1], "free_blocks": 0, "free_local_pages": [0, 0],
        "reachable_blocks": 2, "reachable_local_pages": [1, 0],
    }  # fmt: skip
    part = type(decided_part())({"refusals": table("refusals", [refusal])}, config=config)
    columns = '"group", need_pages, reachable_pages, deficit_pages, need_parents, reachable_parents, deficit_parents'
    # x: 3 pages beyond its own are 2 parents of 2; y: 1 parent of 1. 3 are needed, 2 can be had.
    assert rows_of([FakeBundle("t", [part])], f"SELECT {columns} FROM deficits") == [
        ("x", 4, 5, 0, 3, 2, 1),
        ("y", 1, 2, 0, 3, 2, 1),
    ]


def test_reserve_terms(ask: Rows) -> None:
    """Each term above 0 is a row; the rest of the prompt is held by nobody without headroom."""
    assert ask("SELECT round, request, term, tokens, held_by FROM reserve_terms ORDER BY request, term") == [
        (5, "b", "decode_slot", 1, "all"),
        (5, "b", "headroom", 4, "full_history"),
        (5, "c", "decode_slot", 1, "all"),
        (5, "c", "growth", 2, "state"),
        (5, "c", "rest_of_prompt", 3, "none"),
    ]


def test_line_holds(ask: Rows) -> None:
    """a holds the line of round 1 with 2 tokens left, and b is the one behind it."""
    assert ask("SELECT round, request, computed_tokens, left_tokens, held_requests FROM line_holds") == [
        (1, "a", 6, 2, 1)
    ]


def test_headroom_held() -> None:
    """A table with room for 12 tokens, of which 4 + 3 are known, holds 2 whole pages of 2 for others to come."""
    changes = [{"round": 5, "group": "full", "request": "b", "submission": 1, "pages": [1] * 6, "length_slots": 6}]
    part = decided_part()
    part = type(part)(dict(part.data) | {"table_changes": table("table_changes", changes)}, config=part.config)
    sql = 'SELECT request, "group", table_tokens, known_tokens, unused_pages, headroom_tokens FROM headroom_held(6)'
    # b landed a token in front of rounds 3, 4 and 6: 4 + 3 = 7 known of 12, and 5 // 2 = 2 whole pages.
    assert rows_of([FakeBundle("t", [part])], sql) == [("b", "full", 12, 7, 2, 4)]


def test_who_is_away_holds_nothing() -> None:
    """Behind round 4, in which it is retracted, b holds no headroom; a, with its tables, is there."""
    assert rows_of([decided()], "SELECT request FROM headroom_held(4)") == [("a",)]


def test_retraction_cycles() -> None:
    """x and y give way in turn, and each time the other comes in; the last time nobody does."""

    def turn(round_: int, victim: str) -> dict[str, Any]:
        return {"round": round_, "stop": 5, "blocker": victim, "victim": victim, "outcome": "retracted"}

    def admitted(round_: int, name: str) -> dict[str, Any]:
        return {"round": round_, "stop": 2, "request": name}

    retractions = [turn(1, "x"), turn(3, "y"), turn(5, "x"), turn(7, "y"), turn(9, "x")]
    admissions = [admitted(2, "y"), admitted(4, "x"), admitted(6, "y"), admitted(8, "x")]
    data = {
        "retractions": [*retractions, turn(9, "z") | {"outcome": "victim_not_quiescent"}],
        "admissions": [*admissions, admitted(10, "z")],
        "attempts": [row | {"kind": "first_chunk"} for row in admissions] + [admitted(10, "z") | {"kind": "decode"}],
    }
    part = FakePart({name: table(name, rows) for name, rows in data.items()})
    columns = "victim, taker, times, back_times, self_times, blockers, first_round, last_round"
    assert rows_of([FakeBundle("t", [part])], f"SELECT {columns} FROM retraction_cycles") == [
        ("x", "y", 2, 2, 2, ["x"], 1, 5),
        ("y", "x", 2, 2, 2, ["y"], 3, 7),
        ("x", None, 1, 0, 1, ["x"], 9, 9),
    ]


def test_a_victim_that_comes_back_first_evicts_nobody(ask: Rows) -> None:
    """b is retracted for c and is itself the first to be admitted: no cycle."""
    columns = "victim, taker, times, back_times, self_times, blockers"
    assert ask(f"SELECT {columns} FROM retraction_cycles") == [("b", "b", 1, 0, 0, ["c"])]


def test_victim_ranking(ask: Rows) -> None:
    """In round 4 b is chosen first; a is exempt and therefore last, without a rank."""
    columns = "stop, blocker, choice, request, releasable_blocks, tokens, exempt, outcome"
    assert ask(f"SELECT {columns} FROM victim_ranking(4)") == [
        (6, "c", 0, "b", 3, 6, False, "retracted"),
        (6, "c", None, "a", 5, 10, True, None),
    ]


def test_stop_list(ask: Rows) -> None:
    """The decisions of round 4 stand in order, in words."""
    assert ask("SELECT stop, decision, request, says FROM stop_list(4)") == [
        (1, "phases", None, "phase new_prompts: 8 tokens left, 0 rows"),
        (2, "candidates", "c", "comes to c"),
        (3, "attempts", "c", "tries first_chunk of c: needs [2] pages"),
        (3, "refusals", "c", "refused c: needs [2] pages, 0 blocks free, 0 with evictions"),
        (6, "retractions", "c", "retraction for c: victim b, retracted"),
        (6, "victims", "b", "victim 0: b (decode), 3 blocks, 6 tokens, 0 in flight"),
        (6, "victims", "a", "victim exempt: a (decode), 5 blocks, 10 tokens, 0 in flight"),
        (9, "verdicts", "b", "verdict on b: retracted (c)"),
        (9, "verdicts", "c", "verdict on c: capacity"),
    ]


def test_request_timeline(ask: Rows) -> None:
    """The life of b: submitted, held, run, retracted, run again, finished with 4 tokens."""
    assert ask("SELECT round, what, says FROM request_timeline('b')") == [
        (1, "submitted", "4 tokens"),
        (1, "verdict", "head_of_line (a), 1 rounds"),
        (2, "first_row", "hit of 0 tokens"),
        (2, "verdict", "scheduled, 2 rounds"),
        (3, "first_token", "token landed"),
        (4, "verdict", "retracted (c), 1 rounds"),
        (5, "restart", "starts over at 2 (capacity), computes 3 again"),
        (5, "verdict", "scheduled, 2 rounds"),
        (7, "finish", "4 tokens generated"),
    ]


def test_acks(ask: Rows) -> None:
    """Op 0, asked for at 4,000, is acknowledged at 5,900 in front of round 6; op 1 is out at the end."""
    columns = "op_id, kind, round, pages, storage_pages, acknowledged_round, age_rounds, age_ns, success"
    assert ask(f"SELECT {columns} FROM acks") == [
        (0, "write_back", 4, 2, 0, 6, 2, 1900, None),
        (1, "load_back", 5, 1, 1, None, 1, None, None),
    ]


def test_a_load_says_whether_it_came() -> None:
    """The acknowledgement of a load carries its success."""
    transfer = {"round": 1, "op_id": 3, "kind": "load_back"}
    event = {"call_seq": 0, "round": 2, "kind": "load_back_done", "op_id": 3, "submission": -1, "value": 0}
    part = FakePart({"transfers": table("transfers", [transfer]), "events": table("events", [event]),
                     "rounds": table("rounds", [{"round": 1}, {"round": 2}])})  # fmt: skip
    assert rows_of([FakeBundle("t", [part])], "SELECT op_id, age_rounds, success FROM acks") == [(3, 1, False)]


def test_rank_divergence() -> None:
    """Rank 1 makes the plans of rank 0; rank 2 another one in round 2, and has no round 3."""

    def part(rank: int, *digests: int) -> FakePart:
        rounds = [{"round": n, "digest_structural": d} for n, d in enumerate(digests, 1)]
        return FakePart({"rounds": table("rounds", rounds)}, "N", rank)

    bundle = FakeBundle("t", [part(0, 7, 8, 9), part(1, 7, 8, 9), part(2, 7, 5)])
    columns = "rank, against_rank, compared_rounds, different_rounds, first_round"
    assert rows_of([bundle], f"SELECT {columns} FROM rank_divergence") == [(1, 0, 3, 0, None), (2, 0, 2, 1, 2)]


def test_possible_hits() -> None:
    """The longest prefix that stood in a prompt admitted before, in whole pages of 2, with a position left over."""
    prompts = {"a": [1, 2, 3], "b": [1, 2, 9, 3], "c": [2, 3], "d": [1, 2, 9]}
    submissions = [
        {"request": name, "submission": n, "prompt_tokens": 2 * len(pages), "pages": pages, "accepted": True}
        for n, (name, pages) in enumerate(prompts.items())
    ]
    operations = [
        {"request": name, "submission": n, "round": round_, "kind": "prefill", "begin_tokens": begin, "input_tokens": 1}
        for n, (name, round_, begin) in enumerate([("a", 1, 0), ("b", 3, 2), ("c", 2, 0), ("d", 3, 4)])
    ]
    data = {"submissions": table("submissions", submissions), "operations": table("operations", operations)}
    part = type(decided_part())(data, config={"prefix_granularity": 2})
    bundle = FakeBundle("t", [part])
    # b shares [1, 2] with a; c's [2, 3] is nowhere a prefix; d's [1, 2, 9] is all of its prompt: 2 pages may hit.
    assert rows_of([bundle], "SELECT request, possible_tokens, hit_tokens FROM possible_hits") == [
        ("a", 0, 0), ("b", 4, 2), ("c", 0, 0), ("d", 4, 4),
    ]  # fmt: skip
    columns = "requests, prompt_tokens, possible_tokens, hit_tokens, possible_rate, hit_rate"
    assert rows_of([bundle], f"SELECT {columns} FROM possible_hit_rate") == [(4, 24, 8, 6, 8 / 24, 6 / 24)]


@pytest.mark.parametrize(
    ("sql", "columns", "named"),
    [
        ("SELECT count(*) FROM verdict_runs", ["count_star()"], ["verdict_runs"]),
        ("from waiting(3)", ["request", "cause"], ["waiting"]),
        ("SELECT request FROM waiting(3)", ["request"], []),
        ("SELECT request, states FROM requests JOIN rounds USING (round)", ["request"], []),
        ("WITH x AS (SELECT * FROM pool) SELECT * FROM x", ["round"], ["pool"]),
    ],
)
def test_a_query_that_needs_decisions_is_known_by_what_it_reads(sql: str, columns: list[str], named: list[str]) -> None:
    """Of `waiting` the cause alone comes from decisions, of `verdict_runs` everything, of `requests` nothing."""
    assert decided_in(sql, columns) == named


ARGUMENTS = {"at_round": "4", "request_id": "'b'", "group_name": "'full'", "page_id": "6"}
ACROSS = {"rank_divergence"}
"""Relations that compare parts."""


@pytest.fixture(scope="module")
def several() -> Iterator[list[Locked]]:
    """Two ranks of a trace and a part of another one, all three the same: together, and each alone."""
    ranks = [replace(decided_part(), rank=rank) for rank in (0, 1)]
    bundles = [FakeBundle("t", ranks), FakeBundle("u", ranks[:1])]
    alone = [FakeBundle(bundle.name, [part]) for bundle in bundles for part in bundle.parts]
    opened = [Locked(Catalog(one)) for one in (bundles, *([bundle] for bundle in alone))]
    yield opened
    for locked in opened:
        locked.close()


@pytest.mark.parametrize("relation", [r for r in SHIPPED if r.name not in ACROSS], ids=lambda relation: relation.name)
def test_no_relation_mixes_parts(relation: Relation, several: list[Locked]) -> None:
    """Of parts with the same rounds, requests and operations each has the rows that it has alone."""
    call = relation.name
    if relation.parameters is not None:
        call += f"({', '.join(ARGUMENTS[name] for name in relation.parameters if ':=' not in name)})"
    together, *alone = ([repr(row) for row in one.query(f"FROM {call}")[0].to_pylist()] for one in several)
    assert sorted(together) == sorted(row for rows in alone for row in rows)
