"""Every cause of the closed list: a scenario in which it holds, and the numbers that the answer must have."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.notation import full, state
from tests.incidents.scene import Scene
from tsviz.replay.why.answer import facts_of, why
from tsviz.replay.why.causes import EXPLAINED
from tsviz.replay.why.tree import Answer, Branch
from tsviz.replay.why.turns import Turns
from tsviz.scheduler import compat
from tsviz.scheduler import decisions as d
from tsviz.trace.reader import open_bundle

Opener = Callable[..., Scene]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Opener]:
    """Open a recorded scene of N usable blocks on the twin."""
    scenes: list[Scene] = []

    def open_scene(groups: list[Any], *, blocks: int, **options: Any) -> Scene:
        made = Scene(compat, groups, tmp_path / "scene", page=4, pages=blocks + 1, **options)
        scenes.append(made)
        return made

    yield open_scene
    for made in scenes:
        made.close()


def ask(s: Scene, request: str, round_: int | None = None) -> Answer:
    """End the recording and ask about a request in a round, or in the last one planned."""
    s.close()
    assert s._folder is not None
    facts = facts_of(open_bundle(s._folder).parts[0], None)
    return why(facts, Turns(facts), request, s.rounds_planned if round_ is None else round_)


def one(answer: Answer, kind: str) -> Branch:
    """The first branch of a kind."""
    return next(branch for branch in answer.tree.walk() if branch.kind == kind)


def test_every_cause_has_something_to_say_and_a_test() -> None:
    """The causes that `why` explains are the closed list, and each is asked about here or in `test_why`."""
    texts = "".join((Path(__file__).parent / name).read_text("utf-8") for name in ("test_why_causes.py", "test_why.py"))
    names = {name for name, value in vars(d).items() if isinstance(value, str) and value in d.CAUSES}
    assert set(EXPLAINED) == set(d.CAUSES)
    assert set(re.findall(r"cause == d\.([A-Z_]+)", texts)) == names


def test_scheduled(scene: Opener) -> None:
    """A row is told with its positions: 8 tokens, from 0 to 8 of 8."""
    s = scene([full(4)], blocks=10)
    s.submit("A", 8)
    s.round()
    answer = ask(s, "A")
    assert answer.cause == d.SCHEDULED
    assert one(answer, "row").numbers == {"input_tokens": 8, "begin_tokens": 0, "prefill_tokens": 8}
    assert answer.paragraph == "In round 1 A has a prefill row of 8 tokens, positions 0 to 8 of 8."


def test_waits_for_bootstrap(scene: Opener) -> None:
    """On P a request that was submitted 2 plans ago and has no peer yet is 2 rounds old in the third."""
    s = scene([full(4)], blocks=10, role="P")
    s.submit("A", 8)
    s.rounds(3)
    answer = ask(s, "A")
    assert answer.cause == d.BOOTSTRAP
    assert one(answer, "bootstrap").numbers == {"age_rounds": 2}


def test_waits_for_result(scene: Opener) -> None:
    """On P the completed prompt of round 1 has no result in round 3: 2 rounds."""
    s = scene([full(4)], blocks=10, role="P")
    s.arrive("A", 8)
    s.plan()
    s.plan()
    s.plan()
    answer = ask(s, "A")
    assert answer.cause == d.RESULT
    assert (one(answer, "row").position, one(answer, "row").numbers) == ("1", {"age_rounds": 2})


def test_remote_transfer(scene: Opener) -> None:
    """A landing of 12 tokens with 4 declared holds 4 blocks while the peer prefills, 2 rounds in the third."""
    s = scene([full(4)], blocks=10, role="D")
    s.arrive("A", 12, 4)
    s.rounds(3)
    answer = ask(s, "A")
    assert answer.cause == d.REMOTE_TRANSFER
    assert one(answer, "transfer").numbers == {"age_rounds": 2, "held_blocks": 4}


def test_batch_full(scene: Opener) -> None:
    """With one row a batch B waits while A has it."""
    s = scene([full(4)], blocks=10, slots=1)
    s.submit("A", 8)
    s.submit("B", 8)
    s.round()
    answer = ask(s, "B")
    assert answer.cause == d.BATCH_FULL
    assert one(answer, "batch").numbers == {"rows": 1, "max_batch_size": 1}


def test_no_request_slot(scene: Opener) -> None:
    """With one slot, which A keeps while it decodes, B has none."""
    s = scene([full(4)], blocks=10, slots=1)
    s.submit("A", 8)
    s.submit("B", 8)
    s.rounds(2)
    answer = ask(s, "B")
    assert answer.cause == d.NO_SLOT
    assert one(answer, "slots").numbers == {"requests": 1, "max_batch_size": 1}


def test_token_budget_spent(scene: Opener) -> None:
    """A's 8 tokens are the budget, so B waits."""
    s = scene([full(4)], blocks=10, budget=8)
    s.submit("A", 8)
    s.submit("B", 8)
    s.round()
    answer = ask(s, "B")
    assert answer.cause == d.BUDGET_SPENT
    assert one(answer, "budget").numbers == {"spent_tokens": 8, "max_scheduled_tokens": 8}
    assert "most by A 8" in one(answer, "budget").words


def test_decode_holdback(scene: Opener) -> None:
    """I23: decodes leave a state page of 4 tokens to the prompt of A, which is at the end of the chain of c."""
    s = scene([full(4), state(4)], blocks=200, budget=8, width=2, enable_mixed_prefill_decode=True)
    for name in "abcd":
        s.submit(name, 4, 40)
    s.rounds(7)
    s.submit("A", 16, 4)
    s.round()
    answer = ask(s, "c")
    assert answer.cause == d.HOLDBACK
    holdback = {"holdback_tokens": 4, "decode_input_tokens": 2, "max_scheduled_tokens": 8}
    assert one(answer, "holdback").numbers == holdback
    assert one(answer, "holdback").words.endswith("take 4: 4 + 4 + 2 > 8")  # a and b decode 2 tokens each
    assert answer.root == "A"


def test_chunk_cut_to_zero(scene: Opener) -> None:
    """Behind A's 4 of 6 tokens 2 are left, less than a state page, so the chunk of B is aligned to nothing."""
    s = scene([full(4), state(4)], blocks=40, budget=6)
    s.submit("A", 4)
    s.submit("B", 8)
    s.round()
    answer = ask(s, "B")
    assert answer.cause == d.CHUNK_ZERO
    chunk = one(answer, "chunk")
    assert (chunk.numbers["budget_tokens"], chunk.numbers["tokens"]) == (2, 0)
    assert "alignment" in chunk.words


def test_head_of_line(scene: Opener) -> None:
    """A's 24 tokens go in chunks of 8: in round 2 it is at chunk 2 of 3, and 1 round is left."""
    s = scene([full(4)], blocks=20, budget=8)
    s.submit("A", 24)
    s.submit("B", 4)
    s.rounds(2)
    answer = ask(s, "B")
    assert answer.cause == d.HEAD_OF_LINE
    assert one(answer, "progress").numbers == {
        "chunk": 2, "chunks": 3, "computed_tokens": 16, "prefill_tokens": 24, "rounds_left": 1,
    }  # fmt: skip
    assert (answer.root, answer.since_round) == ("A", 1)
    holder = ask(s, "A")
    assert "It holds the line: 1 request behind it is not tried (B)." in holder.paragraph
    assert one(holder, "progress").numbers["rounds_left"] == 1
    assert [(b.request, b.numbers) for b in one(holder, "waiters").children] == [("B", {"rounds": 2})]


def test_resident_prefill_blocked(scene: Opener) -> None:
    """I37 with a B behind A: A's third chunk needs 3 blocks, 1 is free, and Y has 4 of 9 with its peer."""
    s = scene([full(4)], blocks=9, budget=8, role="P")
    s.arrive("Y", 12, 1)
    s.plan()
    s.plan()
    s.result("Y")
    s.result("Y", 7)
    s.plan()
    s.arrive("A", 24, 1)
    s.arrive("B", 4, 1)
    s.rounds(4)
    answer = ask(s, "B")
    assert answer.cause == d.RESIDENT_BLOCKED
    deficit = one(answer, "deficit").numbers
    assert (deficit["free_blocks"], deficit["reachable_blocks"], deficit["deficit_blocks"]) == (1, 1, 2)
    # A holds 4 of its own and Y 4 as well: the chain goes on to the one that A waits for.
    assert [b.request for b in answer.tree.walk() if b.kind == "remote_transfer"] == ["Y"]
    assert answer.root == "Y"


def _four_residents(s: Scene) -> None:
    """I31: A to D (8 tokens each) decode until 16 blocks are full; then E (12) comes. One forward of each is out."""
    for name in "ABCD":
        s.submit(name, 8)
    s.plan()
    s.land()
    s.plan()
    for step in range(7):
        behind = list(s.in_flight)
        s.plan()
        for name, _ in behind:
            s.result(name, step)
    s.submit("E", 12)
    s.plan()


def test_victim_not_quiescent(scene: Opener) -> None:
    """I31: E needs 4 blocks of none; A would give 4 and is first in line, but its forward is out."""
    s = scene([full(4)], blocks=16, overlap_schedule_depth=1)
    _four_residents(s)
    answer = ask(s, "E")
    assert answer.cause == d.NOT_QUIESCENT
    deficit = one(answer, "deficit").numbers
    assert (deficit["reachable_blocks"], deficit["deficit_blocks"], deficit["total_blocks"]) == (0, 4, 16)
    holders = [(b.request, b.numbers["held_blocks"]) for b in one(answer, "holders").children]
    assert holders == [("A", 4), ("B", 4), ("C", 4), ("D", 4)]
    first = one(answer, "victim")
    assert (first.request, first.numbers["in_flight"], first.numbers["releasable_blocks"]) == ("A", 1, 4)
    assert "it is next" in first.words
    assert (answer.root, answer.cycle) == ("A", ())
    assert "It would give way, but has a forward out: 1 request waits for its pages (E)." in ask(s, "A").paragraph


def test_retracted_and_granted(scene: Opener) -> None:
    """I31: once its result has landed A is taken for E, for the first time, with the 16 tokens its tables are over."""
    s = scene([full(4)], blocks=16, overlap_schedule_depth=1)
    _four_residents(s)
    s.land()
    s.plan()
    answer = ask(s, "A")
    assert answer.cause == d.RETRACTED
    numbers = one(answer, "retraction").numbers
    # 8 prompt tokens and 9 generated ones, of which the newest is not computed.
    assert (numbers["retractions"], numbers["lost_tokens"]) == (1, 16)
    granted = ask(s, "E")
    assert granted.cause == d.SCHEDULED
    assert "gave way in this round: A" in one(granted, "grant").words


def test_capacity(scene: Opener) -> None:
    """I28: BIG lacks 2 of 12 blocks: 10 are free, X holds the other 10."""
    s = scene([full(4)], blocks=20, budget=16, enable_mixed_prefill_decode=True)
    s.submit("X", 32, 8)
    s.rounds(3)
    s.submit("BIG", 40, 8)
    s.submit("s", 8, 4)
    s.round()
    answer = ask(s, "BIG")
    assert answer.cause == d.CAPACITY
    assert one(answer, "group").numbers["need_pages"] == 12
    deficit = one(answer, "deficit").numbers
    assert (deficit["free_blocks"], deficit["reachable_blocks"], deficit["deficit_blocks"]) == (10, 10, 2)
    assert one(answer, "holder").numbers == {"held_blocks": 10, "held_pages": 10}
    assert "a prefill moves on" in one(answer, "victims").words


def test_nothing_retractable(scene: Opener) -> None:
    """I01: B needs 4 + 2 of 4 blocks; the 6 of A are with the peer, and nobody can be a victim."""
    s = scene([full(4), state(4)], blocks=10, role="D")
    s.arrive("A", 8, 8)
    s.arrive("B", 8, 8)
    s.plan()
    s.plan()
    answer = ask(s, "B")
    assert answer.cause == d.NOTHING_RETRACTABLE
    deficit = one(answer, "deficit").numbers
    assert (deficit["reachable_blocks"], deficit["deficit_blocks"]) == (4, 2)
    assert one(answer, "holder").numbers["held_blocks"] == 6
    assert one(answer, "victims").numbers == {"candidates": 0, "exempt": 0}
    assert answer.root == "A"


def test_exempt_victims_are_named(scene: Opener) -> None:
    """I01 further on: A decodes within its 8 declared tokens, so it is exempt and B waits."""
    s = scene([full(4), state(4)], blocks=10, role="D")
    s.arrive("A", 8, 8)
    s.arrive("B", 8, 8)
    s.plan()
    s.event("RemotePrefillDoneEvent", "A", 5)
    s.round()
    answer = ask(s, "B")
    assert answer.cause == d.NOTHING_RETRACTABLE
    assert "exempt: its reserve covers its whole generation" in one(answer, "victim").words


def test_one_remote_admission(scene: Opener) -> None:
    """I22: a landing a round, and this one is A's."""
    s = scene([full(4)], blocks=10, role="D")
    s.arrive("A", 12, 4)
    s.arrive("B", 12, 4)
    s.plan()
    answer = ask(s, "B")
    assert answer.cause == d.ONE_REMOTE
    assert answer.root == "A"


def test_recovery_alone(scene: Opener) -> None:
    """A that was retracted comes back by itself: the decodes of that round wait for its 12 tokens."""
    s = scene([full(4)], blocks=12, role="D")
    for name in "ABC":
        s.arrive(name, 8)
        s.plan()
        s.event("RemotePrefillDoneEvent", name, 5)
        s.land()
    for _ in range(20):
        s.round()
        if any(v.cause == d.RETRACTED for v in s.verdicts.values()):
            break
    victim = next(name for name, v in s.verdicts.items() if v.cause == d.RETRACTED)
    left = [name for name in "ABC" if name != victim]
    s.finish(left[0])
    s.round()
    answer = ask(s, left[1])
    assert answer.cause == d.RECOVERY_ALONE
    assert (answer.root, one(answer, "progress").request) == (victim, victim)


def test_decode_waits_for_prefill_round(scene: Opener) -> None:
    """I38: outside mixed mode the 16 tokens of q have the round to themselves."""
    s = scene([full(4)], blocks=40, budget=16)
    s.submit("A", 8, 64)
    s.round()
    s.submit("q", 16, 4)
    s.round()
    answer = ask(s, "A")
    assert answer.cause == d.PREFILL_ONLY
    assert one(answer, "batch").numbers == {"prefill_rows": 1, "scheduled_tokens": 16}


def test_deferred_by_transfer(scene: Opener) -> None:
    """I46: the store of A's 4 pages, operation 0, is out; while it is nobody is retracted for C."""
    s = scene([full(4)], blocks=8, num_host_pages=20)
    s.submit("A", 16)
    s.round()
    s.finish("A")
    s.submit("B", 8)
    s.round()
    s.round()
    s.stored(1)
    s.rounds(5)
    s.submit("C", 4)
    s.rounds(6)
    answer = ask(s, "C")
    assert answer.cause == d.DEFERRED
    ticket = one(answer, "ticket")
    # The store began behind the plan of round 1, and the round asked about is the 14th.
    assert (ticket.numbers["op_id"], ticket.numbers["pages"], ticket.numbers["age_rounds"]) == (0, 4, 13)
    rest = one(answer, "rest").numbers
    assert (rest["free_blocks"], rest["evictable_blocks"], rest["pinned_blocks"]) == (0, 0, 4)


def test_never_schedulable(scene: Opener) -> None:
    """A step of 8 tokens never fits a budget of 4, and both sides are named."""
    s = scene([full(4)], blocks=20, budget=4, width=8)
    s.submit("A", 4, 8)
    s.rounds(2)
    answer = ask(s, "A")
    assert answer.cause == d.NEVER
    assert one(answer, "never").numbers == {"decode_input_tokens": 8, "max_scheduled_tokens": 4}
    assert "decode_input_tokens is 8, max_scheduled_tokens is 4" in one(answer, "never").words
