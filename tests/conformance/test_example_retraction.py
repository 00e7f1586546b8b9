"""Worked examples of scheduler-rules 12 about retraction: numbers 5 to 11 and 26 (P = 2, no prefix cache)."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.conformance.notation import Drive, full, state


def _drive(module: ModuleType, pages: int, **options: Any) -> Drive:
    more = {"disable_prefix_cache": True, "disable_l2_cache": True, **options}
    return Drive(module, [full(2)], page=2, pages=pages, **more)


def test_5_the_victim_is_the_blocker_and_nobody_waits(module: ModuleType) -> None:
    """The blocked decode with most releasable pages is retracted, though it was itself the blocker."""
    drive = _drive(module, 8)
    drive.submit("a", 6)
    drive.submit("b", 4)
    first = drive.round()
    assert (first.table("a"), first.table("b")) == ([1, 2, 3, 4], [5, 6, 7])
    assert drive.rounds(2) == ["a:D[1/6]@1 b:D[1/4]@2"] * 2
    assert [drive.scheduler.request_token_size(name) for name in "ab"] == [9, 7]
    assert drive.round().rows == ""
    assert (drive.waiting, *drive.counts) == (1, 4, 1, 3)
    fifth = drive.round()
    assert (fifth.rows, fifth.zero) == ("b:D[1/4]@2", {"full": [4]})


def test_6_grant_to_a_decode_in_the_same_round(module: ModuleType) -> None:
    """The blocker decodes in the round in which another request was retracted for it."""
    drive = _drive(module, 8)
    drive.submit("b", 4)
    drive.submit("a", 6)
    drive.rounds(3)
    fourth = drive.round()
    assert (fourth.rows, fourth.zero, drive.waiting) == ("b:D[1/4]@1", {"full": [7]}, 1)


def test_7_redirected_grant(module: ModuleType) -> None:
    """When the victim is the blocker, what it freed goes to the first request that admits like new."""
    drive = _drive(module, 8)
    drive.submit("a", 6)
    drive.submit("b", 4)
    drive.rounds(3)
    drive.submit("w", 2)
    assert drive.rounds(2) == ["w:P[0+2/2]@3", "b:D[1/4]@2 w:D[1/2]@3"]


def test_7_redirected_grant_in_mixed_mode(module: ModuleType) -> None:
    """In mixed mode the decode is the first to fail, and the grant still goes to the newcomer."""
    drive = _drive(module, 8, enable_mixed_prefill_decode=True)
    drive.submit("a", 6)
    drive.submit("b", 4)
    drive.rounds(3)
    drive.submit("w", 2)
    assert drive.rounds(2) == ["w:P[0+2/2]@3", "b:D[1/4]@2 w:D[1/2]@3"]


@pytest.mark.parametrize("mixed", [False, True])
def test_8_joinability(module: ModuleType, mixed: bool) -> None:
    """A prefill grant joins decode rows in mixed mode only; an exempt request is never the victim."""
    drive = _drive(module, 10, enable_mixed_prefill_decode=mixed)
    drive.submit("a", 8, new=4)
    drive.submit("b", 4)
    drive.rounds(3)
    drive.submit("w", 2)
    fourth = drive.round()
    if mixed:
        assert (fourth.rows, drive.waiting) == ("w:P[0+2/2]@3 a:D[1/8]@1", 1)
    else:
        assert (fourth.rows, drive.waiting) == ("a:D[1/8]@1", 2)
        assert drive.round().rows == "w:P[0+2/2]@3"


def test_8_the_exemption_decides(module: ModuleType) -> None:
    """Without a newcomer b is retracted although a, whose budget its reserve covers, holds more pages."""
    drive = _drive(module, 10)
    drive.submit("a", 8, new=4)
    drive.submit("b", 4)
    drive.rounds(3)
    assert (drive.round().rows, drive.waiting) == ("a:D[1/8]@1", 1)


def test_9_ties_break_by_id_bytes(module: ModuleType) -> None:
    """Equal pages and tokens: the smaller id compared bytewise is the victim, so r10 precedes r3."""
    drive = _drive(module, 10)
    for name in ("r2", "r10", "r3"):
        drive.submit(name, 4)
    drive.rounds(3)
    fourth = drive.round()
    assert (fourth.rows, fourth.zero, drive.waiting) == ("r2:D[1/4]@1", {"full": [6]}, 1)


def test_9_several_victims_for_one_blocker(module: ModuleType) -> None:
    """A reserve of eight tokens takes two victims; only the blocker is granted."""
    drive = _drive(module, 10)
    for name in ("z", "a", "b"):
        drive.submit(name, 4)
    drive.rounds(3)
    drive.event("UpdateReserveNumTokens", "z", 8)
    fourth = drive.round()
    assert (fourth.rows, fourth.table("z"), drive.waiting) == ("z:D[1/4]@1", [1, 2, 3, 6, 9, 5, 4], 2)


def test_10_wait_for_the_chosen_victim(module: ModuleType) -> None:
    """When the best victim is in flight nobody is touched, and it is retracted once its result landed."""
    drive = _drive(module, 10, enable_mixed_prefill_decode=True)
    drive.submit("b", 4)
    drive.round()
    drive.submit("a", 10)
    assert drive.rounds(2) == ["a:P[0+10/10]@2 b:D[1/4]@1", "b:D[1/4]@1 a:D[1/10]@2"]
    assert (drive.round().rows, drive.waiting) == ("a:D[1/10]@2", 0)
    fifth = drive.round()
    assert (fifth.rows, fifth.zero, drive.waiting) == ("b:D[1/4]@1", {"full": [9]}, 1)
    assert drive.scheduler.request_token_size("a") == 13


@pytest.mark.parametrize("landed", [True, False])
def test_11_the_incomplete_prefill_goes_first(module: ModuleType, landed: bool) -> None:
    """A blocked chunk is its own victim; its grant cannot join a decode; in flight it is left alone."""
    drive = _drive(module, 10, budget=8)
    drive.submit("done", 4)
    drive.round()
    drive.submit("half", 16)
    second = drive.plan()
    assert second.rows == "half:P[0+8/16]@2"
    assert drive.counts[0] == 2
    if landed:
        drive.land()
        drive.submit("w", 2)
    third = drive.plan()
    assert third.rows == "done:D[1/4]@1"
    assert drive.waiting == (2 if landed else 0)
    if landed:
        drive.land()
        assert drive.plan().rows == "half:P[0+8/16]@3"


def test_11_escalated_headroom(module: ModuleType) -> None:
    """After a capacity retraction the headroom may be 8192 tokens, and 1903 remaining ones are all taken."""
    drive = Drive(
        module,
        [full(4096)],
        page=4096,
        pages=5,
        budget=8192,
        slots=2,
        width=1024,
        disable_prefix_cache=True,
        disable_l2_cache=True,
    )
    assert drive.scheduler.max_single_request_tokens() == 16384
    drive.submit("a", 4096, new=6000)
    drive.submit("b", 4096, new=6000)
    first = drive.round()
    assert first.rows == "a:P[0+4096/4096]@1 b:P[0+4096/4096]@2"
    assert [len(first.table(name)) for name in "ab"] == [2, 2]
    for _ in range(4):
        assert drive.plan().rows == "a:D[1024/4096]@1 b:D[1024/4096]@2"
        for name in "ab":
            drive.result(name, *range(1024))
    assert drive.scheduler.request_token_size("a") == 8193
    assert (drive.round().rows, drive.waiting) == ("", 1)
    drive.finish("b")
    seventh = drive.round()
    assert (seventh.rows, seventh.table("a")) == ("a:P[4096+4097/8193]@1", [1, 2, 4])


def test_26_a_skipped_decode_is_retractable(module: ModuleType) -> None:
    """A decode that the budget guard skipped may be retracted for a newcomer."""
    drive = Drive(
        module,
        [full(4), state(4)],
        page=4,
        pages=8,
        budget=4,
        enable_mixed_prefill_decode=True,
        num_host_pages=20,
    )
    drive.submit("a", 8)
    seen = [drive.round() for _ in range(2)]
    assert [one.rows for one in seen] == ["a:P[0+4/8]@1", "a:P[4+4/8]@1"]
    for one in seen:
        for op_id, *_ in one.stored:
            drive.stored(op_id)
    drive.submit("b", 4)
    third = drive.round()
    assert third.rows == "b:P[0+4/4]@2"
    assert [(op, groups, src, pinned) for op, groups, src, _, pinned in third.stored] == [(1, [0, 1], [3, 5], False)]
    assert drive.waiting == 1
