"""A scheduler's config as plain data: what a part's metadata holds, and how to build the config again from it."""

from __future__ import annotations

from typing import Any

CONFIG_FIELDS = (
    "prefix_granularity", "max_scheduled_tokens", "max_batch_size", "decode_input_tokens", "overlap_schedule_depth",
    "num_device_pages", "num_host_pages", "disable_l2_cache", "enable_l3_storage", "enable_kv_cache_events",
    "enable_mixed_prefill_decode", "disable_prefix_cache", "prefix_replay_tokens",
)  # fmt: skip
GROUP_FIELDS = (
    "group_id", "block_granularity", "total_pages", "sliding_window_tokens", "cache_blocks_per_lcm_block",
    "shard_count", "replayable",
)  # fmt: skip
_GROUP_ENUMS = ("retention", "family", "transfer_policy")


def describe_config(config: Any) -> dict[str, Any]:
    """Return every field of a `SchedulerConfig` of the public API as JSON-able data; enums by name."""
    described: dict[str, Any] = {name: getattr(config, name) for name in CONFIG_FIELDS}
    described["role"] = config.role.name
    described["cache_groups"] = [
        {name: getattr(group, name) for name in GROUP_FIELDS}
        | {name: getattr(group, name).name for name in _GROUP_ENUMS}
        for group in config.cache_groups
    ]
    return described


def build_config(module: Any, described: dict[str, Any]) -> Any:
    """Build a `SchedulerConfig` of `module` (the real package or the twin) from `describe_config`'s data.

    Raises KeyError for a missing field and whatever the module raises for values that it refuses.
    """
    config = module.SchedulerConfig()
    for name in CONFIG_FIELDS:
        setattr(config, name, described[name])
    config.role = getattr(module.SchedulerConfig.Role, described["role"])
    groups = []
    for fields in described["cache_groups"]:
        group = module.CacheGroupConfig()
        for name in GROUP_FIELDS:
            setattr(group, name, fields[name])
        group.retention = getattr(module.CacheRetention, fields["retention"])
        group.family = getattr(module.CacheGroupFamily, fields["family"])
        group.transfer_policy = getattr(module.CacheTransferPolicy, fields["transfer_policy"])
        groups.append(group)
    config.cache_groups = groups
    return config
