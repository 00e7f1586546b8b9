"""`SchedulerConfig`, `CacheGroupConfig`, `RequestSpec` of the public API (`scheduler-rules.md` 1.2-1.4)."""

from __future__ import annotations

from array import array
from typing import Any

from tsviz.scheduler import config as core
from tsviz.scheduler.binding.checks import (
    Bound,
    Field,
    boolean,
    enumeration,
    int32,
    int32_array,
    optional,
    reject,
    sequence,
    string,
)
from tsviz.scheduler.config import CacheGroupFamily, CacheRetention, CacheTransferPolicy, Config, GroupConfig

_GROUP_FIELDS = tuple(GroupConfig.__dataclass_fields__)
_CONFIG_FIELDS = tuple(name for name in Config.__dataclass_fields__ if name != "cache_groups")


class CacheGroupConfig(Bound):
    """One cache group; `CacheGroupConfig()` is empty and invalid."""

    __slots__ = tuple("_" + name for name in _GROUP_FIELDS)

    group_id = Field(string)
    block_granularity = Field(int32)
    total_pages = Field(int32)
    retention = Field(enumeration(CacheRetention))
    sliding_window_tokens = Field(optional(int32))
    family = Field(enumeration(CacheGroupFamily))
    cache_blocks_per_lcm_block = Field(int32)
    transfer_policy = Field(enumeration(CacheTransferPolicy))
    shard_count = Field(int32)
    replayable = Field(boolean)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Either no argument, or at least `group_id`, `block_granularity` and `total_pages`."""
        if len(args) > len(_GROUP_FIELDS):
            raise TypeError("CacheGroupConfig: too many arguments")
        given = dict(zip(_GROUP_FIELDS, args, strict=False))
        for name, value in kwargs.items():
            if name not in _GROUP_FIELDS or name in given:
                raise TypeError(f"CacheGroupConfig: unexpected argument '{name}'")
            given[name] = value
        if given and not all(name in given for name in _GROUP_FIELDS[:3]):
            raise TypeError("CacheGroupConfig: group_id, block_granularity and total_pages are required")
        default = GroupConfig()
        for name in _GROUP_FIELDS:
            setattr(self, name, given.get(name, getattr(default, name)))

    def validate(self) -> None:
        """Raise ValueError for the first broken rule of the group alone."""
        core.validate_group_pages(self._to_core())

    def _to_core(self) -> GroupConfig:
        """The group as an immutable value."""
        return GroupConfig(*(getattr(self, name) for name in _GROUP_FIELDS))

    def _clone(self) -> CacheGroupConfig:
        """A separate object with the same values."""
        return CacheGroupConfig(*(getattr(self, name) for name in _GROUP_FIELDS))


def _groups(value: object) -> list[CacheGroupConfig]:
    groups = []
    for item in sequence(value, "a sequence of CacheGroupConfig"):
        if not isinstance(item, CacheGroupConfig):
            reject("CacheGroupConfig", item)
        groups.append(item._clone())
    return groups


class SchedulerConfig(Bound):
    """The configuration; validated by `Scheduler` and `CapacityModel`, not before."""

    __slots__ = (*("_" + name for name in _CONFIG_FIELDS), "_groups")

    Role = core.Role

    prefix_granularity = Field(int32)
    max_scheduled_tokens = Field(int32)
    max_batch_size = Field(int32)
    decode_input_tokens = Field(int32)
    overlap_schedule_depth = Field(int32)
    role = Field(enumeration(core.Role))
    num_device_pages = Field(int32)
    num_host_pages = Field(int32)
    disable_l2_cache = Field(boolean)
    enable_l3_storage = Field(boolean)
    enable_kv_cache_events = Field(boolean)
    enable_mixed_prefill_decode = Field(boolean)
    disable_prefix_cache = Field(boolean)
    prefix_replay_tokens = Field(int32)

    def __init__(self) -> None:
        """Defaults of the public API."""
        default = Config()
        for name in _CONFIG_FIELDS:
            setattr(self, name, getattr(default, name))
        self._groups: list[CacheGroupConfig] = []

    @property
    def cache_groups(self) -> list[CacheGroupConfig]:
        """A fresh list of the config's own group objects."""
        return list(self._groups)

    @cache_groups.setter
    def cache_groups(self, value: object) -> None:
        self._groups = _groups(value)

    def _to_core(self) -> Config:
        """The config as an immutable value."""
        values = {name: getattr(self, name) for name in _CONFIG_FIELDS}
        return Config(cache_groups=tuple(group._to_core() for group in self._groups), **values)


class RequestSpec(Bound):
    """A request to submit."""

    __slots__ = ("_max_new_tokens", "_request_id", "_tokens")

    request_id = Field(string)
    max_new_tokens = Field(int32)

    def __init__(self) -> None:
        """Empty id, no tokens, undeclared budget."""
        self.request_id = ""
        self.max_new_tokens = 0
        self._tokens: array[int] = array("i")

    @property
    def tokens(self) -> list[int]:
        """A fresh list of the prompt."""
        return self._tokens.tolist()

    @tokens.setter
    def tokens(self, value: object) -> None:
        self._tokens = int32_array(value)

    def _token_array(self) -> array[int]:
        """The prompt as the scheduler keeps it; the caller must not change it."""
        return self._tokens
