"""The invariants, by name, over random lifetimes."""

from __future__ import annotations

import pytest

from tests.scheduler.lives import Life
from tsviz.scheduler import invariants
from tsviz.scheduler.errors import InvariantError


@pytest.mark.parametrize("first_seed", range(0, 60, 10))
def test_every_invariant_holds_after_every_call(first_seed: int) -> None:
    """No call of a random lifetime leaves the bookkeeping or a plan in breach of a named invariant."""
    for seed in range(first_seed, first_seed + 10):
        life = Life(seed)
        life.between = lambda life: invariants.check(life.scheduler)
        for number in range(30):
            plan = life.step(number)
            if plan is None:
                break
            assert invariants.plan_breaches(life.scheduler, plan) == []
            invariants.check(life.scheduler)


def test_a_breach_is_named_with_its_numbers() -> None:
    """A page that gained an unknown owner is reported as `owner_counts`, with place, expected, found."""
    life = Life(3)
    for number in range(6):
        life.step(number)
    device = life.scheduler.cache.device
    group, page = next(
        (group, page) for group, refs in enumerate(device.refs) for page, count in enumerate(refs) if count
    )
    device.refs[group][page] += 1
    with pytest.raises(InvariantError, match=rf"owner_counts at device group {group} page {page} .* expected"):
        invariants.check(life.scheduler)
