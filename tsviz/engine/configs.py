"""A scheduler's configuration from plain options, and the words in which cache groups are given on a command line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from tsviz.engine.binding import SchedulerModule


class GroupKind(Enum):
    """The three kinds of cache group (`scheduler-rules.md` section 0.1)."""

    FULL = "full"
    SLIDING = "sliding"
    STATE = "state"


class Role(Enum):
    """What a node does: prefill only, decode only, both."""

    P = "P"
    D = "D"
    FUSED = "Fused"


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """One cache group: tokens a block, window of a sliding one, blocks of it that one LCM block holds, shards."""

    kind: GroupKind
    block_granularity: int
    group_id: str
    window_tokens: int | None = None
    replayable: bool = False
    packing: int = 1
    shards: int = 1


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Everything a scheduler is configured with; pages include the null page 0."""

    groups: tuple[GroupOptions, ...]
    prefix_granularity: int = 16
    max_scheduled_tokens: int = 2048
    max_batch_size: int = 64
    num_device_pages: int = 1025
    num_host_pages: int = 0
    decode_input_tokens: int = 1
    overlap_schedule_depth: int = 0
    role: Role = Role.FUSED
    mixed: bool = False
    prefix_cache: bool = True
    storage: bool = False
    kv_events: bool = False
    prefix_replay_tokens: int = 0

    def build(self, module: SchedulerModule) -> Any:
        """Return the module's own configuration object; the module validates it when the scheduler is made."""
        config = module.SchedulerConfig()
        config.prefix_granularity = self.prefix_granularity
        config.max_scheduled_tokens = self.max_scheduled_tokens
        config.max_batch_size = self.max_batch_size
        config.num_device_pages = self.num_device_pages
        config.num_host_pages = self.num_host_pages
        config.decode_input_tokens = self.decode_input_tokens
        config.overlap_schedule_depth = self.overlap_schedule_depth
        config.role = getattr(module.SchedulerConfig.Role, self.role.value)
        config.enable_mixed_prefill_decode = self.mixed
        config.disable_prefix_cache = not self.prefix_cache
        config.enable_l3_storage = self.storage
        config.enable_kv_cache_events = self.kv_events
        config.prefix_replay_tokens = self.prefix_replay_tokens
        config.cache_groups = [self._group(module, group) for group in self.groups]
        return config

    def _group(self, module: SchedulerModule, group: GroupOptions) -> Any:
        retention, family, policy = module.CacheRetention, module.CacheGroupFamily, module.CacheTransferPolicy
        is_state = group.kind is GroupKind.STATE
        return module.CacheGroupConfig(
            group.group_id,
            group.block_granularity,
            (self.num_device_pages - 1) * group.packing + 1,
            retention=retention.SlidingWindow if group.kind is GroupKind.SLIDING else retention.FullHistory,
            sliding_window_tokens=group.window_tokens,
            family=family.State if is_state else family.History,
            cache_blocks_per_lcm_block=group.packing,
            transfer_policy=policy.LatestSnapshot if is_state else policy.FullSuffix,
            shard_count=group.shards,
            replayable=group.replayable,
        )


class GroupSpecError(ValueError):
    """A group given in words that make no sense; says which word and what was expected."""


def parse_groups(spec: str) -> tuple[GroupOptions, ...]:
    """Parse groups separated by commas, such as `full:16,sliding:16:w=64:replayable,state:16:k=2:id=mamba`.

    A group is `KIND:TOKENS_A_BLOCK` and then any of `w=WINDOW` (sliding, required there), `replayable` (sliding),
    `k=BLOCKS_PER_LCM_BLOCK`, `shards=N`, `id=NAME`. Without an id it is called by its kind, numbered if it repeats.

    Raises:
        GroupSpecError: naming the group, the word and what was expected.
    """
    groups: list[GroupOptions] = []
    for text in spec.split(","):
        group = _parse_group(text.strip())
        taken = {g.group_id for g in groups}
        if group.group_id in taken:
            raise GroupSpecError(f"group {text.strip()!r}: id {group.group_id!r} is taken; expected another id=NAME")
        name = group.group_id
        if not name:
            same = sum(g.kind is group.kind for g in groups)
            name = group.kind.value if same == 0 else f"{group.kind.value}{same + 1}"
        groups.append(replace(group, group_id=name))
    return tuple(groups)


def _parse_group(text: str) -> GroupOptions:
    kind_word, _, rest = text.partition(":")
    kinds = {kind.value: kind for kind in GroupKind}
    if kind_word not in kinds:
        raise GroupSpecError(f"group {text!r}: expected one of {', '.join(kinds)} first, found {kind_word!r}")
    size, *words = rest.split(":")
    group = GroupOptions(kinds[kind_word], _number(text, "tokens a block", size), "")
    for word in words:
        name, equals, value = word.partition("=")
        if name == "id" and value:
            group = replace(group, group_id=value)
        elif name == "k":
            group = replace(group, packing=_number(text, "k", value))
        elif name == "shards":
            group = replace(group, shards=_number(text, "shards", value))
        elif name == "w" and group.kind is GroupKind.SLIDING:
            group = replace(group, window_tokens=_number(text, "w", value))
        elif name == "replayable" and not equals and group.kind is GroupKind.SLIDING:
            group = replace(group, replayable=True)
        else:
            allowed = "id=, k=, shards=" + (", w=, replayable" if group.kind is GroupKind.SLIDING else "")
            raise GroupSpecError(f"group {text!r}: expected one of {allowed}, found {word!r}")
    if group.kind is GroupKind.SLIDING and group.window_tokens is None:
        raise GroupSpecError(f"group {text!r}: a sliding group needs its window, w=TOKENS")
    return group


def _number(text: str, name: str, value: str) -> int:
    if not value.isascii() or not value.isdigit() or int(value) < 1:
        raise GroupSpecError(f"group {text!r}: expected a positive whole number for {name}, found {value!r}")
    return int(value)
