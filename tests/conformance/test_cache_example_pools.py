"""Worked examples of cache-rules 11 about pages, packing, shards and eviction: E2 to E5, E8 to E10, E19."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.conformance.notation import Drive, full, sliding


def _span(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def test_e2_full_history(module: ModuleType) -> None:
    """Pages are shared from the front, a partial page is private, and counts follow each step."""
    drive = Drive(module, [full(4)], page=4, pages=9)
    drive.submit("a", _span(1, 6))
    seen = []
    for token in (50, 51, 52, None):
        shown = drive.plan()
        seen.append((shown.rows, shown.table("a"), shown.zero, drive.counts))
        if token is not None:
            drive.result("a", token)
    assert seen == [
        ("a:P[0+6/6]@1", [1, 2], {"full": [1, 2]}, (6, 6, 2)),
        ("a:D[1/6]@1", [1, 2], {"full": []}, (6, 6, 2)),
        ("a:D[1/6]@1", [1, 2], {}, (6, 6, 2)),
        ("a:D[1/6]@1", [1, 2, 3], {"full": [3]}, (5, 5, 3)),
    ]
    drive.finish("a")
    empty = drive.plan()
    assert (empty.rows, empty.zero, drive.counts) == ("", {}, (8, 6, 0))
    drive.submit("b", [1, 2, 3, 4, 9, 9, 9, 9, 9])
    shown = drive.plan()
    assert (shown.rows, shown.table("b"), shown.zero) == ("b:P[4+5/9]@2", [1, 4, 5], {"full": [4, 5]})
    assert drive.counts == (5, 4, 3)


def test_e3_packing(module: ModuleType) -> None:
    """A group fills the children of its bound parents before it opens the front of the queue."""
    groups = [full(2, "A", packing=3), full(2, "B")]
    drive = Drive(module, groups, page=2, pages=13, disable_prefix_cache=True)

    def admitted(name: str, prompt: list[int]) -> tuple[list[int], list[int], tuple[int, int, int]]:
        drive.submit(name, prompt)
        shown = drive.plan()
        return shown.table(name, "A"), shown.table(name, "B"), drive.counts

    def pages(group: str) -> int:
        return int(drive.scheduler.cache_group_available_pages(group))

    assert admitted("a", _span(1, 3)) == ([1, 2], [2, 3], (9, 9, 3))
    assert admitted("b", _span(11, 13)) == ([3, 10], [5, 6], (6, 6, 6))
    assert admitted("c", _span(21, 23)) == ([11, 12], [7, 8], (4, 4, 8))
    drive.abort("a")
    assert drive.counts == (6, 6, 6)
    drive.abort("b")
    assert (drive.counts, pages("A"), pages("B")) == ((9, 9, 3), 28, 9)
    assert admitted("d", _span(31, 37)) == ([10, 25, 26, 27], [10, 11, 12, 3], (4, 4, 8))
    assert pages("A") == 12


def test_e4_shards(module: ModuleType) -> None:
    """With two shards a table's pages alternate between the buckets."""
    drive = Drive(module, [full(2, "A", packing=4, shards=2)], page=2, pages=9, disable_prefix_cache=True)
    drive.submit("a", _span(1, 3))
    drive.submit("b", _span(11, 15))
    both = drive.plan()
    assert (both.table("a", "A"), both.table("b", "A")) == ([1, 2], [3, 4, 5])
    drive.abort("a")
    drive.submit("c", _span(21, 27))
    assert drive.plan().table("c", "A") == [1, 2, 7, 6]
    assert drive.scheduler.cache_group_available_pages("A") == 25


@pytest.mark.parametrize(
    ("length", "replayed", "prefix", "row"),
    [
        (8, 0, 4, [1, 5, 6]),
        (9, 0, 8, [1, 2, 5]),
        (9, 5, 4, [1, 5, 6]),
        (12, 4, 8, [1, 2, 5, 6]),
        (12, 5, 4, [1, 5, 6, 7]),
    ],
)
def test_e5_hit_bound(module: ModuleType, length: int, replayed: int, prefix: int, row: list[int]) -> None:
    """A hit leaves at least max(prefix_replay_tokens, 1) tokens of the prompt to compute."""
    drive = Drive(module, [full(4)], page=4, pages=33, prefix_replay_tokens=replayed)
    drive.serve("seed", _span(1, 13))
    drive.submit("b", _span(1, length))
    shown = drive.plan()
    assert (shown.rows, shown.table("b")) == (f"b:P[{prefix}+{length - prefix}/{length}]@2", row)


def _e8(module: ModuleType) -> Drive:
    drive = Drive(module, [full(2)], page=2, pages=9)
    for name, prompt, counts in (("a", _span(1, 6), (8, 5, 0)), ("b", _span(11, 16), (8, 2, 0))):
        drive.serve(name, prompt)
        assert drive.counts == counts
    return drive


def test_e8_the_oldest_request_loses_its_deepest_pages_first(module: ModuleType) -> None:
    """Free parents go first, then the older request's pages from the deepest up."""
    drive = _e8(module)
    drive.submit("c", _span(21, 28))
    assert drive.plan().table("c") == [4, 8, 3, 2, 1]
    assert drive.counts == (3, 0, 5)


def test_e8_a_hit_makes_pages_young_again(module: ModuleType) -> None:
    """Pages hit by d survive; its unhit sibling, of the oldest epoch, goes first."""
    drive = _e8(module)
    drive.submit("d", [1, 2, 3, 4, 50])
    shown = drive.plan()
    assert (shown.rows, shown.table("d"), drive.counts) == ("d:P[4+1/5]@3", [1, 2, 4], (5, 1, 3))
    drive.result("d", 60)
    drive.plan()
    drive.abort("d")
    assert drive.counts == (8, 2, 0)
    drive.submit("c", _span(21, 28))
    assert drive.plan().table("c") == [8, 4, 3, 7, 6]


def test_e9_eviction_tiers(module: ModuleType) -> None:
    """Unhit chunk pages of the sliding group go before its endpoint, and full pages last."""
    drive = Drive(module, [full(2), sliding(3, 2)], page=2, pages=13, budget=2)
    drive.submit("a", _span(1, 8))
    drive.rounds(5)
    drive.finish("a")
    drive.plan()
    assert drive.counts == (12, 4, 0)
    taken = {}
    for name, prompt in (("x", [21, 22]), ("y", [31, 32]), ("z", [41, 42])):
        drive.submit(name, prompt)
        shown = drive.plan()
        taken[name] = (shown.table(name), shown.table(name, "swa"))
    assert taken == {"x": ([11, 12], [8, 10]), "y": ([2, 4], [6, 9]), "z": ([7, 5], [3, 1])}


def test_e10_a_spared_victim(module: ModuleType) -> None:
    """A victim that turned out not to be needed is put back."""
    drive = Drive(module, [full(2, "A", packing=5), full(2, "B")], page=2, pages=6)
    drive.submit("x", _span(1, 3))
    first = drive.round()
    assert (first.table("x", "A"), first.table("x", "B")) == ([1, 2], [2, 3])
    drive.plan()
    drive.finish("x")
    drive.plan()
    assert drive.counts == (5, 3, 0)
    drive.submit("y", _span(11, 13))
    second = drive.plan()
    assert (second.table("y", "A"), second.table("y", "B"), drive.counts) == ([2, 3], [4, 5], (2, 1, 3))
    drive.submit("z", _span(21, 23))
    third = drive.plan()
    assert (third.table("z", "A"), third.table("z", "B"), drive.counts) == ([4, 5], [3, 2], (0, 0, 5))
    assert drive.scheduler.cache_group_available_pages("A") == 0


def test_e19_duplicate_prompts_in_one_round(module: ModuleType) -> None:
    """Two equal prompts admitted together share pages once both were published, so emitted ids change."""
    drive = Drive(module, [full(2)], page=2, pages=17)
    drive.submit("a", _span(1, 5))
    drive.submit("b", _span(1, 5))
    first = drive.plan()
    assert (first.table("a"), first.table("b"), drive.counts) == ([1, 2, 3], [4, 5, 6], (10, 10, 6))
    for name in "ab":
        drive.result(name, 9)
    second = drive.plan()
    assert (second.table("a"), second.table("b"), drive.counts) == ([1, 2, 3], [1, 2, 6], (12, 12, 4))
    drive.finish("a")
    assert drive.counts == (13, 13, 3)
    assert drive.plan().table("b") == [1, 2, 6, 7]
