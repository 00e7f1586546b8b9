"""Worked examples of scheduler-rules 12 about readmission and tiers: numbers 12, 13 and 25."""

from __future__ import annotations

from types import ModuleType

from tests.conformance.notation import Drive, full


def _waiting_pair(module: ModuleType) -> Drive:
    drive = Drive(module, [full(2)], page=2, pages=7, slots=4, num_host_pages=16)
    drive.submit("r1", 4)
    drive.submit("r2", 4)
    assert drive.round().rows == "r1:P[0+4/4]@1 r2:P[0+4/4]@2"
    second = drive.round()
    assert second.rows == "r1:D[1/4]@1 r2:D[1/4]@2"
    assert second.stored == [(0, [0, 0, 0, 0], [1, 2, 4, 5], [1, 2, 3, 4], True)]
    return drive


def test_12_a_pinned_store_in_flight_suppresses_retraction(module: ModuleType) -> None:
    """While op 0 is unacknowledged both requests are blocked and neither is retracted."""
    drive = _waiting_pair(module)
    drive.round()
    for _ in range(2):
        blocked = drive.round()
        assert (blocked.rows, blocked.store, drive.waiting) == ("", None, 0)


def test_12_readmission_waits_and_seals(module: ModuleType) -> None:
    """A readmission that finds no room seals newcomers; it comes back with what the host kept."""
    drive = _waiting_pair(module)
    drive.stored(0)
    drive.round()
    fourth = drive.round()
    assert fourth.rows == ""
    assert fourth.stored == [(1, [0], [3], [5], False)]
    drive.stored(1)
    drive.submit("new", 2)
    for _ in range(3):
        assert (drive.round().rows, drive.waiting) == ("r2:D[1/4]@2", 2)
    drive.finish("r2")
    eighth = drive.round()
    assert (eighth.rows, drive.waiting) == ("r1:P[6+1/7]@3", 1)
    assert [(op, pinned) for op, *_, pinned in eighth.stored] == [(2, True)]
    assert [one[:4] for one in eighth.loaded] == [(3, [0, 0], [2, 5], [2, 5])]


def test_13_readmission_order(module: ModuleType) -> None:
    """A request that resumes generation is readmitted before an earlier retracted prompt."""
    drive = Drive(module, [full(2)], page=2, pages=13, budget=8, num_host_pages=32)
    drive.submit("d1", 4)
    drive.submit("d2", 4)
    drive.round()
    drive.submit("half", 12)
    second = drive.round()
    assert (second.rows, second.table("half")) == ("half:P[0+8/12]@3", [7, 8, 9, 10])
    third = drive.round()
    assert third.stored == [
        (0, [0] * 8, [1, 2, 4, 5, 7, 8, 9, 10], third.stored[0][3], False),
    ]
    assert third.rows == "d1:D[1/4]@1 d2:D[1/4]@2"
    drive.stored(0)
    shown = {}
    for number in range(4, 12):
        shown[number] = drive.round()
        drive.stored(*(op for op, *_ in shown[number].stored))
    assert [one[:3] for one in shown[11].stored] == [(1, [0] * 4, [3, 11, 10, 8])]
    assert drive.scheduler.request_token_size("d1") == 13
    for _ in range(7):
        shown[12] = drive.round()
        drive.stored(*(op for op, *_ in shown[12].stored))
    drive.finish("d2")
    after = drive.round()
    drive.stored(*(op for op, *_ in after.stored))
    returned = after if after.rows else drive.round()
    assert returned.rows == "d1:P[12+1/13]@4"
    assert [len(sources) for _, _, sources, _, _ in returned.loaded] == [4]
    assert drive.waiting == 1


def test_25_a_host_shortage_shortens_the_hit(module: ModuleType) -> None:
    """With two usable host pages a hit of six tokens is retried at four."""
    drive = Drive(module, [full(2)], page=2, pages=32, num_host_pages=3, enable_l3_storage=True)
    prompt = list(range(8))
    drive.scheduler.register_storage_keys(
        *drive.scheduler.expand_prefix_keys(drive.scheduler.prefix_hashes_for_tokens(prompt))
    )
    drive.submit("a", prompt)
    first = drive.plan()
    assert (first.rows, first.table("a"), first.zero) == (
        "a:P[4+4/8]@1",
        [1, 2, 3, 4, 5],
        {"full": [3, 4, 5]},
    )
    assert first.loaded == [(0, [0, 0], [1, 2], [1, 2], [1, 1])]


def test_25_a_failed_prefetch(module: ModuleType) -> None:
    """A failed prefetch publishes nothing, and its request starts anew."""
    drive = Drive(module, [full(2)], page=2, pages=32, num_host_pages=20, enable_l3_storage=True)
    prompt = list(range(8))
    keys = drive.scheduler.expand_prefix_keys(drive.scheduler.prefix_hashes_for_tokens(prompt))
    drive.scheduler.register_storage_keys(*keys)
    drive.submit("a", prompt)
    assert drive.plan().rows == "a:P[6+2/8]@1"
    drive.scheduler.unregister_storage_keys(*keys)
    drive.event("Retract", "a")
    assert drive.counts[0] == 28
    drive.loaded(0, success=False)
    assert drive.counts[0] == 31
    assert drive.plan().rows == "a:P[0+8/8]@2"
