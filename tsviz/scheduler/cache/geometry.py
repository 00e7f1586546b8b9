"""What the cache needs to know of a group, derived once (`cache-rules.md` 1.2)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tsviz.scheduler.config import Config

FULL: Final = 0
SLIDING: Final = 1
STATE: Final = 2


@dataclass(frozen=True, slots=True)
class Group:
    """One cache group, with its kind and derived numbers."""

    index: int
    group_id: str
    granularity_tokens: int
    """Tokens in one table slot (g)."""
    per_page: int
    """Slots in one prefix page (r = P // g)."""
    packing: int
    """Children in one LCM block (K)."""
    shards: int
    kind: int
    replayable: bool
    window_tokens: int
    """Retention window; 0 for full history, 2 for state."""
    lookback: int
    """Slots a resume point needs behind it."""


def groups_of(config: Config) -> tuple[Group, ...]:
    """The groups of a validated config, in order."""
    out = []
    for index, group in enumerate(config.cache_groups):
        g = group.block_granularity
        kind, window, lookback = FULL, 0, 0
        if group.is_state:
            kind, window, lookback = STATE, 2, 1
        elif group.is_sliding:
            window = group.sliding_window_tokens or 0
            kind, lookback = SLIDING, -(-(window - 1) // g)
        out.append(
            Group(
                index=index,
                group_id=group.group_id,
                granularity_tokens=g,
                per_page=config.prefix_granularity // g,
                packing=group.cache_blocks_per_lcm_block,
                shards=group.shard_count,
                kind=kind,
                replayable=group.replayable,
                window_tokens=window,
                lookback=lookback,
            )
        )
    return tuple(out)
