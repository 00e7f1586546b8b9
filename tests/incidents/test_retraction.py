"""Retraction: who is chosen, when nobody is, and what one victim gives.

The entries say S=4 or 8. On both implementations they run with undeclared budgets (no headroom, never exempt), where
the block counts are those of S=4; with the entry's own window they run on the twin, which lets it be set.
"""

from __future__ import annotations

from tests.conformance.notation import full, sliding
from tests.incidents.conftest import OpenScene
from tests.incidents.scene import Scene
from tsviz.scheduler import decisions as d


def _one_victim_gives_all_its_groups(s: Scene, new: int, blocked_rounds: int, need: tuple[int, int]) -> None:
    """Four residents fill the pool; when all are blocked the first is retracted and E lands on what it gave."""
    for name in "ABCD":
        s.arrive(name, 8, new)
        s.plan()
        s.event("RemotePrefillDoneEvent", name, 5)
        s.land()
    assert s.counts[1] == 0
    s.arrive("E", 8, new)
    for _ in range(blocked_rounds):
        s.round()
        assert s.waiting == 1
    last = s.round()
    assert (last.rows, last.remote_prefill, s.waiting) == ("", "E:P[0+8/8]@5", 1)
    s.tells(d.Iteration, blocker_id="A", victim_id="A", outcome=d.RETRACTED)
    s.tells(d.Attempt, request_id="E", kind="remote_landing", need_pages=need)
    s.tells(d.Grant, request_id="E", outcome="granted")
    s.waits("A", d.RETRACTED, "A")
    s.answers("I20", (s.rounds_planned, 1, "E"))


def test_i20_one_victim_gives_all_its_groups(scene: OpenScene) -> None:
    """I20: with 3 history and 3 packed window blocks each, one victim is enough for E, though both groups are full."""
    s = scene([full(4), sliding(8, 4, packing=3)], blocks=16, role="D")  # 4 x 3 + 4 x 3 / 3
    _one_victim_gives_all_its_groups(s, 0, 4, (3, 3))


def test_i20_with_a_safe_step_of_8(twin_scene: OpenScene) -> None:
    """I20 as told (8+24, S=8, N=20): 4 history and 3 packed window blocks each, exactly one victim."""
    s = twin_scene([full(4), sliding(8, 4, packing=3)], blocks=20, role="D", safe=8)  # 4 x 4 + 4 x 3 / 3
    _one_victim_gives_all_its_groups(s, 24, 8, (4, 3))


def _nobody_is_retracted_while_results_are_out(s: Scene, new: int) -> None:
    for name in "ABCD":
        s.submit(name, 8, new)
    s.plan()
    s.land()
    s.plan()
    for step in range(7):  # overlap: each plan is asked for before the results of the one before have landed
        behind = list(s.in_flight)
        assert s.plan().rows == "A:D[1/8]@1 B:D[1/8]@2 C:D[1/8]@3 D:D[1/8]@4"
        for name, _ in behind:
            s.result(name, step)
    assert s.counts == (0, 0, 16)
    s.submit("E", 12, 4 if new else 0)
    assert (s.plan().rows, s.waiting) == ("", 1)
    s.tells(d.Iteration, blocker_id="E", victim_id="A", outcome=d.NOT_QUIESCENT)
    s.tells(d.Victim, request_id="A", rank=0, releasable_blocks=4, in_flight=1)
    s.waits("E", d.NOT_QUIESCENT, "A")
    s.land()
    granted = s.plan()
    assert (granted.rows, len(granted.zero["full"]), s.waiting) == ("E:P[0+12/12]@5", 4, 1)
    s.tells(d.Iteration, blocker_id="E", victim_id="A", outcome=d.RETRACTED)
    s.tells(d.Grant, request_id="E", outcome="granted")
    s.waits("A", d.RETRACTED, "E")
    s.answers("I31", (10, "E", "A", "victim_not_quiescent", 4, 1), (11, "E", "A", "retracted", 4, 0))


def test_i31_a_victim_is_taken_once_its_result_has_landed(scene: OpenScene) -> None:
    """I31: with all four forwards out nobody is touched; after they land one victim's 4 blocks go to E in that plan."""
    _nobody_is_retracted_while_results_are_out(scene([full(4)], blocks=16, overlap_schedule_depth=1), 0)


def test_i31_with_a_safe_step_of_4(twin_scene: OpenScene) -> None:
    """I31 as told (8+40, S=4, N=16): the same rounds, the same victim."""
    _nobody_is_retracted_while_results_are_out(twin_scene([full(4)], blocks=16, overlap_schedule_depth=1, safe=4), 40)
