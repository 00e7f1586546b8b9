"""Head of line: who may pass whom, and what waits behind a prefill."""

from __future__ import annotations

import pytest

from tests.conformance.notation import full
from tests.incidents.conftest import OpenScene
from tsviz.scheduler import decisions as d


def test_i28_small_prompts_pass_a_refused_one_without_bound(scene: OpenScene) -> None:
    """I28: BIG lacks 2 of 12 blocks while smaller newcomers of 3 are admitted round after round and keep it out."""
    s = scene([full(4)], blocks=20, budget=16, enable_mixed_prefill_decode=True)
    s.submit("X", 32, 8)
    s.rounds(3)
    assert s.counts == (10, 10, 10)
    s.submit("BIG", 40, 8)
    for index in range(6):
        s.submit(f"s{index}", 8, 4)
        assert s.round().rows.startswith(f"s{index}:P[0+8/8]")
        s.waits("BIG", d.CAPACITY)
        s.tells(d.Blocker, request_id="BIG")
        s.silent(d.Iteration, d.Hold)  # prefill progress: nobody is retracted for BIG, nothing holds the line
        if index == 0:
            s.tells(d.Refused, request_id="BIG", need_pages=(12,), free_blocks=10, reachable_blocks=10)
        if index >= 2:
            s.finish(f"s{index - 2}")
    s.answers("I28", ("BIG", 4, 6))


def test_i37_a_chunk_that_does_not_fit_stays_where_it_is(scene: OpenScene) -> None:
    """I37: A's third chunk lacks 2 of 3 blocks, keeps its tables, and goes on when the peer has Y's 4."""
    s = scene([full(4)], blocks=9, budget=8, role="P")
    s.arrive("Y", 12, 1)
    s.plan()
    s.plan()
    s.result("Y")
    s.result("Y", 7)
    assert s.plan().remote_decode == "Y:D[1/12]@1"
    s.arrive("A", 24, 1)
    assert s.rounds(4) == ["A:P[0+8/24]@2", "A:P[8+8/24]@2", "", ""]
    assert s.counts == (1, 1, 8)
    s.tells(d.Refused, request_id="A", need_pages=(3,), free_blocks=1, reachable_blocks=1)
    s.waits("A", d.CAPACITY)
    s.waits("Y", d.REMOTE_TRANSFER)
    s.silent(d.Iteration, d.Victim)  # P never retracts
    s.event("SucceededEvent", "Y")
    assert s.plan().rows == "A:P[16+8/24]@2"
    s.answers("I37", (6, "A", [3], 1, 1), (7, "A", [3], 1, 1))


@pytest.mark.parametrize("mixed", [False, True])
def test_i38_a_decode_waits_while_prompts_arrive(scene: OpenScene, mixed: bool) -> None:
    """I38: outside mixed mode A has no decode in the 20 rounds in which a prompt arrives, in mixed mode one in each."""
    s = scene([full(4)], blocks=200, budget=16, slots=32, enable_mixed_prefill_decode=mixed)
    s.submit("A", 8, 64)
    s.round()
    decoded = 0
    for index in range(20):
        s.submit(f"q{index}", 16, 4)
        decoded += "A:D" in s.round().rows
        if not mixed:
            s.waits("A", d.PREFILL_ONLY, f"q{index}")
    assert decoded == (20 if mixed else 0)
    assert "A:D" in s.round().rows
    s.answers("I38", ("A", 1 if mixed else 21))
