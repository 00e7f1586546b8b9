"""Overlapped and speculative steps: what a step must own before it is planned, and what it publishes."""

from __future__ import annotations

from tests.conformance.notation import full
from tests.incidents.conftest import OpenScene
from tests.incidents.scene import Scene
from tsviz.scheduler import decisions as d


def _second_step(s: Scene, order: str, new: dict[str, int]) -> None:
    """Y(12) holds 4 of 7 blocks and A(8) 3; two steps of width 3 are asked for before the first has landed."""
    for name in order:
        s.submit(name, {"Y": 12, "A": 8}[name], new[name])
    assert len(s.round().zero["full"]) == 7
    assert set(s.plan().rows.split()) == {
        f"{name}:D[3/{size}]@{order.index(name) + 1}" for name, size in (("Y", 12), ("A", 8))
    }
    assert s.plan().rows == ""
    s.tells(d.Refused, request_id="A", need_pages=(1,), free_blocks=0, reachable_blocks=0)
    s.tells(d.Iteration, blocker_id=order[0], victim_id="Y", outcome=d.NOT_QUIESCENT)
    s.tells(d.Victim, request_id="Y", rank=0, releasable_blocks=4, in_flight=1)
    s.tells(d.Victim, request_id="A", rank=1, releasable_blocks=3)
    s.result("Y", 5, 6, 7)
    s.event("UpdateReserveNumTokens", "Y", 3)


def test_i13_a_second_step_is_blocked_rather_than_run_short(scene: OpenScene) -> None:
    """I13: A's second step needs a fourth block; with none free it is blocked, and gets it when Y can be retracted."""
    s = scene([full(4)], blocks=7, width=3, overlap_schedule_depth=1)
    assert s.scheduler.max_single_request_tokens() == 25
    _second_step(s, "AY", {"Y": 0, "A": 0})
    granted = s.plan()
    assert (granted.rows, len(granted.table("A")), s.waiting) == ("A:D[3/8]@1", 4, 1)
    s.tells(d.Grant, request_id="A", outcome="granted")
    s.waits("Y", d.RETRACTED, "A")
    s.answers("I13", (3, "A", "Y", "victim_not_quiescent"), (4, "A", "Y", "retracted"))


def test_i13_with_a_safe_step_of_4(twin_scene: OpenScene) -> None:
    """I13 as told (12+8, 8+16, S=4, N=7): the same rounds."""
    s = twin_scene([full(4)], blocks=7, width=3, overlap_schedule_depth=1, safe=4)
    _second_step(s, "AY", {"Y": 8, "A": 16})
    assert (s.plan().rows, s.waiting) == ("A:D[3/8]@1", 1)


def test_i13_submitted_the_other_way_round_the_victim_is_its_own_blocker(scene: OpenScene) -> None:
    """I13: if Y comes first it is blocker and victim, the round stays empty, and A steps in the next one."""
    s = scene([full(4)], blocks=7, width=3, overlap_schedule_depth=1)
    _second_step(s, "YA", {"Y": 0, "A": 0})
    assert (s.plan().rows, s.waiting) == ("", 1)
    s.tells(d.Grant, request_id="Y", outcome="nobody_waits")
    assert s.plan().rows == "A:D[3/8]@2"


def test_i16_the_frontier_is_one_token_behind_at_every_width(scene: OpenScene) -> None:
    """I16: at 13 tokens A's next step of width 3 publishes page [8, 12), and B with those 12 tokens hits them."""
    s = scene([full(4)], blocks=40, width=3)
    tokens = list(range(8))
    s.submit("A", tokens, 100)
    s.plan()
    s.result("A", 41)
    for accepted in ((100, 200), (101, 201)):
        s.plan()
        s.result("A", *accepted)
        s.event("UpdateReserveNumTokens", "A", 2)
    assert s.scheduler.request_token_size("A") == 13
    s.plan()
    s.tells(d.Publication, request_id="A", first_page=2, end_page=3, kind="chunk", new_pages=1)
    s.submit("B", [*tokens, 41, 100, 200, 101, 1, 2, 3, 4])
    assert s.plan().rows == "B:P[12+4/16]@2"
    s.tells(d.TierMatch, request_id="B", probed_pages=3, common_tokens=12, hit_slots=3)
    s.answers("I16", (2, 2, 0), (4, 3, 0), (5, 3, 12))
