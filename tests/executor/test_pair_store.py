"""A storage tier on both nodes of a pair: one folder or one each; pages that come from it, and such as are gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tests.executor.pairs import Pair, Paired, run_pair
from tests.executor.rig import request
from tsviz.engine.configs import Role
from tsviz.engine.summary import EndReason
from tsviz.engine.workloads.model import WorkRequest
from tsviz.executor.peer import UNASKED
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.store import StoreFaults

torch.set_num_threads(1)


def pressing(count: int, says: int) -> tuple[WorkRequest, ...]:
    """Requests that come at once and say so much."""
    return tuple(request(f"p{i}", (401 + i, 14 + 2 * i), says=says) for i in range(count))


PRESSED = Pair(
    "tiny-state",
    pressing(5, says=16),
    PoolOptions(max_scheduled_tokens=24, storage=True),
    parents=14,
    host_parents=16,
)
"""On the decode node they retract one another, and what its host holds does not do for those that were retracted."""


def stored(pair: Pair, folder: Path, *, shared: bool) -> Pair:
    """The pair with a store below a folder, or one for each node."""
    return replace(pair, stores={role: folder / ("both" if shared else role.value) for role in (Role.P, Role.D)})


def check(paired: Paired) -> None:
    """What was said is right, nothing raced, and nobody holds anything any more."""
    assert (paired.on_d.reason, paired.on_p.reason) == (EndReason.DRAINED, EndReason.DRAINED)
    assert paired.equality.is_exact, paired.equality
    assert paired.races == set()
    assert paired.is_freed


@pytest.mark.parametrize("shared", [True, False], ids=["one store", "two stores"])
def test_pages_come_back_from_storage_on_either_node(shared, tmp_path) -> None:
    """D brings back who was retracted; in a second run P finds all five prompts; every token is the reference's."""
    first = run_pair(stored(PRESSED, tmp_path, shared=shared))
    second = run_pair(stored(PRESSED, tmp_path, shared=shared))
    for paired in (first, second):
        check(paired)
        assert paired.on_d.finished == 5
        assert paired.on_d.retractions > 0
    assert first.d.device.counts["storage restore"] > 0
    assert first.p.device.counts["storage restore"] == 0
    assert second.p.device.counts["storage restore"] > 0


def test_a_page_that_is_gone_fails_who_needs_it_on_d_and_is_computed_anew_on_p(tmp_path) -> None:
    """Every page vanishes between the probe and its first read: P computes the prompts, D fails who comes back (A5)."""
    run_pair(stored(PRESSED, tmp_path, shared=False))
    spoilt = replace(stored(PRESSED, tmp_path, shared=False), store_faults=StoreFaults(vanish_rate=1.0))
    paired = run_pair(spoilt)
    check(paired)
    assert paired.p.device.counts["storage miss"] > 0
    assert paired.d.device.counts["storage miss"] > 0
    assert set(paired.failures) == {UNASKED}
    assert paired.on_d.failed == paired.failures[UNASKED]
    assert paired.on_d.failed + paired.on_d.finished == 5
    assert (paired.on_p.failed, paired.on_p.finished) == (0, 5)


def test_the_real_schedulers_pair_with_a_store_says_the_same(real_scheduler, tmp_path) -> None:
    """Full attention, of which no landing is cut: with and without misses, every token is the reference's."""
    pressed = pressing(4, says=20)
    pair = replace(PRESSED, model="tiny", requests=pressed, parents=9, host_parents=6, scheduler=real_scheduler)
    for faults in (None, StoreFaults(5, 0.4, 0.2, raise_rate=0.1, failed_put_rate=0.3)):
        paired = run_pair(replace(stored(pair, tmp_path, shared=True), store_faults=faults))
        check(paired)
        assert paired.on_d.finished + paired.on_d.failed == 4
        assert set(paired.failures) <= {UNASKED}
        assert paired.d.device.counts["storage put"] > 0
