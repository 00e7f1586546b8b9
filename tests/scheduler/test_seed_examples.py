"""The seed's own examples that the worked examples of the rule books do not repeat."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tsviz.scheduler import compat
from tsviz.scheduler.cache.geometry import SLIDING, Group
from tsviz.scheduler.cache.matching import Lookup, Mask


def sliding(window_tokens: int, block_tokens: int, lookback: int) -> Group:
    """A sliding group of one block a prefix page."""
    return Group(0, "window", block_tokens, 1, 1, 1, SLIDING, False, window_tokens, lookback)


class _Tier:
    """A tier in which the slots with these digests are cached."""

    def __init__(self, cached: list[bytes]) -> None:
        self.where = [[dict.fromkeys(cached, 1)]]


def test_a_truncated_sliding_hit_is_matched_anew() -> None:
    """Seed 1: mask [0, 1, 1] with a five-token window and two-token blocks (two lookback pages) cut to [0, 1] would
    leave the first live lookback page a hole; re-matched at that bound nothing can be resumed."""
    chain = [b"a", b"b", b"c"]
    lookup = Lookup(cast(Any, _Tier([b"b", b"c"])), chain, None)
    group = sliding(window_tokens=5, block_tokens=2, lookback=2)
    assert lookup.match(group, 0, 3) == Mask(3, 2)
    assert lookup.match(group, 0, 2) == Mask(0, 0)


def rows(prompts: dict[str, int], budget: int) -> list[tuple[str, int]]:
    """The first round of a fused scheduler with room for everything: (request, tokens) a prefill row."""
    config = compat.SchedulerConfig()
    config.prefix_granularity, config.max_scheduled_tokens, config.max_batch_size = 64, budget, 8
    config.num_device_pages = 600
    config.cache_groups = [compat.CacheGroupConfig("full", 64, 600)]
    scheduler = compat.Scheduler(config)
    specs = []
    for index, (name, tokens) in enumerate(prompts.items()):
        spec = compat.RequestSpec()
        spec.request_id, spec.tokens = name, list(range(index * 100_000, index * 100_000 + tokens))
        specs.append(spec)
    scheduler.submit_requests(specs)
    batch = scheduler.next_execution_plan().forward[0]
    return list(zip(batch.request_ids, batch.input_lengths, strict=True))


def test_a_budget_of_6k_takes_2k_and_1k_whole_and_3k_of_10k() -> None:
    """Seed 1.1: with 6K of budget and prompts of 2K, 1K and 10K waiting, the round schedules the 2K and the 1K in full
    and the first 3K chunk of the 10K prompt, then stops."""
    assert rows({"2k": 2048, "1k": 1024, "10k": 10240, "late": 64}, 6144) == [("2k", 2048), ("1k", 1024), ("10k", 3072)]


@pytest.mark.parametrize("length", [1, 64, 300, 1025])
def test_a_pool_for_one_admits_one(length: int) -> None:
    """Seed 1.4: for one live request ConcurrentGroupPages(L, L) is never below SingleRequestGroupPages(L)."""
    config = compat.SchedulerConfig()
    config.prefix_granularity, config.max_scheduled_tokens, config.max_batch_size = 64, 512, 1
    config.cache_groups = [
        compat.CacheGroupConfig("full", 64, 1),
        compat.CacheGroupConfig("state", 64, 1, family=compat.CacheGroupFamily.State),
        compat.CacheGroupConfig(
            "window", 16, 1, retention=compat.CacheRetention.SlidingWindow, sliding_window_tokens=128
        ),
    ]
    model = compat.CapacityModel(config)
    single, concurrent = model.single_request_group_pages(length), model.concurrent_group_pages(length, length)
    assert all(many >= one for many, one in zip(concurrent, single, strict=True))
