"""Recovery: what a retracted request keeps, and how it comes back."""

from __future__ import annotations

from tests.conformance.notation import full
from tests.incidents.conftest import OpenScene
from tsviz.scheduler import decisions as d


def test_i07_a_retracted_request_owns_no_block(scene: OpenScene) -> None:
    """I07: with no resident left all 6 blocks are available; A returns with what the host has, 8 of 9 tokens."""
    s = scene([full(4)], blocks=6, role="D", num_host_pages=40)
    for name in "ABC":
        s.arrive(name, 6)
        s.plan()
        s.event("RemotePrefillDoneEvent", name, 5)
        s.land()
    s.rounds(2)
    retracting = s.round()
    assert (retracting.rows, s.waiting) == ("", 1)
    assert retracting.stored == [(0, [0, 0], [1, 2], [1, 2], False)]
    assert s.counts == (2, 0, 4)  # A's two pages are cached, not owned
    s.tells(d.StateChange, request_id="A", before="Decoding", after="Retracted")
    s.tells(d.Transfer, op_id=0, kind="store_stream_ordered", event="started", pages=2)
    s.stored(0)
    assert s.round().rows == "B:D[1/6]@2 C:D[1/6]@3"
    s.tells(d.Readmission, request_id="A", rank=0, resumes_generation=True)
    s.tells(d.Refused, request_id="A", free_blocks=0)
    s.finish("B")
    s.finish("C")
    assert s.counts == (6, 2, 0)
    back = s.round()
    assert (back.rows, [one[:2] for one in back.loaded]) == ("A:P[8+1/9]@4", [(1, [0, 0])])
    s.tells(d.Admitted, request_id="A", device_tokens=0, host_tokens=8, loaded_pages=2)
    s.loaded(1)
    s.finish("A")
    s.plan()
    s.answers("I07", (9, 6, 0))


def test_i07_with_a_safe_step_of_8(twin_scene: OpenScene) -> None:
    """I07 as told (6+24, S=8, N=12): three landings of 4 blocks; the victim frees all 4 of its own, tail included."""
    s = twin_scene([full(4)], blocks=12, role="D", num_host_pages=40, safe=8)
    for name in "ABC":
        s.arrive(name, 6, 24)
        assert len(s.plan().zero["full"]) == 4
        s.event("RemotePrefillDoneEvent", name, 5)
        s.land()
    s.rounds(10)
    assert s.counts == (0, 0, 12)
    assert s.round().rows == ""
    s.tells(d.Iteration, victim_id="A", outcome=d.RETRACTED)
    s.tells(d.Victim, request_id="A", rank=0, releasable_blocks=4, tokens=17)
    assert s.counts == (4, 0, 8)
