"""Roles P and D: what a state pins, who may free it, and that waiting for a peer is no deadlock."""

from __future__ import annotations

import pytest

from tests.conformance.notation import full
from tests.incidents.conftest import OpenScene
from tests.incidents.scene import Scene
from tsviz.scheduler import decisions as d


def test_i08_finished_prompts_go_out_before_new_ones_come_in(scene: OpenScene) -> None:
    """I08: each of A, B, C is handed off in the round after its prefill, and A's acknowledgement admits D."""
    s = scene([full(4)], blocks=15, budget=16, role="P")
    for name in "ABCD":
        s.arrive(name, 16)
    assert s.plan().rows == "A:P[0+16/16]@1"
    for before, after, slot in (("A", "B", 2), ("B", "C", 3)):
        s.result(before, 7)
        plan = s.plan()
        assert (plan.rows, plan.remote_decode) == (f"{after}:P[0+16/16]@{slot}", f"{before}:D[1/16]@{slot - 1}")
    s.result("C", 7)
    full_pool = s.plan()
    assert (full_pool.rows, full_pool.remote_decode, s.counts) == ("", "C:D[1/16]@3", (0, 0, 15))
    s.tells(d.Refused, request_id="D", need_pages=(5,), reachable_blocks=0)
    s.waits("A", d.REMOTE_TRANSFER)
    s.waits("D", d.CAPACITY)
    s.silent(d.Iteration, d.Victim)
    s.event("SucceededEvent", "A")
    assert s.counts[2] == 10
    assert s.plan().rows == "D:P[0+16/16]@4"
    s.answers("I08", ("A", 1), ("B", 1), ("C", 1))


def test_i22_only_an_event_ends_a_landing(scene: OpenScene) -> None:
    """I22: a landing pins its 4 blocks until Done, Failed or Abort, each of which frees or hands them on at once."""
    s = scene([full(4)], blocks=10, role="D")
    for name in "ABCD":
        s.arrive(name, 12, 4)
    assert s.plan().remote_prefill == "A:P[0+12/12]@1"
    s.waits("B", d.ONE_REMOTE, "A")
    assert s.plan().remote_prefill == "B:P[0+12/12]@2"
    assert s.plan().remote_prefill == ""
    s.tells(d.Refused, request_id="C", need_pages=(4,), free_blocks=2)
    s.waits("B", d.REMOTE_TRANSFER)
    s.waits("C", d.NOTHING_RETRACTABLE)
    s.event("RemotePrefillDoneEvent", "A", 5)
    s.event("RemotePrefillDoneEvent", "B", 5)
    s.round()
    s.finish("A")
    assert s.round().remote_prefill == "C:P[0+12/12]@3"
    s.event("FailedEvent", "C")
    assert s.counts[2] == 4  # B alone
    assert s.round().remote_prefill == "D:P[0+12/12]@4"
    s.rounds(5)
    assert s.scheduler.pd_transfer_pinned("D")
    s.waits("D", d.REMOTE_TRANSFER)
    s.answers("I22", ("D", 6, 5))


def _two_handed_off(s: Scene) -> None:
    """A and B (16+1) are with the peer, 5 blocks each; C waits."""
    for name in "ABC":
        s.arrive(name, 16, 1)
    s.plan()
    s.result("A", 7)
    assert s.plan().remote_decode == "A:D[1/16]@1"
    s.result("B", 8)
    assert s.plan().remote_decode == "B:D[1/16]@2"
    assert (s.counts, s.scheduler.pd_transfer_size()) == ((0, 0, 10), 2)


def test_i29_an_abort_frees_a_handoff_at_once(scene: OpenScene) -> None:
    """I29: no round frees what the peer never pulls; an Abort does, all 5 blocks, and C is admitted."""
    s = scene([full(4)], blocks=10, budget=16, role="P")
    _two_handed_off(s)
    assert s.rounds(5) == [""] * 5
    s.waits("C", d.CAPACITY)
    assert s.counts == (0, 0, 10)
    s.abort("A")
    assert (s.counts[0], s.counts[2]) == (5, 5)
    assert s.plan().rows == "C:P[0+16/16]@3"
    s.answers("I29", ("B", 3, 7))


def test_i43_waiting_for_peers_is_told_from_a_deadlock(scene: OpenScene) -> None:
    """I43: in 50 empty rounds A and B wait for their transfer, C for capacity; one acknowledgement changes the plan."""
    s = scene([full(4)], blocks=10, budget=16, role="P")
    _two_handed_off(s)
    assert s.rounds(50) == [""] * 50
    for name, cause in (("A", d.REMOTE_TRANSFER), ("B", d.REMOTE_TRANSFER), ("C", d.CAPACITY)):
        s.waits(name, cause)
    s.event("SucceededEvent", "B")
    assert s.plan().rows == "C:P[0+16/16]@3"
    s.answers("I43", ("A", "remote_transfer"), ("B", "remote_transfer"), ("C", "scheduled"))


def test_i35_an_aborted_landing_frees_its_blocks_together(scene: OpenScene) -> None:
    """I35: A's 5 blocks are pinned while the peer writes; B gets none of them before the abort, which frees all."""
    s = scene([full(4)], blocks=6, role="D")
    s.arrive("A", 16, 4)
    s.arrive("B", 12, 4)
    landed = s.plan()
    assert landed.table("A") == [1, 2, 3, 4, 5]
    for _ in range(3):
        assert s.plan().remote_prefill == ""
        assert s.scheduler.pd_transfer_pinned("A")
    s.tells(d.Iteration, blocker_id="B", outcome=d.NOTHING_RETRACTABLE)
    s.silent(d.Victim)
    s.waits("A", d.REMOTE_TRANSFER)
    s.abort("A")
    s.tells(d.StateChange, request_id="A", before="RemotePrefilling", after="Finished")
    assert s.counts == (6, 6, 0)
    assert s.plan().remote_prefill == "B:P[0+12/12]@2"
    s.answers("I35", ("A", 1, 4))


def test_i40_a_completed_prompt_is_pinned_until_the_ack(scene: OpenScene) -> None:
    """I40: C needs 6 blocks, 3 are free and none of A's 5 is evictable before the peer has acknowledged."""
    s = scene([full(4)], blocks=8, budget=32, role="P")
    s.arrive("A", 16, 1)
    s.plan()
    s.result("A", 7)
    s.arrive("C", 20, 1)
    assert s.plan().remote_decode == "A:D[1/16]@1"
    s.tells(d.Refused, request_id="C", need_pages=(6,), free_blocks=3, reachable_blocks=3)
    assert s.rounds(3) == [""] * 3
    s.silent(d.Eviction)
    s.event("SucceededEvent", "A")
    assert s.plan().rows == "C:P[0+20/20]@2"
    s.answers("I40", (6, 2))


@pytest.mark.parametrize("handed_off", [False, True])
def test_i49_the_abort_of_a_vanished_client_frees_a_prompt(scene: OpenScene, handed_off: bool) -> None:
    """I49: A's 5 blocks stay, handed off or not, until somebody sends its Abort, and then go in one transition."""
    s = scene([full(4)], blocks=8, budget=16, role="P")
    s.arrive("A", 16, 1)
    s.plan()
    s.result("A", 7)
    s.arrive("C", 16, 1)
    if handed_off:
        assert [s.plan().rows for _ in range(3)] == [""] * 3
        s.waits("A", d.REMOTE_TRANSFER)
        s.tells(d.Blocker, request_id="C")
    before = "Decoding" if handed_off else "PrefillDone"
    assert (s.scheduler.pd_transfer_pinned("A"), s.counts[2]) == (True, 5)
    s.abort("A")
    s.tells(d.StateChange, request_id="A", before=before, after="Finished")
    assert s.counts[::2] == (8, 0)
    plan = s.plan()
    assert (plan.rows, plan.remote_decode) == ("C:P[0+16/16]@2", "")
    s.answers("I49", ("A", before))
