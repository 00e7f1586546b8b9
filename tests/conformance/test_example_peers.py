"""Worked examples of scheduler-rules 12 about disaggregation: numbers 19 to 21."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.conformance.notation import Drive, Shown, full, sliding, state


def test_19_the_prefill_side(module: ModuleType) -> None:
    """P decodes nothing itself: the first token leaves on remote_decode, and the pages stay pinned."""
    drive = Drive(module, [full(2)], page=2, pages=33, budget=4, width=3, role="P")
    drive.submit("a", 8)
    drive.submit("b", 3)
    assert (drive.plan().rows, drive.scheduler.bootstrapping_size()) == ("", 2)
    drive.event("BootstrappedEvent", "a")
    second = drive.plan()
    assert (second.rows, second.table("a")) == ("a:P[0+4/8]@1", [1, 2])
    drive.event("BootstrappedEvent", "b")
    third = drive.plan()
    assert (third.rows, third.table("a")) == ("a:P[4+4/8]@1", [1, 2, 3, 4, 5, 6])
    assert drive.plan().rows == "b:P[0+3/3]@2"
    assert drive.plan().rows == ""
    drive.result("a")
    assert drive.plan().rows == ""
    drive.result("a", 77, candidates=(77, 78, 79))
    handed = drive.plan()
    assert (handed.rows, handed.remote_decode) == ("", "a:D[3/8]@1")
    assert handed.plan["remote_decode"]["decode_input_ids"] == [77]
    assert handed.plan["remote_decode"]["spec_candidate_ids"] == [[77, 78, 79]]
    assert (drive.scheduler.decoding_size(), drive.scheduler.pd_transfer_size()) == (1, 2)
    with pytest.raises(RuntimeError, match="PD Finish received while transfer pages are pinned"):
        drive.finish("a")
    drive.event("SucceededEvent", "a")
    drive.event("FailedEvent", "b")
    assert (drive.scheduler.pd_transfer_size(), drive.counts[2]) == (0, 0)


def test_20_the_decode_side(module: ModuleType) -> None:
    """D lands one prompt a round; a completed landing decodes beside the next one, its token given once."""
    groups = [full(2), state(2), sliding(4, 2)]
    drive = Drive(module, groups, page=2, pages=33, budget=4, role="D")
    drive.submit("a", 8, new=4)
    drive.submit("b", 3)
    drive.submit("c", 3)
    drive.plan()
    for name in "abc":
        drive.event("BootstrappedEvent", name)
    second = drive.plan()
    assert (second.rows, second.remote_prefill) == ("", "a:P[0+8/8]@1")
    assert second.table("a") == [1, 2, 3, 4, 5, 6]
    assert second.table("a", "st") == [0, 0, 0, 7, 8]
    assert second.table("a", "swa") == [0, 0, 9, 10, 11]
    assert drive.plan().remote_prefill == "b:P[0+3/3]@2"
    drive.event("RemotePrefillDoneEvent", "a", 500)
    fourth = drive.plan()
    assert (fourth.rows, fourth.remote_prefill) == ("a:D[1/8]@1", "c:P[0+3/3]@3")
    assert fourth.plan["forward"][0]["decode_input_ids"] == [500]
    drive.land()
    assert drive.plan().plan["forward"][0]["decode_input_ids"] == [-1]


def _destination(module: ModuleType) -> tuple[Drive, Shown]:
    """Two requests landed and decoded twice each, up to the plan that retracts r1."""
    drive = Drive(module, [full(2)], page=2, pages=7, budget=2, slots=3, role="D", num_host_pages=8)
    for name in ("r2", "r1"):
        drive.submit(name, 4)
        drive.event("BootstrappedEvent", name)
    assert drive.plan().remote_prefill == "r2:P[0+4/4]@1"
    assert drive.plan().remote_prefill == "r1:P[0+4/4]@2"
    for name in ("r2", "r1"):
        drive.event("RemotePrefillDoneEvent", name, 41)
    for token in (42, 43):
        assert drive.plan().rows == "r2:D[1/4]@1 r1:D[1/4]@2"
        for name in ("r2", "r1"):
            drive.result(name, token)
    return drive, drive.round()


@pytest.mark.parametrize("acknowledged", [True, False])
def test_21_retraction_and_recovery(module: ModuleType, acknowledged: bool) -> None:
    """A victim's pages go to the host, and its recovery is a round of its own."""
    drive, fifth = _destination(module)
    assert fifth.stored == [(0, [0, 0, 0], [4, 5, 6], [1, 2, 3], False)]
    assert (fifth.rows, fifth.zero) == ("r2:D[1/4]@1", {"full": [6]})
    if acknowledged:
        drive.stored(0)
    assert drive.rounds(2) == ["r2:D[1/4]@1"] * 2
    assert drive.waiting == 1
    drive.finish("r2")
    eighth = drive.round()
    if not acknowledged:
        assert (eighth.rows, eighth.load) == ("r1:P[2+2/7]@3", None)
        return
    assert (eighth.rows, eighth.remote_prefill) == ("r1:P[6+1/7]@3", "")
    assert [one[:4] for one in eighth.loaded] == [(1, [0, 0], [2, 3], [5, 6])]
    # Its token is one that a test landed, so what is asked is that the last one is handed over.
    ninth = drive.plan()
    assert ninth.rows == "r1:D[1/7]@3"


def test_21_the_first_decode_after_recovery_carries_the_last_token(module: ModuleType) -> None:
    """r1's last token, 43, is the input of its first decode after the recovery."""
    drive, _ = _destination(module)
    drive.stored(0)
    drive.rounds(2)
    drive.finish("r2")
    assert drive.plan().rows == "r1:P[6+1/7]@3"
    drive.in_flight.clear()
    assert drive.plan().plan["forward"][0]["decode_input_ids"] == [43]


def test_21_a_waiting_readmission_does_not_seal_landings(module: ModuleType) -> None:
    """A two-token prompt lands beside r2's decode while r1 still waits."""
    drive, _ = _destination(module)
    drive.stored(0)
    drive.submit("new", 2)
    drive.event("BootstrappedEvent", "new")
    sixth = drive.plan()
    assert (sixth.rows, sixth.remote_prefill) == ("r2:D[1/4]@1", "new:P[0+2/2]@3")
    assert drive.waiting == 1
