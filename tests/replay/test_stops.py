"""Stories of rounds, on the recordings that ship: what each incident says of itself, stop by stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tsviz.replay.inside import Inside
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.stops.story import ADMITTED, IN_PLACE, REFUSED, RETRACTED, STUCK, TOLD, NotKnown, RoundStory
from tsviz.replay.stops.words import Groups, chunk, spans
from tsviz.replay.view import PartView
from tsviz.trace.reader import open_bundle

TRACES = Path(__file__).parents[2] / "traces"

Tell = Callable[..., RoundStory]


@pytest.fixture(scope="module")
def view(shared_indexes: None) -> Callable[..., PartView]:
    """Views of shipped traces, their decisions derived once."""
    found: dict[str, PartView] = {}

    def open_(name: str, node: str | None = None) -> PartView:
        key = f"{name}/{node}"
        if key not in found:
            bundle = open_bundle(TRACES / name)
            part = bundle.part(node)
            found[key] = PartView(bundle, part, None, Inside(part, build_index(part), name))
        return found[key]

    return open_


@pytest.fixture
def tell(view: Callable[..., PartView]) -> Tell:
    """The story of a round of a shipped trace."""

    def story(name: str, round_: int, node: str | None = None) -> RoundStory:
        found = view(name, node).story(round_)
        assert isinstance(found, RoundStory)
        return found

    return story


def test_two_victims_for_one_grant(tell: Tell) -> None:
    """Round 101: r6 needs 17 pages; r3 (16 blocks) is taken, 1 is lacking, r1 (15 blocks) is taken, r6 is granted."""
    story = tell("retract-and-grant", 101)
    assert [phase.name for phase in story.phases] == ["resident chunks", "new prompts", "decodes", "retraction"]
    first, second = story.phases[-1].entries
    assert (first.outcome, second.outcome) == (RETRACTED, RETRACTED)
    assert [(stop.kind, stop.outcome) for stop in first.stops] == [
        ("iteration", RETRACTED), ("attempt", REFUSED), ("grant", REFUSED),
    ]  # fmt: skip
    assert [stop.outcome for stop in second.stops] == [RETRACTED, ADMITTED, ADMITTED]
    ranks = [(v.request, v.numbers["choice"], v.numbers["releasable_blocks"]) for v in first.stops[0].of("victim")]
    assert ranks == [("r3", 0, 16), ("r1", 1, 15), ("r5", 2, 13), ("r2", 3, 11), ("r4", 4, 9)]
    (refusal,) = first.stops[1].of("refusal")
    # 17 pages of one block each against the 16 blocks that evictions could reach.
    assert (refusal.numbers["reachable_blocks"], refusal.numbers["deficit_blocks"]) == (16, 1)
    (eviction,) = second.stops[1].of("eviction")
    assert eviction.words == "15 pages of full from the device"
    assert [fact.numbers["pages"] for fact in eviction.facts] == [5, 10]


def test_every_decode_of_that_round_is_refused_and_the_first_refusal_is_the_blocker(tell: Tell) -> None:
    """Round 101: five decodes need a page each and there is none; r6, the newcomer, was refused before them."""
    story = tell("retract-and-grant", 101)
    decodes = story.phases[2].entries
    assert [(entry.request, entry.outcome) for entry in decodes] == [(f"r{n}", REFUSED) for n in range(1, 6)]
    blockers = [fact.request for stop in story.stops() for fact in stop.of("blocker")]
    assert blockers == ["r6"]


def test_a_chunk_is_cut_in_the_order_of_its_rules(tell: Tell) -> None:
    """Round 24: budget 256, 64 fed again leaves 192, the prompt has 102 left: the whole prompt is what binds."""
    story = tell("bounded-replay", 24)
    ((_, entry),) = story.of(1)
    cut = next(entry.stops[0].of("chunk"))
    assert [(step.numbers.get("tokens"), step.marked) for step in cut.facts] == [
        (256, False), (192, False), (102, True), (None, False), (None, False), (None, False),
    ]  # fmt: skip
    assert entry.outcome == ADMITTED
    assert next(entry.stops[0].of("match")).numbers["common_tokens"] == 688


def test_an_incomplete_prompt_holds_the_line(tell: Tell) -> None:
    """Round 8 of head-of-line: one candidate, 10,240 of 24,000 tokens, nothing behind it is tried."""
    story = tell("head-of-line", 8)
    ((_, entry),) = [(phase, entry) for phase in story.phases for entry in phase.entries]
    (hold,) = [fact for stop in entry.stops for fact in stop.of("hold")]
    assert (hold.request, hold.numbers) == ("report", {"computed_tokens": 10_240, "prompt_tokens": 24_000})


def test_nobody_can_give_way(tell: Tell) -> None:
    """Round 3 of mixed-stall: the one candidate is exempt, so the turn ends stuck."""
    story = tell("mixed-stall", 3)
    (turn,) = story.phases[-1].entries
    assert turn.outcome == STUCK
    (victim,) = turn.stops[0].of("victim")
    assert (victim.request, victim.numbers["exempt"], victim.numbers["choice"]) == ("resident", 1, -1)


def test_decodes_in_place_are_named_from_the_plan(view: Callable[..., PartView], tell: Tell) -> None:
    """Round 900: five decodes touch no page: stops 6 to 10, the five decode rows of the plan."""
    story = tell("escalating-headroom", 900)
    (entry,) = story.phases[-1].entries
    (stop,) = entry.stops
    assert (stop.kind, stop.number, stop.end) == (IN_PLACE, 6, 10)
    rows = [row.request for row in view("escalating-headroom").snapshot(900).rows]
    assert len(rows) == 5
    assert all(name in entry.words for name in rows)
    assert story.at(8) is stop


def test_a_candidate_of_which_nothing_is_told_has_the_verdict_that_holds(tell: Tell) -> None:
    """In round 268 r1 decodes, as in the round before, so that no verdict is told: it needs no page and has its row."""
    story = tell("readmission-seals", 268)
    (entry,) = (entry for phase in story.phases for entry in phase.entries if entry.request == "r1")
    assert (entry.outcome, entry.words) == (TOLD, "scheduled, no page touched")


def test_the_order_of_return_is_told_before_the_first_phase(tell: Tell) -> None:
    """Round 900: three are away, and the third request to be retracted returns last."""
    story = tell("escalating-headroom", 900)
    assert [fact.request for fact in story.opening] == ["row-0000008", "row-0000004", "row-0000001"]


def test_what_comes_behind_the_plan_stands_behind_it(tell: Tell) -> None:
    """D/0, round 13: q4's transfer fails and q5's prompt is there, both after the plan of the round."""
    story = tell("prefill-decode-pair", 13, "D")
    assert [(fact.request, fact.words) for fact in story.behind] == [
        ("q8", "Bootstrapping → Submitted"),
        ("q4", "RemotePrefilling → Finished"),
        ("q5", "RemotePrefilling → PrefillDone"),
    ]


@pytest.mark.parametrize(
    ("name", "rounds"), [("retract-and-grant", 310), ("mixed-stall", 5), ("bounded-replay", 66), ("head-of-line", 55)]
)
def test_stops_are_numbered_without_a_gap(tell: Tell, name: str, rounds: int) -> None:
    """Every number from 1 to the last stands for exactly one stop, in every round; stepping visits each once."""
    for round_ in range(1, rounds + 1):
        story = tell(name, round_)
        expected = 1
        for stop in story.stops():
            assert stop.number == expected
            expected = stop.end + 1
        walked, at = [], story.step(None, 1)
        while at is not None:
            walked.append(at)
            at = story.step(at, 1)
        assert walked == [stop.number for stop in story.stops()]
        assert story.step(walked[0], -1) is None
        assert story.step(None, -1) == walked[-1]


def test_every_candidate_that_has_a_row_was_admitted(view: Callable[..., PartView], tell: Tell) -> None:
    """In all 310 rounds of retract-and-grant the rows of the plan are the admitted entries and the decodes in place."""
    for round_ in range(1, 311):
        story = tell("retract-and-grant", round_)
        admitted = [
            stop.request for stop in story.stops() if stop.kind != "grant" and stop.outcome == ADMITTED
        ]  # fmt: skip
        quiet = sum(stop.end - stop.number + 1 for stop in story.stops() if stop.kind == IN_PLACE)
        rows = view("retract-and-grant").snapshot(round_).rows
        assert len(set(admitted)) + quiet == len(rows)
        assert set(admitted) <= {row.request for row in rows}


def test_without_an_index_a_story_is_not_known_and_the_command_is_named() -> None:
    """Only plans were recorded: `tsviz index` derives what is behind them."""
    bundle = open_bundle(TRACES / "mixed-stall")
    found = PartView(bundle, bundle.parts[0]).story(3)
    assert isinstance(found, NotKnown)
    assert (found.kind, found.command) == ("not_recorded", f"tsviz index {bundle.path}")


def test_behind_the_frontier_nothing_is_known(view: Callable[..., PartView]) -> None:
    """A frontier at round 4 with a divergence: round 5 is diverged; without one it is unverified."""
    part = open_bundle(TRACES / "mixed-stall").parts[0]
    inside = Inside(part, build_index(part), "t")
    for words, kind in (("plan: recorded 1, re-executed 2", "diverged"), ("", "unverified")):
        inside.frontier = replace(inside.frontier, last_round=4, divergence=words)
        found = inside.story(5, ())
        assert isinstance(found, NotKnown)
        assert found.kind == kind
        assert isinstance(inside.story(4, ()), RoundStory)


def test_a_chunk_that_is_cut_to_nothing_says_by_which_rule() -> None:
    """Budget 10 with 64 to feed again: nothing is left, the replay rule binds."""
    groups = Groups(("full",), (1,), False, 64, 16)
    row = {
        "request": "r", "tokens": 0, "bound_by": "replay", "budget_tokens": 10, "replay_tokens": 64,
        "unscheduled_tokens": 100, "promotion_tokens": 0,
    }  # fmt: skip
    fact = chunk(row, groups)
    assert fact.words == "cut to nothing by replay: not now"
    assert [step.marked for step in fact.facts] == [False, True, False, False, False, False]


def test_pages_are_told_as_spans_in_their_order() -> None:
    """Adjacent pages, up or down, are one span."""
    assert spans([22, 27, 64, 10, 9, 8, 3, 4, 5]) == "22 27 64 10..8 3..5"
