"""Relations on shipped traces against what other tables, or a few lines of Python, say of the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from tsviz.query.locked import Locked
from tsviz.trace.reader import open_bundle

from .conftest import TRACES

NAMES = [
    "retract-and-grant",
    "head-of-line",
    "escalating-headroom",
    "mixed-stall",
    "readmission-seals",
    "bounded-replay",
]
Shipped = Callable[[str], Locked]


def _rows(locked: Locked, sql: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = locked.query(sql)[0].to_pylist()
    return found


def _table(name: str, table: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = open_bundle(TRACES / name).part().table(table).to_pylist()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_who_is_scheduled_has_a_row(name: str, shipped: Shipped) -> None:
    """The requests whose run of the cause "scheduled" covers a round are those with a row in its recorded plan."""
    expected = {(row["round"], row["submission"]) for row in _table(name, "operations")}
    runs = _rows(shipped(name), "FROM verdict_runs WHERE cause = 'scheduled'")
    found = [(r, run["submission"]) for run in runs for r in range(run["since_round"], run["until_round"] + 1)]
    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize("name", NAMES)
def test_every_live_request_has_one_verdict_a_round(name: str, shipped: Shipped) -> None:
    """Runs of a request follow each other without a gap, from its first plan to the last before its end."""
    ends = {row["submission"]: row["round"] for row in _table(name, "events") if row["kind"] in ("finish", "abort")}
    last = len(_table(name, "rounds"))
    covered: dict[int, list[int]] = defaultdict(list)
    for run in _rows(shipped(name), "FROM verdict_runs"):
        covered[run["submission"]] += range(run["since_round"], run["until_round"] + 1)
    for row in _table(name, "submissions"):
        wanted = range(row["round"], min(ends.get(row["submission"], last + 1), last + 1))
        assert sorted(covered[row["submission"]]) == list(wanted)


@pytest.mark.parametrize("name", NAMES)
def test_lost_time_is_the_sum_of_rounds(name: str, shipped: Shipped) -> None:
    """The lost time of a request is the length of the rounds in which it lived and had no row."""
    starts = [row["start_ns"] for row in _table(name, "rounds")]
    lengths = {r: b - a for r, (a, b) in enumerate(zip(starts, [*starts[1:], starts[-1]], strict=True), 1)}
    ends = {row["submission"]: row["round"] for row in _table(name, "events") if row["kind"] in ("finish", "abort")}
    scheduled = {(row["round"], row["submission"]) for row in _table(name, "operations")}
    expected = {
        row["submission"]: sum(
            lengths[r]
            for r in range(row["round"], min(ends.get(row["submission"], len(starts) + 1), len(starts) + 1))
            if (r, row["submission"]) not in scheduled
        )
        for row in _table(name, "submissions")
    }
    sql = "SELECT submission, sum(lost_ns)::BIGINT AS lost_ns FROM lost_time GROUP BY submission"
    found = {row["submission"]: row["lost_ns"] for row in _rows(shipped(name), sql)}
    assert {k: v for k, v in found.items() if v} == {k: v for k, v in expected.items() if v}


@pytest.mark.parametrize("name", NAMES)
def test_every_retraction_is_in_a_pair(name: str, shipped: Shipped) -> None:
    """The pairs count as many retractions as the scheduler's own counter showed in the recording."""
    counted = sum(row["retracted_requests"] for row in _table(name, "rounds"))
    assert sum(row["times"] for row in _rows(shipped(name), "FROM retraction_cycles")) == counted


@pytest.mark.parametrize("name", NAMES)
def test_every_refusal_lacks_a_parent(name: str, shipped: Shipped) -> None:
    """A refusal for capacity is one that a parent is lacking for, at least; nobody is refused what would fit."""
    assert all(row["deficit_parents"] > 0 for row in _rows(shipped(name), "FROM deficits"))


@pytest.mark.parametrize("name", ["readmission-seals", "escalating-headroom"])
def test_ages_are_those_that_were_recorded(name: str, shipped: Shipped) -> None:
    """The age of an acknowledgement is the delay, and its plan the cause, that the recorder wrote beside the event."""
    expected = {
        row["op_id"]: (row["cause_round"], row["round"], row["delay_ns"])
        for row in _table(name, "events") if row["kind"].endswith("_back_done")
    }  # fmt: skip
    found = {row["op_id"]: row for row in _rows(shipped(name), "FROM acks")}
    assert {op: (row["round"], row["acknowledged_round"], row["age_ns"]) for op, row in found.items()} == expected


@pytest.mark.parametrize("name", ["mixed-undeclared-livelock", "bounded-replay"])
def test_possible_hits_are_the_longest_known_prefix(name: str, shipped: Shipped) -> None:
    """What an unbounded cache gives is what a set of all prefixes of the prompts admitted before gives."""
    part = open_bundle(TRACES / name).part()
    first: dict[int, int] = {}
    for row in part.table("operations").to_pylist():
        first.setdefault(row["submission"], row["round"])
    known: set[tuple[int, ...]] = set()
    expected = {}
    prompts = {row["submission"]: row for row in part.table("submissions").to_pylist()}
    for submission in sorted(first, key=lambda s: (first[s], s)):
        pages, tokens = prompts[submission]["pages"], prompts[submission]["prompt_tokens"]
        usable = pages[: (tokens - 1) // part.prefix_tokens]
        length = next((n for n in range(len(usable), 0, -1) if tuple(usable[:n]) in known), 0)
        expected[submission] = length * part.prefix_tokens
        known.update(tuple(pages[:n]) for n in range(1, len(pages) + 1))
    found = {row["submission"]: row["possible_tokens"] for row in _rows(shipped(name), "FROM possible_hits")}
    assert found == expected


def test_headroom_is_counted_from_the_tables(shipped: Shipped) -> None:
    """At round 100 a table of 64-token pages has room for its prompt, what landed, and the unused pages."""
    name, at = "escalating-headroom", 100
    slots: dict[int, int] = {}
    for row in _table(name, "table_changes"):
        if row["round"] <= at:
            slots[row["submission"]] = row["length_slots"]
    landed: Counter[int] = Counter()
    for row in _table(name, "events"):
        if row["round"] <= at:
            landed[row["submission"]] += row["token_count"]
    expected = {
        row["submission"]: (slots[row["submission"]] * 64 - row["prompt_tokens"] - landed[row["submission"]]) // 64
        for row in _table(name, "submissions")
    }
    found = {row["submission"]: row["unused_pages"] for row in _rows(shipped(name), f"FROM headroom_held({at})")}
    assert found == expected


@pytest.mark.parametrize("name", ["retract-and-grant", "mixed-stall", "prefill-decode-pair"])
def test_a_round_in_words_has_every_decision(name: str, shipped: Shipped) -> None:
    """The items of a round in words are numbered without a gap: nothing that was decided is left out."""
    locked = shipped(name)
    for at in (2, 3, 5):
        for node in {row["node"] for row in _rows(locked, "FROM parts")}:
            rows = _rows(locked, f"SELECT item, says FROM stop_list({at}) WHERE node = '{node}'")
            assert [row["item"] for row in rows] == list(range(len(rows)))
            assert rows and all(row["says"] for row in rows)
