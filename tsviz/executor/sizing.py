"""From a model and a byte budget to a scheduler's configuration (`executor-rules.md` section 7, *Sizing*)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, cast

from tsviz.engine.binding import SchedulerModule
from tsviz.engine.configs import Role, SchedulerOptions
from tsviz.executor.layout import Layout, plan_layout
from tsviz.executor.shape import BadModel, ModelShape
from tsviz.scheduler import compat

MOST_PAGES = 1 << 31
"""A scheduler numbers its pages with 32 bits."""


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """Everything but the pool's size that a scheduler is configured with, and block granularities by group.

    A group that is not named takes the prefix granularity (full) or half of it.
    """

    prefix_granularity: int = 8
    max_scheduled_tokens: int = 32
    max_batch_size: int = 4
    decode_input_tokens: int = 1
    overlap_schedule_depth: int = 0
    mixed: bool = False
    storage: bool = False
    prefix_cache: bool = True
    role: Role = Role.FUSED
    granularity: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SizedPool:
    """A layout and the scheduler's configuration over it."""

    layout: Layout
    scheduler: SchedulerOptions


def size_pool(
    shape: ModelShape, pool: PoolOptions, *, parents: int, host_parents: int, element_bytes: int,
    draft: ModelShape | None = None,
) -> SizedPool:  # fmt: skip
    """Return the pool with so many LCM parents on the device and on the host. Raises BadModel."""
    p = pool.prefix_granularity
    granularity = {
        name: pool.granularity.get(name, p if name == "full" else max(1, p // 2)) for name in shape.groups_in_order()
    }
    for name, g in granularity.items():
        if g < 1 or p % g:
            raise BadModel(f"group {name}: expected a block granularity that divides {p}, found {g}")
    if max(parents, host_parents) >= MOST_PAGES:
        raise BadModel(f"pool: expected fewer than {MOST_PAGES:,} LCM blocks, found {max(parents, host_parents):,}")
    replay = shape.declared_replay
    least = replay + max(replay, p) if replay else p if "M" in shape.pattern else 1
    if pool.max_scheduled_tokens < least:
        raise BadModel(f"chunk: expected at least {least} tokens a round, found {pool.max_scheduled_tokens}")
    layout = plan_layout(shape, granularity, element_bytes, draft)
    scheduler = SchedulerOptions(
        groups=tuple(shape.group_options(g.name, g.granularity, g.packing) for g in layout.groups),
        prefix_granularity=p,
        max_scheduled_tokens=pool.max_scheduled_tokens,
        max_batch_size=pool.max_batch_size,
        num_device_pages=parents + 1,
        num_host_pages=host_parents + 1 if host_parents else 0,
        decode_input_tokens=pool.decode_input_tokens,
        overlap_schedule_depth=pool.overlap_schedule_depth,
        role=pool.role,
        mixed=pool.mixed,
        prefix_cache=pool.prefix_cache,
        storage=pool.storage,
    )
    return SizedPool(layout, scheduler)


def parents_for_budget(
    shape: ModelShape, pool: PoolOptions, budget_bytes: int, workspace_bytes: int, element_bytes: int,
    draft: ModelShape | None = None,
) -> int:  # fmt: skip
    """Return how many usable LCM parents a byte budget gives. Raises BadModel when it gives none."""
    layout = size_pool(shape, pool, parents=1, host_parents=0, element_bytes=element_bytes, draft=draft).layout
    parents = (budget_bytes - workspace_bytes) // layout.parent_bytes - 1
    if parents < 1:
        need = workspace_bytes + 2 * layout.parent_bytes
        raise BadModel(f"memory budget: expected at least {need:,} bytes, found {budget_bytes:,}")
    return int(parents)


def capacity_tokens(sized: SizedPool, max_context_tokens: int) -> int:
    """Return the most tokens that a full batch may hold in all, by the capacity model; 0 when none fits."""
    model = compat.CapacityModel(_config(sized.scheduler))
    usable = sized.scheduler.num_device_pages - 1

    def need(tokens: int) -> int:
        return model.lcm_blocks_needed_for(model.concurrent_group_pages(tokens, min(tokens, max_context_tokens)))

    low, high = 0, 1
    while need(high) <= usable:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if need(middle) <= usable else (low, middle)
    return low


def single_request_tokens(sized: SizedPool) -> int:
    """Return the admission bound of one request."""
    return compat.CapacityModel(_config(sized.scheduler)).max_single_request_tokens(
        sized.scheduler.num_device_pages - 1
    )


def with_role(sized: SizedPool, role: Role) -> SizedPool:
    """Return the same pool for a node of a pair."""
    depth = 0 if role is Role.P else sized.scheduler.overlap_schedule_depth
    return replace(sized, scheduler=replace(sized.scheduler, role=role, overlap_schedule_depth=depth))


def _config(options: SchedulerOptions) -> Any:
    return options.build(cast(SchedulerModule, compat))
