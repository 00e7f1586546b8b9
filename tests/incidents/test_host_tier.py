"""The host tier: which stores are fenced, what a ticket pins, and what waits for it."""

from __future__ import annotations

from tests.conformance.notation import full
from tests.incidents.conftest import OpenScene
from tests.incidents.scene import Scene
from tsviz.scheduler import decisions as d


def test_i10_finishing_requests_store_off_the_forward_path(scene: OpenScene) -> None:
    """I10: the stores of 8 requests that finish within 4 rounds are all pinned-until-ack, and L1, L2 decode in each."""
    s = scene([full(4)], blocks=120, num_host_pages=200, slots=16, budget=144)
    s.submit("L1", 8, 40)
    s.submit("L2", 8, 40)
    s.rounds(2)
    for index in range(8):
        s.submit(f"q{index}", 16, 4)
    s.round()
    stores = []
    for step in range(4):
        s.finish(f"q{2 * step}")
        s.finish(f"q{2 * step + 1}")
        plan = s.round()
        assert plan.rows.startswith("L1:D[1/8]@1 L2:D[1/8]@2")
        stores += plan.stored
    # q0 and q1 end before their first decode and flush 4 pages each; the first decodes of the others publish theirs.
    assert [(op, len(sources), pinned) for op, _, sources, _, pinned in stores] == [
        (1, 4, True),
        (2, 4, True),
        (3, 24, True),
    ]
    s.answers("I10", ("store_pinned", 4, 36))


def test_i44_a_host_hit_behind_the_device_hit_is_not_pinned(scene: OpenScene) -> None:
    """I44: A2 hits 16 in both tiers and loads nothing; B's store may then evict all 4 host pages."""
    s = scene([full(4)], blocks=20, num_host_pages=5)
    shared = list(range(16))
    s.submit("A", shared, 2)
    s.round()
    assert len(s.round().stored[0][2]) == 4
    s.stored(0)
    s.finish("A")
    s.submit("A2", [*shared, 91, 92, 93, 94], 8)
    hit = s.round()
    assert (hit.rows, hit.load) == ("A2:P[16+4/20]@2", None)
    s.tells(d.TierMatch, request_id="A2", tier="device", hit_slots=4)
    s.tells(d.TierMatch, request_id="A2", tier="host", common_tokens=16, begin_slot=4, hit_slots=0)
    s.tells(d.Admitted, request_id="A2", device_tokens=16, host_tokens=16, loaded_pages=0)
    s.submit("B", 16, 2)
    s.round()
    stored = s.round()
    assert [(op, len(sources), sorted(hosts)) for op, _, sources, hosts, _ in stored.stored] == [(1, 4, [1, 2, 3, 4])]
    s.answers("I44", (5, 4))


def _a_lost_acknowledgement(s: Scene, new: tuple[int, int, int]) -> None:
    s.submit("A", 16, new[0])
    s.round()
    s.finish("A")
    s.submit("B", 8, new[1])
    first = s.round()
    assert [(op, sources, pinned) for op, _, sources, _, pinned in first.stored] == [(0, [1, 2, 3, 4], True)]
    s.round()
    s.stored(1)
    s.rounds(5)
    s.submit("C", 4, new[2])
    s.rounds(2)
    assert s.counts == (0, 0, 4)  # B has the other four; A's are cached and pinned
    for _ in range(6):
        assert s.round().rows == ""
        s.tells(d.Iteration, blocker_id="C", victim_id="", outcome=d.DEFERRED, op_id=0)
        s.silent(d.Victim)
    s.waits("C", d.DEFERRED, op_id=0)
    s.waits("B", d.CAPACITY)
    s.stored(0)
    assert s.rounds(2) == ["C:P[0+4/4]@3", "B:D[1/8]@2 C:D[1/4]@3"]
    s.tells(d.Admitted, request_id="B", fresh_pages=(1,), evicted_pages=1)
    s.answers("I46", (0, 9, 16, 8))


def test_i46_a_lost_acknowledgement_is_named(scene: OpenScene) -> None:
    """I46: while the store of A's 4 pages is out nobody is retracted for C or B; once it is done both go on."""
    _a_lost_acknowledgement(scene([full(4)], blocks=8, num_host_pages=20), (0, 0, 0))


def test_i46_with_a_safe_step_of_4(twin_scene: OpenScene) -> None:
    """I46 as told (16+4, 8+20, 4+4, S=4, N=8): the same rounds and the same ticket."""
    _a_lost_acknowledgement(twin_scene([full(4)], blocks=8, num_host_pages=20, safe=4), (4, 20, 4))


def test_i47_finish_keeps_only_what_a_ticket_pins(scene: OpenScene) -> None:
    """I47: of three finished requests of 4 blocks only the 3 pages of B's unacknowledged store stay unavailable."""
    s = scene([full(4)], blocks=12, num_host_pages=20)
    for name in "ABC":
        s.submit(name, 12, 4)
    s.round()
    for name in "ABC":
        s.finish(name)
    stores = s.plan().stored
    assert [(op, sources, pinned) for op, _, sources, _, pinned in stores] == [
        (0, [1, 2, 3], True),
        (1, [5, 6, 7], True),
        (2, [9, 10, 11], True),
    ]
    assert s.counts == (3, 3, 0)
    s.stored(0, 2)
    assert s.counts == (9, 3, 0)
    s.plan()
    s.tells(d.Pool, group=0, cached_pages=9, empty_blocks=3, available_blocks=9, active_blocks=0)
    s.answers("I47", (1, "write_back", 3, True))
