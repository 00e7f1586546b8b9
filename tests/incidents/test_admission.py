"""Admission and reserves: what a chunk, a landing or a decode asks for, and what is held beside it."""

from __future__ import annotations

import pytest

from tests.conformance.notation import full, sliding, state
from tests.incidents.conftest import OpenScene
from tsviz.scheduler import decisions as d


def test_i01_a_landing_holds_the_first_growth_of_its_state(scene: OpenScene) -> None:
    """I01: each landing takes 4 history and 2 state blocks, so B waits for A instead of both getting stuck at 10."""
    s = scene([full(4), state(4)], blocks=10, role="D")
    s.arrive("A", 8, 8)
    s.arrive("B", 8, 8)
    landed = s.plan()
    assert (landed.remote_prefill, len(landed.zero["full"]), len(landed.zero["st"])) == ("A:P[0+8/8]@1", 4, 2)
    s.tells(d.Reserve, request_id="A", headroom_tokens=8, growth_tokens=1)
    assert s.plan().remote_prefill == ""
    s.tells(d.Refused, request_id="B", need_pages=(4, 2), free_blocks=4, reachable_blocks=4)
    s.waits("B", d.NOTHING_RETRACTABLE)
    s.event("RemotePrefillDoneEvent", "A", 5)
    assert s.rounds(8) == ["A:D[1/8]@1"] * 8
    s.tells(d.Victim, request_id="A", exempt=True, rank=-1)
    s.finish("A")
    assert s.plan().remote_prefill == "B:P[0+8/8]@2"
    s.answers("I01", (1, "A", [4, 2], 8, 1), (2, "B", [4, 2], 8, 1), (11, "B", [4, 2], 8, 1))


def test_i02_headroom_stays_with_full_history(scene: OpenScene) -> None:
    """I02: the first chunk of 64+16 asks 20 history blocks and 4 of the window, 24 of 30, and goes at once."""
    s = scene([full(4), sliding(8, 4)], blocks=30, budget=16)
    s.submit("A", 64, 16)
    first = s.round()
    assert (first.rows, len(first.zero["full"]), len(first.zero["swa"])) == ("A:P[0+16/64]@1", 20, 4)
    s.tells(d.Reserve, request_id="A", decode_tokens=0, rest_of_prompt_tokens=48, headroom_tokens=16)
    second = s.round()
    assert (second.rows, len(second.zero["full"]), len(second.zero["swa"])) == ("A:P[16+16/64]@1", 0, 4)
    s.tells(d.Reclaim, request_id="A", group=1, slots=2)
    assert s.rounds(3) == ["A:P[32+16/64]@1", "A:P[48+16/64]@1", "A:D[1/64]@1"]
    s.answers(
        "I02",
        (1, "A", 0, 48, 16, [20, 4]),
        (2, "A", 0, 0, 0, [0, 4]),
        (3, "A", 0, 0, 0, [0, 4]),
        (4, "A", 1, 0, 0, [0, 5]),
    )


def test_i04_evictions_are_exactly_the_shortage(scene: OpenScene) -> None:
    """I04: with 3 cached blocks left by each request, an admission evicts what it lacks and no more (D, E: 1 and 2)."""
    s = scene([full(4), state(4)], blocks=12, budget=4)
    for name in "ABCDE":
        s.submit(name, 8, 1)
        empty = s.scheduler.empty_lcm_blocks()
        assert s.round().rows.startswith(f"{name}:P[0+4/8]")
        if name in "DE":  # the chunk takes 3 history blocks and a state block: 4 - 3 empty
            assert empty == 3
            s.tells(d.Admitted, request_id=name, fresh_pages=(3, 1), evicted_pages=1)
        assert s.round().rows.startswith(f"{name}:P[4+4/8]")
        assert s.scheduler.empty_lcm_blocks() == {"A": 6, "B": 3}.get(name, 0)
        if name in "DE":  # an endpoint and its growth: 2 - 0 empty
            s.tells(d.Admitted, request_id=name, fresh_pages=(0, 2), evicted_pages=2)
        assert s.round().rows.startswith(f"{name}:D")
        s.finish(name)
    s.answers("I04", (10, "D", 4, 1, 1), (11, "D", 2, 2, 2), (13, "E", 4, 1, 1), (14, "E", 2, 2, 2))


def test_i05_a_state_group_asks_the_same_at_every_length(scene: OpenScene) -> None:
    """I05: A decodes from 8 to 48 tokens with at most 2 state blocks live, and never asks for more than one."""
    s = scene([full(4), state(4)], blocks=18)
    s.submit("A", 8, 40)
    first = s.round()
    assert (len(first.zero["full"]), len(first.zero["st"])) == (12, 2)
    for _ in range(39):
        plan = s.round()
        assert plan.rows == "A:D[1/8]@1"
        assert s.scheduler.active_lcm_blocks() - 12 <= 2
        assert len(plan.zero.get("st", [])) <= 1
    assert s.scheduler.request_token_size("A") == 48
    s.answers("I05", (1, 9))


def test_i23_decodes_leave_a_state_page_to_a_pending_prefill(scene: OpenScene) -> None:
    """I23: of four residents of width 2 two decode, and the prompt of 16 gets 4 of the 8 tokens in each of 4 rounds."""
    s = scene([full(4), state(4)], blocks=200, budget=8, width=2, enable_mixed_prefill_decode=True)
    for name in "abcd":
        s.submit(name, 4, 40)
    s.rounds(7)
    s.submit("A", 16, 4)
    for begin in (0, 4, 8, 12):
        assert s.round().rows == f"A:P[{begin}+4/16]@5 a:D[2/4]@1 b:D[2/4]@2"
        s.tells(d.Phase, name="decodes", budget_tokens=8, holdback_tokens=4)
        s.tells(d.Chunk, request_id="A", tokens=4, budget_tokens=4)
        s.waits("c", d.HOLDBACK)
        s.waits("d", d.HOLDBACK)
    assert s.round().rows == "a:D[2/4]@1 b:D[2/4]@2 c:D[2/4]@3 d:D[2/4]@4"
    s.answers("I23", ("a", 0), ("b", 0), ("c", 2), ("d", 1))


def test_i25_a_landing_holds_the_first_verify_window(scene: OpenScene) -> None:
    """I25: A's landing takes 5 of 7 blocks, window included, so B (4) waits and both can make their first step."""
    s = scene([full(4)], blocks=7, role="D", width=4)
    s.arrive("A", 16, 4)
    s.arrive("B", 12, 4)
    assert len(s.plan().zero["full"]) == 5
    s.tells(d.Reserve, request_id="A", decode_tokens=4, headroom_tokens=4)
    assert s.plan().remote_prefill == ""
    s.tells(d.Refused, request_id="B", need_pages=(4,), free_blocks=2)
    s.event("RemotePrefillDoneEvent", "A", 5)
    step = s.plan()
    assert (step.rows, step.zero) == ("A:D[4/16]@1", {"full": []})
    s.finish("A")
    assert s.plan().remote_prefill == "B:P[0+12/12]@2"
    s.answers("I25", ("A", "remote_landing", [5]), ("B", "remote_landing", [4]), ("A", "decode", [0]))


def test_i34_a_hit_pays_for_its_own_window(scene: OpenScene) -> None:
    """I34: behind a hit of 16 a chunk of 8 asks 3 window blocks and no second window, and fills the pool exactly."""
    s = scene([full(4), sliding(8, 4)], blocks=12, budget=8)
    shared = list(range(16))
    s.serve("seed", shared)
    s.submit("A", [*shared, *range(90, 98)], 2)
    plan = s.round()
    assert (plan.rows, len(plan.zero["full"]), len(plan.zero["swa"])) == ("A:P[16+8/24]@2", 3, 3)
    assert s.counts == (0, 0, 12)  # 4 + 2 of the hit, 3 + 3 fresh
    s.tells(d.TierMatch, request_id="A", group=1, common_tokens=16, hole_slots=2, hit_slots=2)
    s.tells(d.Reserve, request_id="A", decode_tokens=1, rest_of_prompt_tokens=0, headroom_tokens=2)
    s.round()
    s.tells(d.Reclaim, request_id="A", group=1, slots=2)
    assert s.counts[0] == 2  # nobody else shares them
    s.answers("I34", ("A", 16, 1, [3, 3]))


def test_sliding_growth_that_nobody_can_pay_for(scene: OpenScene) -> None:
    """Care point: two exempt residents share a window, each lacks one block, and nothing outstanding can free one."""
    s = scene([full(4), sliding(8, 4)], blocks=14)
    shared = list(range(8))
    s.submit("A", shared, 16)
    s.rounds(2)
    s.submit("B", [*shared, 91, 92, 93, 94], 8)
    assert s.round().rows == "B:P[8+4/12]@2"
    assert s.rounds(4) == ["A:D[1/8]@1 B:D[1/12]@2"] * 4
    assert s.rounds(3) == ["A:D[1/8]@1"] * 3
    for _ in range(5):
        assert s.round().rows == ""
        s.tells(d.Iteration, blocker_id="A", victim_id="", outcome=d.NOTHING_RETRACTABLE)
        for name in "AB":
            s.tells(d.Victim, request_id=name, exempt=True, rank=-1, in_flight=0)
    s.tells(d.Refused, request_id="A", need_pages=(0, 1), free_blocks=0, reachable_blocks=0)
    s.waits("A", d.NOTHING_RETRACTABLE)
    # 17 of 24 and 17 of 20 tokens: neither has outgrown its declared budget.
    assert [s.scheduler.request_token_size(name) for name in "AB"] == [17, 17]
    assert s.counts == (0, 0, 14)


@pytest.mark.parametrize(("new", "victim", "released"), [(4096, "C", 2), (4097, "B", 1025)])
def test_a_generation_up_to_the_safe_step_is_exempt(scene: OpenScene, new: int, victim: str, released: int) -> None:
    """Care point: B gives its 1025 blocks for C with a budget of 4097 tokens, and is exempt with 4096."""
    s = scene([full(4)], blocks=2052, budget=1)  # 2 + 1025 + 1025, with (4 + 4096) / 4 = 1025
    for name, budget in (("C", 0), ("A", 4096), ("B", new)):
        s.submit(name, 4, budget)
    assert s.rounds(12)[-1] == "B:P[3+1/4]@3"
    assert s.rounds(4) == ["C:D[1/4]@1"] * 4
    assert s.counts == (0, 0, 2052)
    assert (s.round().rows, s.waiting) == ("A:D[1/4]@2", 1)  # C is blocked, A spends the budget, B is quiescent
    assert s.scheduler.active_lcm_blocks() == 2052 - released
    s.tells(d.Iteration, blocker_id="C", victim_id=victim, outcome=d.RETRACTED)
    s.tells(d.Victim, request_id="A", exempt=True, rank=-1)
    s.tells(d.Victim, request_id="B", exempt=new == 4096, releasable_blocks=1025)
