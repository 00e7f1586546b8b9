"""The acceptance bound: what is refused at submission, and that everything else fits an empty pool."""

from __future__ import annotations

import pytest

from tests.conformance.notation import full
from tests.incidents.conftest import OpenScene
from tsviz.scheduler import decisions as d


def test_i26_the_bound_counts_window_and_overlap(scene: OpenScene) -> None:
    """I26: of 60 tokens 4 are protected, so prompt + max(new, 4) may be 56: prompts of 56 are refused, 52 runs."""
    s = scene([full(4)], blocks=15, width=4, overlap_schedule_depth=1)
    assert s.scheduler.max_single_request_tokens() == 56
    for prompt in (56, 53):
        with pytest.raises(ValueError, match="request token limit exceeds cache capacity"):
            s.submit("A", prompt, 2)
    s.submit("B", 52, 2)
    # The last step is planned before the one that ends it has landed: 52 + 4 + 4 = 60 tokens, all 15 blocks.
    assert [s.plan().rows for _ in range(3)] == ["B:P[0+52/52]@1", "B:D[4/52]@1", "B:D[4/52]@1"]
    assert s.counts == (0, 0, 15)
    s.silent(d.Refused, d.Iteration)
    s.answers("I26", ("A", 56, 2, False), ("A", 53, 2, False), ("B", 52, 2, True))
