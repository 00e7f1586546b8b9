"""Random scheduler configurations as plain data, legal by construction (scheduler-rules 2)."""

from __future__ import annotations

from random import Random
from types import ModuleType
from typing import Any

from tests.conformance.calls import build_config
from tests.conformance.profiles import FULL, REPLAY, SLIDING, STATE, Profile

_PACKINGS = (1, 1, 1, 2, 3, 4, 4, 6, 8, 12)
_POLICIES = {FULL: "FullSuffix", SLIDING: "FullSuffix", STATE: "LatestSnapshot", REPLAY: "FullSuffix"}


def random_group(rng: Random, kind: str, index: int, page: int, role: str) -> dict[str, Any]:
    """One group of the given kind for a prefix page of ``page`` tokens."""
    granularity = rng.choice([size for size in _divisors(page) if page // size <= 8])
    packing = rng.choice(_PACKINGS)
    shards = rng.choice([count for count in (1, 2, 3, 4) if packing % count == 0]) if packing > 1 else 1
    group: dict[str, Any] = {
        "group_id": f"{rng.choice('zma')}{index}{kind}",
        "block_granularity": granularity,
        "total_pages": rng.randint(1, 99),
        "cache_blocks_per_lcm_block": packing,
        "shard_count": shards,
    }
    if role != "Fused" or rng.random() < 0.2:
        group["transfer_policy"] = _POLICIES[kind]
    if kind in (SLIDING, REPLAY):
        group["retention"] = "SlidingWindow"
        group["sliding_window_tokens"] = rng.choice(
            (
                granularity,
                rng.randint(1, 3 * page),
                rng.randint(1, 3 * page),
                rng.choice((1, granularity + 1)),
            )
        )
        group["replayable"] = kind == REPLAY
    elif kind == STATE:
        group["family"] = "State"
    elif rng.random() < 0.1:
        group["sliding_window_tokens"] = rng.randint(1, 2 * page)  # ignored on a full-history group
    return group


def random_config(rng: Random, profile: Profile, reference: ModuleType) -> dict[str, Any]:
    """A configuration of ``profile``; the reference's capacity model sizes the pool to a token bound."""
    role = rng.choice(profile.roles)
    page = rng.choice(profile.pages)
    kinds = list(rng.choice(profile.groups))
    if rng.random() < 0.3:
        rng.shuffle(kinds)
    groups = [random_group(rng, kind, index, page, role) for index, kind in enumerate(kinds)]
    if len(groups) > 1 and rng.random() < 0.02:
        groups[-1]["group_id"] = groups[0]["group_id"]  # accepted: tables show the first, zero lists merge
    width = rng.choice(profile.widths)
    window = max((g["sliding_window_tokens"] for g in groups if g.get("replayable")), default=0)
    least = max(1, page if STATE in kinds else 1, window + max(window, page) if window else 1)
    tight = rng.random() < profile.tight_budget
    config: dict[str, Any] = {
        "prefix_granularity": page,
        "max_scheduled_tokens": least + rng.randint(0, 3 * page if tight else 12 * page) + width,
        "max_batch_size": 0 if rng.random() < 0.01 else rng.choice(profile.slots),
        "decode_input_tokens": width,
        "overlap_schedule_depth": int(width > 0 and rng.random() < profile.overlap),
        "role": role,
        "cache_groups": groups,
        "enable_mixed_prefill_decode": rng.random() < profile.mixed,
        "disable_prefix_cache": rng.random() < profile.no_prefix_cache,
    }
    if tight and rng.random() < 0.3:
        config["max_scheduled_tokens"] = least + rng.randint(0, 2)
    if rng.random() < profile.replay_tokens:
        config["prefix_replay_tokens"] = rng.randint(0, 3 * page)
    config["num_device_pages"] = _device_pages(rng, profile, reference, config)
    if rng.random() < profile.host:
        share = rng.uniform(0.8, 3.0) if rng.random() < profile.host_roomy else rng.uniform(0.05, 0.6)
        config["num_host_pages"] = 2 + int(share * config["num_device_pages"])
        config["disable_l2_cache"] = rng.random() < 0.05
        config["enable_l3_storage"] = not config["disable_l2_cache"] and rng.random() < profile.storage
    config["enable_kv_cache_events"] = rng.random() < profile.events
    return config


def _device_pages(rng: Random, profile: Profile, reference: ModuleType, config: dict[str, Any]) -> int:
    """Usable parents for one request of some target length, times the profile's factor, and the null page."""
    model = reference.CapacityModel(build_config(reference, config))
    if profile.bound_tokens:
        target = rng.randint(*profile.bound_tokens)
    else:
        target = config["prefix_granularity"] * rng.randint(*profile.bound_pages)
    needed = int(model.lcm_blocks_needed_for(model.single_request_group_pages(target)))
    return 2 + int(needed * max(1.0, rng.uniform(*profile.pool_factor)))


def spoiled(rng: Random, config: dict[str, Any]) -> dict[str, Any]:
    """The configuration with one or two fields made illegal (some draws stay legal; both must agree)."""
    bad = {**config, "cache_groups": [dict(group) for group in config["cache_groups"]]}
    for _ in range(rng.choice((1, 1, 2))):
        group = rng.choice(bad["cache_groups"]) if bad["cache_groups"] else {}
        name, value = rng.choice(_SPOILS)
        (bad if name in _TOP_LEVEL else group)[name] = value
    return bad


_TOP_LEVEL = frozenset(
    (
        "prefix_granularity",
        "cache_groups",
        "max_batch_size",
        "decode_input_tokens",
        "max_scheduled_tokens",
        "overlap_schedule_depth",
        "role",
        "num_device_pages",
        "num_host_pages",
        "prefix_replay_tokens",
        "enable_l3_storage",
    )
)
_SPOILS: tuple[tuple[str, Any], ...] = (
    ("prefix_granularity", 0),
    ("prefix_granularity", 5),
    ("cache_groups", []),
    ("max_batch_size", -1),
    ("decode_input_tokens", -1),
    ("decode_input_tokens", 0),
    ("max_scheduled_tokens", 0),
    ("max_scheduled_tokens", 1),
    ("overlap_schedule_depth", 2),
    ("overlap_schedule_depth", 1),
    ("role", "P"),
    ("role", "D"),
    ("num_device_pages", 1),
    ("prefix_replay_tokens", -1),
    ("enable_l3_storage", True),
    ("num_host_pages", -5),
    ("group_id", ""),
    ("block_granularity", 0),
    ("block_granularity", 7),
    ("cache_blocks_per_lcm_block", 0),
    ("shard_count", 0),
    ("shard_count", 5),
    ("retention", "SlidingWindow"),
    ("sliding_window_tokens", 0),
    ("sliding_window_tokens", None),
    ("family", "State"),
    ("replayable", True),
    ("transfer_policy", "Unspecified"),
    ("transfer_policy", "LatestSnapshot"),
    ("total_pages", 0),
)


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]
