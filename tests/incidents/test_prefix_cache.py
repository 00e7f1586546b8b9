"""What the device cache publishes, when, and what it gives up."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.conformance.notation import Drive, full
from tests.incidents.conftest import OpenScene
from tsviz.scheduler import decisions as d

SHARED = list(range(16))


@pytest.mark.parametrize("mixed", [False, True])
def test_i17_publication_rides_with_the_next_admission(scene: OpenScene, mixed: bool) -> None:
    """I17: A's first decode publishes its 5 pages; in mixed mode C and D then hit 16, otherwise 4 and 12."""
    s = scene([full(4)], blocks=60, budget=24, enable_mixed_prefill_decode=mixed)
    for index, name in enumerate("ABCD"):
        s.submit(name, [*SHARED, *range(100 + 10 * index, 104 + 10 * index)], 8)
    assert s.round().rows == "A:P[0+20/20]@1 B:P[0+4/20]@2"
    s.waits("C", d.HEAD_OF_LINE, "B")
    second = s.round()
    if mixed:
        assert second.rows == "B:P[4+16/20]@2 C:P[16+4/20]@3 D:P[16+3/20]@4 A:D[1/20]@1"
        s.tells(d.Publication, request_id="A", first_page=0, end_page=5, new_pages=5)
        s.answers("I17", ("A", 1, 0), ("B", 1, 0), ("C", 2, 16), ("D", 2, 16))
    else:
        assert second.rows == "B:P[4+16/20]@2 C:P[4+8/20]@3"
        s.waits("A", d.PREFILL_ONLY, "B")  # no admission, so nothing of A is published
        assert s.round().rows == "C:P[12+8/20]@3 D:P[12+8/20]@4"
        assert s.round().rows == "A:D[1/20]@1 B:D[1/20]@2 C:D[1/20]@3 D:D[1/20]@4"
        s.tells(d.Publication, request_id="A", first_page=0, end_page=5, new_pages=2)
        s.answers("I17", ("A", 1, 0), ("B", 1, 0), ("C", 2, 4), ("D", 3, 12))


def test_i19_a_tie_is_broken_by_order_alone(scene: OpenScene) -> None:
    """I19: of two prompts cached at equal time C evicts the second page of A, submitted first; D then hits 4."""
    s = scene([full(4)], blocks=6)
    shared = list(range(8))
    s.submit("A", shared, 1)
    s.submit("B", 8, 1)
    s.rounds(2)
    s.finish("A")
    s.finish("B")
    s.submit("C", 8, 1)
    assert s.round().rows == "C:P[0+8/8]@3"
    s.tells(d.Eviction, tier="device", page=2, epoch=1)
    s.round()
    s.finish("C")
    s.submit("D", [*shared, 90, 91, 92, 93])
    assert s.round().rows == "D:P[4+8/12]@4"
    s.tells(d.TierMatch, request_id="D", probed_pages=2, common_tokens=4)
    s.answers("I19", (3, 0, 2, 1), (5, 0, 5, 1), (5, 0, 4, 1))


def test_i19_two_ranks_plan_alike(module: ModuleType) -> None:
    """I19: two schedulers with the same calls give the same plans, page ids included, on a pool fed by evictions."""
    plans: list[list[dict[str, Any]]] = [[], []]
    for seen in plans:
        rank = Drive(module, [full(4)], page=4, pages=7)
        for step in range(8):
            names = [f"{step}a", f"{step}b"]
            for name in names:
                rank.submit(name, 8, 1)
            seen += [rank.round().plan, rank.round().plan]
            assert rank.counts == (0, 0, 6)
            for name in names:
                rank.finish(name)
            assert rank.counts == (6, 2, 0)
    assert plans[0] == plans[1]
