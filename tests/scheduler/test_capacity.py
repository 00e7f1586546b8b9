"""The capacity model against itself: a pool sized for concurrency admits what the bound accepts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from tests.scheduler.lives import random_config
from tsviz.scheduler.capacity import CapacityModel
from tsviz.scheduler.scheduler import Scheduler, Submission


@pytest.mark.parametrize("first_seed", range(0, 200, 50))
def test_concurrent_pages_never_fall_below_single_request_pages(first_seed: int) -> None:
    """For every L, `concurrent_group_pages(L, L)` covers `single_request_group_pages(L)` in every group."""
    for seed in range(first_seed, first_seed + 50):
        model = CapacityModel(random_config(Random(seed)))
        for tokens in [*range(1, 40), 63, 64, 65, 127, 200, 1000]:
            single = model.single_request_group_pages(tokens)
            concurrent = model.concurrent_group_pages(tokens, tokens)
            assert all(a >= b for a, b in zip(concurrent, single, strict=True)), (seed, tokens)


def test_a_pool_one_token_short_rejects_the_request() -> None:
    """The bound is sharp: the largest request is accepted, one token more is refused at submission."""
    for seed in range(40):
        scheduler = Scheduler(replace(random_config(Random(seed)), decode_input_tokens=1))
        bound = scheduler.max_single_request_tokens()
        room = 0 if scheduler.config.role.name == "P" else 1
        if not 1 <= bound - room < 100_000:
            continue  # a pool of windows and states alone holds prompts of any length
        with pytest.raises(ValueError, match="exceeds cache capacity"):
            scheduler.submit([Submission("long", [1] * (bound - room + 1))])
        scheduler.submit([Submission("fits", [1] * (bound - room))])
