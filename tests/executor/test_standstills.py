"""Lifetimes that never come to their end by the scheduler's own rules, on the real package as on the twin.

Drawn lifetimes keep clear of them (`rig.drawn`), so that one that does not end is a mistake.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live, request
from tsviz.engine.summary import EndReason
from tsviz.executor.sizing import PoolOptions

torch.set_num_threads(1)

LONE = Life((request("a", (1, 12), says=40),), pool=PoolOptions(mixed=True, overlap_schedule_depth=1), parents=4)
"""12 tokens that do not say how long they get and come to 52, in a pool whose bound for one request is 31."""
BOTH = Life(
    tuple(request(f"r{i}", (i + 1, 13), says=30, at_ms=i) for i in range(2)),
    pool=PoolOptions(prefix_cache=False, max_scheduled_tokens=16), parents=4,
)  # fmt: skip
"""Two of 13 tokens that come to 43, in a pool whose bound is 32."""
HELD = Life(
    (request("a", (1, 16), says=6), request("b", (2, 16), says=6, at_ms=3), request("c", (1, 25), says=6, at_ms=6)),
    "tiny-replay", PoolOptions(mixed=True, max_scheduled_tokens=12, max_batch_size=2), 40,
)  # fmt: skip
"""Two decode and a third waits for a slot; decodes leave it 4 tokens to feed again and a page of 8, all of a round."""


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("life", "reason", "outgrows", "lets_it_end"),
    [
        (LONE, EndReason.STALLED, True, {"parents": 7}),
        (BOTH, EndReason.MAX_ROUNDS, True, {"parents": 6}),
        (HELD, EndReason.STALLED, False, {"pool": replace(HELD.pool, max_scheduled_tokens=13)}),
    ],
    ids=["outgrows its pool", "two that retract each other", "decodes hold back for whom they keep out"],
)
def test_both_schedulers_stand_still_alike(life, reason, outgrows, lets_it_end, real_scheduler) -> None:
    """Every plan is empty, or every other one retracts, for ever; a little more room lets both come to the end."""
    ours, real = (live(life, scheduler) for scheduler in (twin, real_scheduler))
    assert ours.summary == real.summary
    assert ours.summary.reason is reason
    assert ours.summary.live > 0
    assert ours.equality.is_exact
    assert any(r.prompt_tokens + r.output_tokens > ours.bound_tokens for r in life.requests) is outgrows
    for scheduler in (twin, real_scheduler):
        assert live(replace(life, **lets_it_end), scheduler).summary.reason is EndReason.DRAINED
