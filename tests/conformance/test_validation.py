"""Configuration errors: cache-rules 1.6, in its order, with its texts."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest

from tests.conformance.calls import build_config, build_group
from tests.conformance.notation import Drive, full, replay, sliding, state

_BASE: dict[str, Any] = {
    "prefix_granularity": 4,
    "num_device_pages": 9,
    "max_scheduled_tokens": 64,
    "max_batch_size": 8,
    "cache_groups": [full(4)],
}


def _group(**changes: Any) -> list[dict[str, Any]]:
    return [{**full(4), **changes}]


_CASES: list[tuple[dict[str, Any], str]] = [
    ({"prefix_granularity": 0}, "prefix_granularity must be > 0"),
    ({"cache_groups": []}, "at least one cache group is required"),
    ({"max_batch_size": -1}, "max_batch_size must be >= 0"),
    ({"decode_input_tokens": -1}, "decode_input_tokens must be >= 0"),
    ({"max_scheduled_tokens": 0}, "max_scheduled_tokens must be > 0"),
    ({"overlap_schedule_depth": 2}, "overlap_schedule_depth must be 0 or 1"),
    (
        {"overlap_schedule_depth": 1, "decode_input_tokens": 0},
        "overlapped decode requires decode_input_tokens > 0",
    ),
    ({"cache_groups": _group(group_id="")}, "CacheGroupConfig: group_id must be non-empty"),
    ({"cache_groups": _group(block_granularity=0)}, "block_granularity must be > 0"),
    ({"cache_groups": _group(cache_blocks_per_lcm_block=0)}, "cache_blocks_per_lcm_block must be > 0"),
    ({"cache_groups": _group(shard_count=2)}, "shard_count must be positive and divide parent packing"),
    (
        {"cache_groups": _group(retention="SlidingWindow")},
        "sliding_window_tokens must be > 0 for sliding groups",
    ),
    (
        {"cache_groups": _group(family="State", retention="SlidingWindow", sliding_window_tokens=4)},
        "a State group keeps recurrent-state checkpoints",
    ),
    ({"cache_groups": _group(replayable=True)}, "only a sliding History group can be regenerated"),
    ({"cache_groups": [full(3)]}, "block_granularity must divide the scheduler prefix_granularity"),
    (
        {"role": "P", "cache_groups": _group(transfer_policy="Unspecified")},
        "PD cache requires an explicit transfer_policy",
    ),
    (
        {"role": "D", "cache_groups": _group(transfer_policy="LatestSnapshot")},
        "transfer_policy does not match its scheduler destination layout",
    ),
    (
        {"cache_groups": [full(4), state(4)], "max_scheduled_tokens": 3},
        "Mamba max_scheduled_tokens must cover one cache block",
    ),
    (
        {"cache_groups": [full(4), replay(8, 4)], "max_scheduled_tokens": 15},
        "max_scheduled_tokens must cover the replayable groups'",
    ),
    (
        {"cache_groups": [full(4), replay(8, 4), state(4)]},
        "cannot be combined with snapshot-state groups",
    ),
    ({"num_device_pages": 1}, "device cache must contain a null page and usable capacity"),
    ({"cache_groups": _group(total_pages=0)}, "total_pages must include the null page"),
    ({"prefix_replay_tokens": -1}, "prefix_replay_tokens must be >= 0"),
    ({"enable_l3_storage": True}, "L3 storage requires Host L2 cache"),
]


@pytest.mark.parametrize(("changes", "text"), _CASES, ids=[text[:40] for _, text in _CASES])
def test_each_rule_has_its_text(module: ModuleType, changes: dict[str, Any], text: str) -> None:
    """One violated rule is a ValueError that carries the rule's text."""
    with pytest.raises(ValueError) as caught:
        module.Scheduler(build_config(module, {**_BASE, **changes}))
    assert text in str(caught.value)


def test_the_first_violation_wins(module: ModuleType) -> None:
    """Of every two violated rules that can stand together the earlier one is reported."""
    scalar = [(changes, text) for changes, text in _CASES if "cache_groups" not in changes and "role" not in changes]
    for index, (first, text) in enumerate(scalar):
        for second, _ in scalar[index + 1 :]:
            if set(first) & set(second):
                continue
            with pytest.raises(ValueError) as caught:
                module.Scheduler(build_config(module, {**_BASE, **second, **first}))
            assert text in str(caught.value), (first, second)


def test_the_capacity_model_checks_the_subset(module: ModuleType) -> None:
    """The capacity model ignores the pool, replay tokens and storage, and refuses the rest alike."""
    ignored = ("num_device_pages", "prefix_replay_tokens", "enable_l3_storage")
    for changes, text in _CASES:
        config = build_config(module, {**_BASE, **changes})
        if any(name in changes for name in ignored) or "null page" in text:
            assert module.CapacityModel(config).num_groups == len(config.cache_groups)
            continue
        with pytest.raises(ValueError) as caught:
            module.CapacityModel(config)
        assert text in str(caught.value)


def test_a_group_validates_itself(module: ModuleType) -> None:
    """``validate`` runs the group's own rules and total_pages, and answers None when they hold."""
    assert build_group(module, full(4)).validate() is None
    assert build_group(module, sliding(4, 4)).validate() is None
    pages = ({"cache_groups": _group(total_pages=0)}, "total_pages must include the null page")
    for changes, text in [*_CASES[7:14], pages]:
        with pytest.raises(ValueError) as caught:
            build_group(module, changes["cache_groups"][0]).validate()
        assert text in str(caught.value)


def test_duplicate_group_ids_are_accepted(module: ModuleType) -> None:
    """Tables show the first of two groups with one id; zero lists of both are joined."""
    config = {**_BASE, "cache_groups": [full(4), full(2)]}
    scheduler = module.Scheduler(build_config(module, config))
    spec = module.RequestSpec()
    spec.request_id, spec.tokens = "a", list(range(4))
    scheduler.submit_requests([spec])
    plan = scheduler.next_execution_plan()
    # Four tokens and one decode step: two pages of four in the first group, three of two in the second.
    assert plan.forward[0].block_tables == {"full": [[1, 2]]}
    assert plan.pages_to_zero == {"full": [1, 2, 3, 4, 5]}


def test_zero_lists_of_duplicate_groups_join_admission_by_admission(module: ModuleType) -> None:
    """Joined zero lists are in acquisition order: both groups of one request, then both of the next."""
    groups = [full(4, packing=8), full(2, packing=8)]
    drive = Drive(module, groups, page=4, pages=33)
    drive.submit("a", 4)
    drive.submit("b", 4)
    # Two pages of four tokens and three of two for each; parents 1 and 2 hold children 1..8 and 9..16.
    assert drive.plan().zero == {"full": [1, 2, 9, 10, 11, 3, 4, 12, 13, 14]}


def test_too_many_children(module: ModuleType) -> None:
    """More children than an int32 can number are a RuntimeError at construction."""
    config = {**_BASE, "num_device_pages": 9, "cache_groups": [full(4, packing=2**30)]}
    with pytest.raises(RuntimeError):
        module.Scheduler(build_config(module, config))
