"""Answers 7, 8 and 21 of docs/cookbook.md, derived again from the real scheduler's recording, without the twin.

All three are about round 101 of `retract-and-grant` (fused, not mixed, no host tier, one full-history group of pages of
16 tokens, one page a block). From the recording come: whose block tables were held behind plan 100, how many tokens
each request had, that no page was empty, and who has a row in plan 101. The rest is arithmetic and the order in which
the rules try things (`scheduler-rules.md` 5.1, 5.5 and 8.3).
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.query.test_cookbook import ENTRIES
from tsviz.trace.reader import Part, open_bundle

TRACE = Path(__file__).resolve().parents[2] / "traces" / "retract-and-grant"
ROUND, PAGE_TOKENS = 101, 16


@pytest.fixture(scope="module")
def part() -> Part:
    """The recording of the real scheduler: plans, no decisions."""
    found = open_bundle(TRACE).parts[0]
    assert (found.engine["name"], found.level) == ("tokenspeed-scheduler", "plans")
    return found


def rows(part: Part, table: str) -> list[dict[str, Any]]:
    """Return the rows of a table up to and with round 101."""
    return [row for row in part.table(table).to_pylist() if row["round"] <= ROUND]


@pytest.fixture(scope="module")
def tokens(part: Part) -> dict[str, int]:
    """Tokens of each request when plan 101 was asked for: its prompt and what landed."""
    counted = Counter({row["request"]: row["prompt_tokens"] for row in rows(part, "submissions")})
    for event in rows(part, "events"):
        if event["kind"] == "extend_result":
            counted[event["request"]] += event["token_count"]
    return dict(counted)


@pytest.fixture(scope="module")
def held(part: Part) -> dict[str, list[int]]:
    """Block tables behind plan 100, by request in order of submission; r6 has been retracted and holds none."""
    tables: dict[str, list[int]] = {}
    for change in rows(part, "table_changes"):
        if change["round"] < ROUND:
            old = [] if change["fresh"] else tables[change["request"]]
            tables[change["request"]] = old[: change["first_slot"]] + change["pages"]
    order = [row["request"] for row in rows(part, "submissions")]
    waiting = {row["request"]: row for row in rows(part, "operations") if row["round"] == ROUND}
    return {name: tables[name] for name in order if name in tables and name not in waiting}


@pytest.fixture(scope="module")
def victims(held: dict[str, list[int]], tokens: dict[str, int]) -> list[str]:
    """Who goes first (8.2): nobody is exempt, all budgets being undeclared; most blocks, fewest tokens, id."""
    return sorted(held, key=lambda name: (-len(held[name]), tokens[name], name))


def answer(number: int) -> list[list[str]]:
    """Return the answer that stands in the document, without its head."""
    entry = next(entry for entry in ENTRIES if entry.number == str(number))
    return list(csv.reader(io.StringIO(entry.answer)))[1:]


def stops(held: dict[str, list[int]], granted: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the stops of the round in order; a stop's number is its place.

    Local prefill has no resident chunk and one new prompt, r6, whose attempt fails; so the round is the decodes', each
    of which is tried; then the loop of retraction: a victim, another attempt for r6, an offer.
    """
    made = [("phase", "resident_chunks"), ("phase", "new_prompts"), ("candidate", "r6"), ("attempt", "r6")]
    made.append(("phase", "decodes"))
    for name in held:
        made += [("candidate", name), ("attempt", name)]
    made.append(("phase", "retraction"))
    for victim, outcome in granted:
        made += [("victim", victim), ("attempt", "r6"), ("offer", outcome)]
    return made


@pytest.fixture(scope="module")
def made(held: dict[str, list[int]]) -> list[tuple[str, str]]:
    """The stops of round 101: r3 is not enough, r1 is."""
    return stops(held, [("r3", "capacity"), ("r1", "granted")])


def test_the_recording_says_what_the_derivation_needs(
    part: Part, held: dict[str, list[int]], tokens: dict[str, int]
) -> None:
    """Five requests hold all 64 pages, none shared, each full to the last token; r6 gets 17; two were retracted."""
    assert {name: len(pages) for name, pages in held.items()} == {"r1": 15, "r2": 11, "r3": 16, "r4": 9, "r5": 13}
    assert sorted(page for pages in held.values() for page in pages) == list(range(1, 65))
    assert {name: tokens[name] - 1 for name in held} == {n: PAGE_TOKENS * len(pages) for n, pages in held.items()}
    by_round = {row["round"]: row for row in rows(part, "rounds")}
    assert by_round[ROUND - 1]["empty_pages"] == 0
    assert by_round[ROUND]["retracted_requests"] == 2
    plan = [(row["kind"], row["request"]) for row in rows(part, "operations") if row["round"] == ROUND]
    assert plan == [("prefill", "r6")]
    (table,) = [c for c in rows(part, "table_changes") if c["round"] == ROUND]
    assert (table["request"], table["length_slots"]) == ("r6", 17)
    assert set(table["pages"]) <= {*held["r3"], *held["r1"]}


def test_answer_7(
    victims: list[str], held: dict[str, list[int]], tokens: dict[str, int], made: list[tuple[str, str]]
) -> None:
    """Each turn of retraction takes the first of those that are left, and the second of them stands behind."""
    expected = []
    for first, second in islice(pairwise(victims), 2):
        stop = str(made.index(("victim", first)))
        expected.append([stop, "0", first, str(len(held[first])), str(tokens[first]), "retracted"])
        expected.append([stop, "1", second, str(len(held[second])), str(tokens[second]), ""])
    assert answer(7) == expected


def test_answer_8(held: dict[str, list[int]], tokens: dict[str, int], made: list[tuple[str, str]]) -> None:
    """r6 needs a page for each 16 of its tokens and the first decode; there is nothing, and then what r3 gave up."""
    need = -(-(tokens["r6"] + 1) // PAGE_TOKENS)
    assert (tokens["r6"], need) == (257, 17)
    attempts = [stop for stop, one in enumerate(made) if one == ("attempt", "r6")]
    expected = []
    for stop, reachable in zip(attempts, (0, len(held["r3"])), strict=False):
        expected.append([str(stop), "r6", str(need), str(reachable), str(need - reachable)])
    assert answer(8) == expected
    assert len(held["r3"]) < need <= len(held["r3"]) + len(held["r1"])


def test_answer_21(held: dict[str, list[int]], made: list[tuple[str, str]]) -> None:
    """Refusals, the first of them, turns and offers, each at the stop of its attempt, turn or offer.

    Of the 16 pages that r3 gives up 1 is free and 15 cached: its last page filled up with the token before, and would
    have been published with the admission that it was refused.
    """
    expected: list[list[str]] = []
    turns = 0
    for stop, (what, name) in enumerate(made):
        if what == "attempt" and name != "r6":
            expected.append([str(stop), f"refused {name}: needs [1] pages, 0 blocks free, 0 with evictions"])
        elif what == "attempt" and turns < 2:
            free, reachable = (1, len(held["r3"])) if turns else (0, 0)
            expected.append(
                [str(stop), f"refused r6: needs [17] pages, {free} blocks free, {reachable} with evictions"]
            )
            if not turns:
                expected.append([str(stop), "first refused for capacity: r6"])
        elif what == "victim":
            turns += 1
            expected.append([str(stop), f"retraction for r6: victim {name}, retracted"])
        elif what == "offer":
            expected.append([str(stop), f"offers what is free to r6: {name}"])
    assert answer(21) == expected
