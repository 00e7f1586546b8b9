"""Worked examples of scheduler-rules 12 about rounds, rows and slots: numbers 1 to 4, 23, 24 and 27."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.conformance.notation import Drive, full


def test_1_plain_chunking(module: ModuleType) -> None:
    """Chunks are cut at the budget, not at pages, and a finished request leaves its full pages cached."""
    drive = Drive(module, [full(4)], page=4, pages=17, budget=6)
    drive.submit("a", 15)
    seen = [drive.round() for _ in range(3)]
    assert [one.rows for one in seen] == ["a:P[0+6/15]@1", "a:P[6+6/15]@1", "a:P[12+3/15]@1"]
    assert [one.table("a") for one in seen] == [[1, 2], [1, 2, 3], [1, 2, 3, 4]]
    assert [one.zero["full"] for one in seen] == [[1, 2], [3], [4]]
    decodes = [drive.round() for _ in range(3)]
    assert [one.rows for one in decodes] == ["a:D[1/15]@1"] * 3
    assert [one.zero for one in decodes] == [{}, {"full": [5]}, {}]
    assert decodes[0].table("a") == [1, 2, 3, 4]
    drive.finish("a")
    assert drive.counts == (16, 12, 0)


def test_2_head_of_line(module: ModuleType) -> None:
    """The last chunk of a round takes what budget is left, and decodes wait while prompts prefill."""
    drive = Drive(module, [full(64)], page=64, pages=600, budget=6144)
    for name, length in (("p2k", 2048), ("p1k", 1024), ("p10k", 10240)):
        drive.submit(name, length)
    first = drive.round()
    assert first.rows == "p2k:P[0+2048/2048]@1 p1k:P[0+1024/1024]@2 p10k:P[0+3072/10240]@3"
    # 2048 and 1024 tokens complete, so each also holds one page for its first decode: 33 + 17 + 48.
    assert len(first.zero["full"]) == 98
    assert drive.rounds(3) == [
        "p10k:P[3072+6144/10240]@3",
        "p10k:P[9216+1024/10240]@3",
        "p2k:D[1/2048]@1 p1k:D[1/1024]@2 p10k:D[1/10240]@3",
    ]


def test_3_a_blocked_newcomer_is_overtaken(module: ModuleType) -> None:
    """A newcomer without room does not hold the line, and nobody in flight is retracted for it."""
    drive = Drive(module, [full(2)], page=2, pages=9)
    drive.submit("hold", 6)
    drive.round()
    drive.submit("big", 10)
    drive.submit("small", 2)
    second = drive.round()
    assert second.rows == "small:P[0+2/2]@2"
    assert second.table("small") == [5, 6]
    assert drive.waiting == 1
    assert drive.plan().rows == "hold:D[1/6]@1 small:D[1/2]@2"
    assert drive.waiting == 1


@pytest.mark.parametrize(
    ("mixed", "rows"),
    [
        (
            False,
            [
                "b:P[0+16/32]@2",
                "b:P[16+16/32]@2",
                "c:P[0+4/4]@3",
                "a:D[1/8]@1 b:D[1/32]@2 c:D[1/4]@3",
            ],
        ),
        (
            True,
            [
                "b:P[0+15/32]@2 a:D[1/8]@1",
                "b:P[15+15/32]@2 a:D[1/8]@1",
                "b:P[30+2/32]@2 c:P[0+4/4]@3 a:D[1/8]@1",
                "a:D[1/8]@1 b:D[1/32]@2 c:D[1/4]@3",
            ],
        ),
    ],
)
def test_4_mixed_and_not(module: ModuleType, mixed: bool, rows: list[str]) -> None:
    """Mixed rounds decode beside the chunks; otherwise decodes wait for the prompts."""
    drive = Drive(module, [full(4)], page=4, pages=65, budget=16, enable_mixed_prefill_decode=mixed)
    drive.submit("a", 8)
    drive.rounds(2)
    drive.submit("b", 32)
    drive.submit("c", 4)
    assert drive.rounds(4) == rows


def test_23_overlap(module: ModuleType) -> None:
    """Depth 1 lowers the bound by one width, and results that trail by a plan change no row."""
    shown = {}
    for depth, bound in ((1, 31), (0, 32)):
        drive = Drive(module, [full(2)], page=2, pages=17, overlap_schedule_depth=depth)
        assert drive.scheduler.max_single_request_tokens() == bound
        drive.submit("a", 4)
        rows = [drive.plan().rows]
        for _ in range(6):
            if depth == 0:
                drive.land()
            rows.append(drive.plan().rows)
            while len(drive.in_flight) > 1:
                drive.result("a", 7)
        shown[depth] = rows
        drive.finish("a")
        drive.event("ExtendResult", "a", [9])
    assert shown[0] == shown[1] == ["a:P[0+4/4]@1"] + ["a:D[1/4]@1"] * 6


def test_24_abort(module: ModuleType) -> None:
    """An abort frees pages at once; the id stays taken until the next plan."""
    drive = Drive(module, [full(2)], page=2, pages=17, budget=4)
    drive.submit("a", 10)
    drive.submit("b", 2)
    assert drive.plan().rows == "a:P[0+4/10]@1"
    drive.abort("a")
    assert drive.counts[2] == 0
    assert drive.scheduler.request_token_size("a") == 10
    drive.event("ExtendResult", "a", [])
    with pytest.raises(ValueError, match="Scheduler: duplicate request id 'a'"):
        drive.submit("a", 3)
    second = drive.plan()
    assert (second.rows, second.table("b")) == ("b:P[0+2/2]@2", [3, 4])
    drive.submit("a", 3)
    with pytest.raises(RuntimeError, match="ExtendResultEvent; state=tokenspeed::fsm::Submitted"):
        drive.event("ExtendResult", "a", [1])


def test_27_slots(module: ModuleType) -> None:
    """Request slots are handed out in the order in which they came back."""
    drive = Drive(module, [full(2)], page=2, pages=33, slots=2)
    for name in ("r0", "r1", "r2", "r3"):
        drive.submit(name, 2)
    assert drive.rounds(2) == ["r0:P[0+2/2]@1 r1:P[0+2/2]@2", "r0:D[1/2]@1 r1:D[1/2]@2"]
    drive.abort("r0")
    assert drive.plan().rows == "r2:P[0+2/2]@1"
    drive.abort("r1")
    assert drive.plan().rows == "r3:P[0+2/2]@2"
