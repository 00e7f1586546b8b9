"""Worked examples of scheduler-rules 12 about chunk sizes, demands and reserves: numbers 14 to 18 and 22."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.conformance.notation import Drive, full, replay, sliding, state

_SEED_TOKENS = 50_432


def test_14_state_checkpoint_at_full_scale(module: ModuleType) -> None:
    """A hit of 50,432 tokens and 868 more are one row; four state slots stay live."""
    drive = Drive(module, [full(128), state(128)], page=128, pages=1000, budget=868)
    drive.submit("seed", list(range(_SEED_TOKENS)))
    assert drive.rounds(66)[-1] == "seed:P[49920+512/50432]@1"  # 65 chunks of 768, then 512
    drive.round()
    drive.finish("seed")
    prompt = list(range(_SEED_TOKENS)) + [7] * 868
    drive.submit("a", prompt)
    shown = drive.round()
    assert shown.rows == "a:P[50432+868/51300]@2"
    assert {group: len(pages) for group, pages in shown.zero.items()} == {"full": 7, "st": 3}
    row = shown.table("a", "st")
    assert len(row) == 402
    assert [slot for slot, page in enumerate(row) if page] == [393, 399, 400, 401]
    decode = drive.round().table("a", "st")
    assert [slot for slot, page in enumerate(decode) if page] == [400, 401]
    drive.finish("a")
    drive.submit("b", [*prompt, 1, 2, 3])
    assert drive.round().rows == "b:P[51200+103/51303]@3"


def test_14_two_chunks_under_a_smaller_budget(module: ModuleType) -> None:
    """With a budget of 800 the chunk ends at the last page boundary, and 100 tokens follow."""
    drive = Drive(module, [full(128), state(128)], page=128, pages=1000, budget=800)
    drive.serve("seed", list(range(_SEED_TOKENS)))
    drive.submit("a", list(range(_SEED_TOKENS)) + [7] * 868)
    assert drive.round().rows == "a:P[50432+768/51300]@2"
    second = drive.round()
    assert second.rows == "a:P[51200+100/51300]@2"
    assert [slot for slot, page in enumerate(second.table("a", "st")) if page] == [399, 400, 401]


def test_15_state_small(module: ModuleType) -> None:
    """A prompt of 11 holds its checkpoint, its end and one slot of growth; decode frees the checkpoint."""
    drive = Drive(module, [full(4), state(4)], page=4, pages=33, budget=16)
    drive.submit("a", 11)
    first = drive.round()
    assert (first.rows, first.table("a"), first.table("a", "st")) == (
        "a:P[0+11/11]@1",
        [1, 2, 3],
        [0, 4, 5, 6],
    )
    assert drive.round().table("a", "st") == [0, 0, 5, 6]


def test_15_state_chunks_are_aligned(module: ModuleType) -> None:
    """With a state group every chunk but the last ends at a page boundary."""
    drive = Drive(module, [full(4), state(4)], page=4, pages=33, budget=10)
    drive.submit("a", 23)
    seen = [drive.round() for _ in range(3)]
    assert [one.rows for one in seen] == ["a:P[0+8/23]@1", "a:P[8+8/23]@1", "a:P[16+7/23]@1"]
    assert [one.table("a", "st") for one in seen] == [[0, 3], [0, 3, 0, 6], [0, 0, 0, 6, 9, 10, 11]]


def test_15_the_holdback_leaves_room_for_one_page(module: ModuleType) -> None:
    """Mixed, budget 8, width 3: one decode fits beside the held-back page, a second does not."""
    drive = Drive(
        module,
        [full(4), state(4)],
        page=4,
        pages=65,
        budget=8,
        width=3,
        enable_mixed_prefill_decode=True,
    )
    for name in ("d0", "d1", "d2"):
        drive.submit(name, 2)
    drive.round()
    drive.submit("long", 30)
    assert drive.rounds(2) == ["long:P[0+4/30]@4 d0:D[3/2]@1", "long:P[4+4/30]@4 d0:D[3/2]@1"]


def test_16_promotion_with_a_sliding_group(module: ModuleType) -> None:
    """A chunk ends at the boundary up to which the full group alone matched; one more stays aligned."""
    drive = Drive(module, [full(4), sliding(4, 4)], page=4, pages=65, budget=6)
    drive.submit("seed", [*range(1, 17), 100])
    assert drive.rounds(3) == ["seed:P[0+6/17]@1", "seed:P[6+6/17]@1", "seed:P[12+5/17]@1"]
    drive.round()
    drive.finish("seed")
    drive.submit("promo", [*range(1, 9), *range(200, 225)])
    assert [row.removesuffix("@2") for row in drive.rounds(6)] == [
        "promo:P[4+4/33]",
        "promo:P[8+4/33]",
        "promo:P[12+6/33]",
        "promo:P[18+6/33]",
        "promo:P[24+6/33]",
        "promo:P[30+3/33]",
    ]


def test_16_promotion_with_a_state_group(module: ModuleType) -> None:
    """The boundary reached by the second prompt is a hit for the third."""
    drive = Drive(module, [full(4), state(4)], page=4, pages=65)
    shared = list(range(1, 9))
    drive.serve("seed", [*shared, *range(20, 31)])
    drive.submit("b", [*shared, *range(40, 49)])
    assert drive.rounds(2) == ["b:P[0+8/17]@2", "b:P[8+9/17]@2"]
    drive.submit("c", [*shared, 60, 61, 62])
    assert drive.round().rows == "c:P[8+3/11]@3"


def test_17_bounded_replay(module: ModuleType) -> None:
    """A hit replays the replayable window, whose table starts at the replayed tokens."""
    drive = Drive(module, [full(4), replay(8, 4)], page=4, pages=257, budget=32)
    seed = list(range(1, 41))
    drive.submit("seed", seed)
    assert drive.rounds(2) == ["seed:P[0+32/40]@1", "seed:P[32+8/40]@1"]
    drive.round()
    drive.finish("seed")
    drive.submit("a", seed[:32] + list(range(500, 600)))
    first = drive.round()
    assert first.rows == "a:P[24+32/132]@2rp8"
    assert first.plan["forward"][0]["input_ids"] == seed[24:32] + list(range(500, 524))
    assert first.table("a")[:8] == list(range(1, 9))
    row = first.table("a", "rep")
    assert (row[:6], len(row), 0 in row[6:]) == ([0] * 6, 14, False)
    assert drive.rounds(3) == ["a:P[56+32/132]@2", "a:P[88+32/132]@2", "a:P[120+12/132]@2"]


@pytest.mark.parametrize(("length", "rows"), [(38, ["P[0+30/38]@1", "P[30+8/38]@1"]), (36, ["P[0+28/36]@1"])])
def test_17_the_last_chunk_covers_the_window(module: ModuleType, length: int, rows: list[str]) -> None:
    """The last chunk is never shorter than the replay window of eight tokens."""
    drive = Drive(module, [full(4), replay(8, 4)], page=4, pages=257, budget=32)
    drive.submit("a", length)
    assert [row.removeprefix("a:") for row in drive.rounds(len(rows))] == rows


def test_17_a_short_prompt_follows_the_last_chunk(module: ModuleType) -> None:
    """A prompt of 36 leaves budget beside its last chunk of eight for five tokens of the next."""
    drive = Drive(module, [full(4), replay(8, 4)], page=4, pages=257, budget=32)
    drive.submit("a", 36)
    drive.submit("b", 5)
    assert drive.rounds(2) == ["a:P[0+28/36]@1", "a:P[28+8/36]@1 b:P[0+5/5]@2"]


def test_17_the_holdback_covers_the_window_twice(module: ModuleType) -> None:
    """Mixed, budget 20: four of six decoders run (20 to 16), and the prompt takes sixteen tokens."""
    drive = Drive(module, [full(4), replay(8, 4)], page=4, pages=257, budget=20, enable_mixed_prefill_decode=True)
    for index in range(6):
        drive.submit(f"d{index}", 2)
    drive.round()
    drive.submit("new", 30)
    decodes = " ".join(f"d{index}:D[1/2]@{index + 1}" for index in range(4))
    assert drive.round().rows == f"new:P[0+16/30]@7 {decodes}"


@pytest.mark.parametrize(
    ("new", "role", "full_pages"), [(0, "Fused", [2, 4, 6]), (4, "Fused", [7, 7, 7]), (4, "P", [2, 4, 6])]
)
def test_18_prepay(module: ModuleType, new: int, role: str, full_pages: list[int]) -> None:
    """A declared budget prepays the rest of the prompt and its output in full groups only: (4+6+4)/2 = 7."""
    drive = Drive(module, [full(2), sliding(4, 2)], page=2, pages=65, budget=4, role=role)
    drive.submit("a", 10, new=new)
    if role == "P":
        drive.event("BootstrappedEvent", "a")
    seen = [drive.round() for _ in range(3)]
    assert [len(one.table("a")) for one in seen] == full_pages
    assert [len(one.zero["swa"]) for one in seen] == [2, 2, 2]


def test_22_speculation(module: ModuleType) -> None:
    """A decode is charged what UpdateReserve announced, or the whole width when nothing was announced."""
    drive = Drive(module, [full(4)], page=4, pages=17, width=4)
    drive.submit("u", 6)
    drive.submit("twin", 6, new=20)
    first = drive.plan()
    assert [len(first.table(name)) for name in ("u", "twin")] == [3, 7]
    for name in ("u", "twin"):
        drive.result(name, 1)
    assert drive.plan().rows == "u:D[4/6]@1 twin:D[4/6]@2"
    zeros = []
    for tokens, reserve in (((2, 3), 2), ((4, 5, 6, 7), 4), ((8,), 1), ((9,), None)):
        for name in ("u", "twin"):
            drive.result(name, *tokens)
            if reserve is not None:
                drive.event("UpdateReserveNumTokens", name, reserve)
        shown = drive.plan()
        zeros.append(shown.zero.get("full", []))
        assert len(shown.table("twin")) == 7
    assert zeros == [[], [11], [12], [13]]
