"""Worked examples of cache-rules 11 about the host and storage tiers: E12 to E16 and E20."""

from __future__ import annotations

from types import ModuleType

from tests.conformance.notation import Drive, full, sliding, state


def _span(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


def test_e12_host_round_trip(module: ModuleType) -> None:
    """What was stored survives a clear of the device, and comes back with the pages that it needs."""
    drive = Drive(module, [full(2), sliding(4, 2)], page=2, pages=13, num_host_pages=13)
    own = drive.scheduler
    drive.submit("a", _span(1, 8))
    first = drive.plan()
    assert (first.table("a"), first.table("a", "swa"), drive.counts) == (
        _span(1, 5),
        _span(6, 10),
        (2, 2, 10),
    )
    drive.result("a", 50)
    second = drive.plan()
    assert second.table("a", "swa") == [0, 0, 8, 9, 10]
    assert second.stored == [(0, [0, 0, 0, 0, 1, 1], [1, 2, 3, 4, 8, 9], _span(1, 6), True)]
    assert drive.counts == (4, 4, 8)
    drive.result("a", 51)
    drive.finish("a")
    assert drive.counts == (6, 6, 0)
    assert drive.plan().plan["cache"] == []
    drive.stored(0)
    assert drive.counts == (12, 6, 0)
    assert own.clear_l1_cache() is True
    assert drive.counts == (12, 12, 0)
    drive.submit("b", [*_span(1, 8), 60])
    third = drive.plan()
    assert third.rows.startswith("b:P[8+1/9]")
    assert (third.table("b"), third.table("b", "swa")) == ([11, 12, 6, 7, 5], [0, 0, 10, 1, 2])
    assert third.zero == {"full": [5], "swa": [2]}
    assert [one[:4] for one in third.loaded] == [(1, [0, 0, 0, 0, 1, 1], _span(1, 6), [11, 12, 6, 7, 10, 1])]
    assert third.load is not None
    assert third.load["content_hashes"] == [[""] * 6]
    assert drive.counts == (4, 4, 8)
    assert (own.can_clear_cache(), own.clear_l1_cache()) == (False, False)
    drive.loaded(1)
    assert (own.can_clear_cache(), own.clear_l1_cache()) == (False, False)
    drive.result("b", 61)
    drive.plan()
    drive.finish("b")
    assert drive.plan().store is None
    assert drive.counts == (12, 6, 0)
    assert own.clear_cache() is True


def test_e13_host_replacement(module: ModuleType) -> None:
    """A full host evicts within the group first, then rebinds a parent of another group."""
    drive = Drive(module, [full(2), sliding(3, 2)], page=2, pages=33, num_host_pages=3)
    drive.submit("a", _span(1, 5))
    drive.plan()
    drive.result("a", 50)
    assert drive.plan().stored == [(0, [0, 0], [1, 2], [1, 2], True)]
    drive.stored(0)
    drive.result("a", 51)
    drive.abort("a")
    drive.submit("b", [11, 12, 13])
    drive.plan()
    drive.result("b", 50)
    assert drive.plan().stored == [(1, [0, 1], [7, 9], [1, 2], True)]
    drive.stored(1)
    drive.abort("b")
    assert drive.scheduler.clear_l1_cache() is True
    drive.submit("c", _span(1, 5))
    assert drive.plan().rows.startswith("c:P[0+5/5]")
    drive.abort("c")
    drive.submit("d", [11, 12, 13])
    last = drive.plan()
    assert last.rows.startswith("d:P[2+1/3]")
    assert [one[:4] for one in last.loaded] == [(2, [0, 1], [1, 2], [17, 19])]


def test_e14_retraction_snapshot(module: ModuleType) -> None:
    """A snapshot stores full pages without new state, and the readmission reloads behind device copies."""
    drive = Drive(module, [full(4), state(4)], page=4, pages=11, slots=2, num_host_pages=30)
    drive.submit("a", _span(1, 8))
    drive.submit("b", _span(101, 108))
    shown = {}
    for number in range(1, 11):
        shown[number] = drive.round()
        drive.stored(*(op for op, *_ in shown[number].stored))
        if number == 1:
            assert (shown[1].table("a"), shown[1].table("b")) == ([1, 2, 3], [6, 7, 8])
            assert (shown[1].table("a", "st"), shown[1].table("b", "st")) == ([0, 4, 5], [0, 9, 10])
            assert drive.counts == (0, 0, 10)
        if number in (3, 4, 5):
            assert (shown[number].table("a", "st"), shown[number].table("b", "st")) == ([0, 0, 5], [0, 0, 10])
            assert drive.counts == (2, 0, 8)
        if number == 7:
            assert drive.counts == (1, 1, 9)
    assert [one[:4] for one in shown[2].stored] == [(0, [0, 0, 1, 0, 0, 1], [1, 2, 4, 6, 7, 9], _span(1, 6))]
    assert (shown[6].table("a"), shown[6].table("a", "st")) == ([1, 2, 3, 4], [0, 0, 5, 9])
    assert shown[6].rows == "a:D[1/8]@1"
    assert shown[7].table("a", "st") == [0, 0, 0, 9]
    assert shown[10].rows == ""
    assert shown[10].stored == [(1, [0, 0], [3, 4], [7, 8], False)]
    assert drive.counts == (6, 2, 4)
    drive.abort("b")
    assert drive.counts == (10, 4, 0)
    last = drive.plan()
    assert last.rows.startswith("a:P[8+8/")
    assert [one[:4] for one in last.loaded] == [(2, [0, 0, 1], [1, 2, 3], [5, 9, 4])]
    assert (last.table("a"), last.table("a", "st")) == ([1, 2, 8, 10], [0, 4, 0, 3])
    assert last.zero == {"full": [8, 10], "st": [3]}


def test_e15_storage_shortage(module: ModuleType) -> None:
    """A storage hit that the host cannot hold is shortened, and the chunk ends at the closed boundary."""
    groups = [sliding(5, 2), full(2)]
    drive = Drive(module, groups, page=2, pages=33, num_host_pages=4, enable_l3_storage=True)
    own = drive.scheduler
    own.register_storage_keys(*own.expand_prefix_keys(own.prefix_hashes_for_tokens(_span(1, 9))))
    drive.submit("a", _span(1, 9))
    shown = drive.plan()
    assert shown.rows == "a:P[2+4/9]@1"
    assert (shown.table("a", "swa"), shown.table("a")) == ([7, 8, 9], [10, 11, 12])
    assert shown.zero == {"full": [11, 12], "swa": [8, 9]}
    assert shown.loaded == [(0, [0, 1], [3, 1], [7, 10], [1, 1])]
    assert drive.counts == (26, 26, 6)


def _e16(module: ModuleType) -> Drive:
    drive = Drive(module, [full(2)], page=2, pages=33, num_host_pages=20, enable_l3_storage=True)
    own = drive.scheduler
    own.register_storage_keys(*own.expand_prefix_keys(own.prefix_hashes_for_tokens(_span(1, 8))))
    drive.submit("a", _span(1, 8))
    shown = drive.plan()
    assert (shown.rows, shown.table("a"), shown.zero) == ("a:P[6+2/8]@1", _span(1, 5), {"full": [4, 5]})
    assert shown.loaded == [(0, [0, 0, 0], [1, 2, 3], [1, 2, 3], [1, 1, 1])]
    assert shown.load is not None
    assert shown.load["content_hashes"] == [own.prefix_hashes_for_tokens(_span(1, 8))]
    return drive


def test_e16_failed_prefetch(module: ModuleType) -> None:
    """Nothing of a failed prefetch stays, and the request starts from its first token."""
    drive = _e16(module)
    own = drive.scheduler
    drive.event("Retract", "a")
    own.unregister_storage_keys(*own.expand_prefix_keys(own.prefix_hashes_for_tokens(_span(1, 8))))
    drive.loaded(0, success=False)
    assert drive.counts == (32, 32, 0)
    shown = drive.plan()
    assert shown.rows.startswith("a:P[0+8/8]")
    assert shown.table("a") == _span(6, 10)


def test_e16_successful_prefetch(module: ModuleType) -> None:
    """A prefetched page is not stored again, and later loads come from the host."""
    drive = _e16(module)
    drive.loaded(0)
    drive.result("a", 50)
    assert drive.plan().stored == [(1, [0], [4], [4], True)]
    drive.result("a", 51)
    drive.finish("a")
    drive.plan()
    assert drive.counts == (31, 28, 0)
    drive.stored(1)
    assert drive.counts == (32, 28, 0)
    assert drive.scheduler.clear_l1_cache() is True
    drive.submit("b", [*_span(1, 8), 77])
    shown = drive.plan()
    assert shown.rows.startswith("b:P[8+1/9]")
    assert shown.loaded == [(2, [0] * 4, [1, 2, 3, 4], [6, 7, 8, 9], [0, 0, 0, 0])]


def test_e20_what_streams_when(module: ModuleType) -> None:
    """Sliding pages stream while decoding, full pages of decode at Finish, generated state never."""
    groups = [full(2), sliding(3, 2), state(2)]
    drive = Drive(module, groups, page=2, pages=33, num_host_pages=33)
    drive.submit("a", _span(1, 4))
    stores = {}
    for number, token in enumerate((50, 51, 52, 53, 54, None), start=1):
        stores[number] = [one[:4] for one in drive.plan().stored]
        if token is not None:
            drive.result("a", token)
    drive.finish("a")
    after = [one[:4] for one in drive.plan().stored]
    assert stores == {
        1: [],
        2: [(0, [0, 0, 1, 2], [1, 2, 5, 7], [1, 2, 3, 4])],
        3: [],
        4: [(1, [1], [6], [5])],
        5: [],
        6: [(2, [1], [10], [6])],
    }
    assert after == [(3, [0, 0], [3, 9], [7, 8])]


def test_e20_chunks_withhold_state(module: ModuleType) -> None:
    """A chunk's state is withheld; the first decode stores the aligned checkpoint as an endpoint."""
    groups = [full(2), sliding(3, 2), state(2)]
    drive = Drive(module, groups, page=2, pages=33, budget=4, num_host_pages=33)
    drive.submit("a", _span(1, 7))
    seen = [drive.round() for _ in range(3)]
    assert [[one[1] for one in shown.stored] for shown in seen] == [[], [[0, 0, 1]], [[0, 1, 2]]]
