"""Bounded replay: the budget that a re-fed window leaves to a chunk."""

from __future__ import annotations

import pytest

from tests.conformance.notation import full, replay, sliding
from tests.incidents.conftest import OpenScene
from tsviz.scheduler import decisions as d

GROUPS = [full(8), sliding(16, 8), replay(2, 2)]


@pytest.mark.parametrize("budget", [8, 9])
def test_i14_a_budget_that_replay_could_starve_is_refused(scene: OpenScene, budget: int) -> None:
    """I14: a budget below 2 + max(2, 8) = 10 is refused when the scheduler is built."""
    with pytest.raises(ValueError, match="largest sliding_window_tokens plus max"):
        scene(GROUPS, page=8, blocks=16, budget=budget)


def test_i14_a_replayed_hit_reaches_its_promotion_boundary(scene: OpenScene) -> None:
    """I14: with a budget of 10, a hit of 8 and the boundary 16 the first chunk feeds 2 again, adds 8 and ends at 16."""
    s = scene(GROUPS, page=8, blocks=16, budget=10)
    shared = list(range(16))
    s.serve("seed", [*shared, 77, 77])
    s.serve("toucher", [*shared[:8], 66, 66])  # leaves page 0 younger than page 1
    s.submit("fill", 20)
    s.rounds(3)  # lacks one block: the window's page 1 goes
    s.finish("fill")
    s.submit("A", [*shared, *range(50, 62)], 4)
    assert s.round().rows == "A:P[6+10/28]@4rp2"
    s.tells(d.TierMatch, request_id="A", group=0, common_tokens=8, closed_tokens=16)
    s.tells(d.Chunk, request_id="A", tokens=8, budget_tokens=10, replay_tokens=2, promotion_tokens=16)
    assert s.rounds(3) == ["A:P[16+8/28]@4", "A:P[24+4/28]@4", "A:D[1/28]@4"]
    s.answers(
        "I14", ("A", 8, 10, 2, "budget", 16), ("A", 8, 10, 0, "alignment", 16), ("A", 4, 10, 0, "whole_prompt", 0)
    )
