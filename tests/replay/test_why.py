"""Why, on the recordings that ship: the story of each incident is in the answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tsviz.replay.decided.causes import REFUSED
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.why.answer import CannotSay, facts_of, why
from tsviz.replay.why.facts import Facts
from tsviz.replay.why.tree import Answer, Branch
from tsviz.replay.why.turns import Turns
from tsviz.scheduler import decisions as d
from tsviz.trace.reader import open_bundle

TRACES = Path(__file__).parents[2] / "traces"

Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def known(shared_indexes: None) -> Callable[..., Facts]:
    """Facts of shipped traces, their decisions derived once."""
    found: dict[str, Facts] = {}

    def facts(name: str, node: str | None = None) -> Facts:
        key = f"{name}/{node}"
        if key not in found:
            part = open_bundle(TRACES / name).part(node)
            found[key] = facts_of(part, build_index(part))
        return found[key]

    return facts


def one(answer: Answer, kind: str) -> Branch:
    """The first branch of a kind."""
    return next(branch for branch in answer.tree.walk() if branch.kind == kind)


def test_the_live_lock_names_who_evicts_whom(known: Callable[..., Facts]) -> None:
    """row-0001321 and row-0001361 evict each other; from round 2,522 on nobody of them gets any further."""
    facts = known("mixed-undeclared-livelock")
    answer = why(facts, Turns(facts), "row-0001321", 2560)
    assert answer.cause == d.CAPACITY
    assert set(answer.cycle) == {"row-0001321", "row-0001361"}
    cycle = one(answer, "evictions")
    assert "row-0001361 evicts row-0001321, row-0001321 evicts row-0001361" in cycle.words
    # The story of the trace (traces/incidents.json): no new position from round 2,522 on.
    assert cycle.numbers["last_gain_round"] == 2521
    assert "a live-lock" in answer.paragraph


def test_a_request_behind_the_cycle_is_told_of_it(known: Callable[..., Facts]) -> None:
    """row-0001392 is behind a blocked resident that stands in the cycle, so its answer names the cycle too."""
    facts = known("mixed-undeclared-livelock")
    answer = why(facts, Turns(facts), "row-0001392", 2560)
    assert answer.cause == d.RESIDENT_BLOCKED
    assert set(answer.cycle) == {"row-0001321", "row-0001361"}


def test_the_stall_is_a_cycle_of_holdback_and_pages(known: Callable[..., Facts]) -> None:
    """newcomer needs pages of resident, whose decode is held back for newcomer: 4 + 1 tokens against a budget of 4."""
    facts = known("mixed-stall")
    answer = why(facts, Turns(facts), "newcomer", 3)
    assert answer.cycle == ("newcomer", "resident")
    assert "4 + 1 > 4" in one(answer, "holdback").words


def test_a_prompt_is_sealed_by_a_readmission(known: Callable[..., Facts]) -> None:
    """new-1 waits for r1 to come back, which lacks 10 blocks, and r2 holds 22 of 27."""
    facts = known("readmission-seals")
    answer = why(facts, Turns(facts), "new-1", 200)
    assert answer.cause == d.SEALED
    assert [b.request for b in answer.tree.walk() if b.kind == d.CAPACITY] == ["r1"]
    assert one(answer, "deficit").numbers["deficit_blocks"] == 10
    assert one(answer, "holder").numbers["held_blocks"] == 22
    assert answer.root == "r2"


def test_two_victims_gave_way_for_one_grant(known: Callable[..., Facts]) -> None:
    """In round 101 r3 and then r1 gave way to r6, and r1 comes back later."""
    facts = known("retract-and-grant")
    answer = why(facts, Turns(facts), "r6", 101)
    assert "2 requests gave way in this round: r3, then r1" in answer.paragraph
    ranked = [b for b in answer.tree.walk() if b.kind == "victim"]
    assert [b.numbers["choice"] for b in ranked] == [0, 1, 2, 3, 4]
    assert why(facts, Turns(facts), "r3", 101).cause == d.RETRACTED


def test_a_request_that_computes_again_says_since_when_and_why(known: Callable[..., Facts]) -> None:
    """r3 lost 240 tokens in round 35, refused itself; in round 85 it has all of them to compute again."""
    facts = known("retract-and-grant")
    paragraph = why(facts, Turns(facts), "r3", 85).paragraph
    assert paragraph.startswith("In round 85 r3 has a prefill row of 241 tokens, positions 0 to 241 of 241.")
    assert "retracted in round 35 for its own refusal (needs 1 of full; 0 blocks in reach, 1 short)" in paragraph
    assert "it came back in round 85 at position 0, 240 to compute again" in paragraph
    assert "It holds 16 of 64 blocks: 1 request is refused pages in this round (r6)." in paragraph
    lost = why(facts, Turns(facts), "r3", 35)
    assert lost.paragraph.startswith("In round 35 r3 has no row: retracted for its own refusal (needs 1 of full;")
    assert lost.tree.words == "r3: retracted this round for its own refusal"


def test_who_keeps_others_waiting_says_so(known: Callable[..., Facts]) -> None:
    """report holds the line of three chats in round 5; r1 seals the door for new-1 in round 195 and has no pages."""
    facts = known("head-of-line")
    held = one(why(facts, Turns(facts), "report", 5), "waiters")
    assert held.words == "holds the line: 3 requests behind it are not tried (chat-2, chat-3, chat-4)"
    assert [child.request for child in held.children] == ["chat-2", "chat-3", "chat-4"]
    facts = known("readmission-seals")
    sealed = why(facts, Turns(facts), "r1", 195).paragraph
    assert "It must come back first: 1 request is sealed behind it (new-1)." in sealed


def test_a_grant_that_cannot_join_says_so(known: Callable[..., Facts]) -> None:
    """A prefill that was granted in a round with decodes waits a round, outside mixed mode."""
    facts = known("retract-and-grant")
    rows = facts.decided.table("verdicts").to_pylist()
    row = next(row for row in rows if row["cause"] == "grant_cannot_join")
    answer = why(facts, Turns(facts), row["request"], row["round"])
    assert answer.cause == d.CANNOT_JOIN
    assert one(answer, "grant").numbers["decode_rows"] > 0


def test_a_replayed_window_is_told(known: Callable[..., Facts]) -> None:
    """The second request hits 688 tokens and feeds the last 64 of them again."""
    facts = known("bounded-replay")
    start = one(why(facts, Turns(facts), "second", 25), "start")
    assert (start.numbers["hit_tokens"], start.numbers["replay_tokens"]) == (688, 64)


def test_a_failed_transfer_ends_the_request(known: Callable[..., Facts]) -> None:
    """q4 waits for its peer in round 13 and has failed in front of round 14."""
    facts = known("prefill-decode-pair", "D")
    assert why(facts, Turns(facts), "q4", 13).cause == d.REMOTE_TRANSFER
    after = why(facts, Turns(facts), "q4", 20)
    assert (after.cause, after.paragraph) == ("ended", "q4 aborted (its transfer failed) in front of round 14.")


@pytest.mark.parametrize("name", ["retract-and-grant", "readmission-seals", "head-of-line", "mixed-stall"])
def test_every_request_in_every_round_has_an_answer(known: Callable[..., Facts], name: str) -> None:
    """Each answer names the cause that was decided, and no page is held twice over: held + reachable <= the pool."""
    facts = known(name)
    turns, asked = Turns(facts), 0
    for round_ in range(1, facts.last_round + 1, 3):
        for submission in facts.live(round_):
            said = facts.verdict(submission, round_)
            answer = why(facts, turns, facts.life.names[submission], round_)
            assert said is not None
            assert (answer.cause, answer.since_round) == (said.cause, said.since_round)
            asked += 1
            if said.cause in REFUSED:
                deficit, held = one(answer, "deficit").numbers, one(answer, "holders").numbers
                assert held["held_blocks"] + deficit["reachable_blocks"] <= deficit["total_blocks"]
                assert deficit["deficit_blocks"] > 0
    assert asked


def test_without_a_round_the_last_wait_is_told(known: Callable[..., Facts]) -> None:
    """chat-2's last round without a row lies between its row of then and its end."""
    facts = known("head-of-line")
    answer = why(facts, Turns(facts), "chat-2")
    assert answer.cause != d.SCHEDULED
    later = [v.cause for v in facts.verdicts(answer.submission, facts.last_round) if v.since_round > answer.round]
    assert set(later) == {d.SCHEDULED}


def test_an_unknown_request_is_refused_with_names(known: Callable[..., Facts]) -> None:
    """A misspelt id is answered with the ids that are near."""
    facts = known("head-of-line")
    with pytest.raises(CannotSay, match="'chat-2'"):
        why(facts, Turns(facts), "chat2", 8)
    with pytest.raises(CannotSay, match="round 999: this trace has rounds 1 to 55"):
        why(facts, Turns(facts), "chat-2", 999)
