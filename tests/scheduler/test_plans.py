"""Plans are values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.scheduler.lives import Life, plain
from tsviz.scheduler.plan import Plan


@pytest.mark.parametrize("first_seed", range(0, 30, 10))
def test_later_rounds_do_not_change_a_plan(first_seed: int) -> None:
    """Every plan of a lifetime reads at the end as when it was made, though it shares tables and tokens."""
    for seed in range(first_seed, first_seed + 10):
        life = Life(seed)
        kept: list[tuple[Plan, Any]] = []
        for number in range(30):
            plan = life.step(number)
            if plan is None:
                break
            kept.append((plan, plain(plan)))
        assert all(plain(plan) == then for plan, then in kept)
