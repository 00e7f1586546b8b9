"""Placing blocks on the host tier (`cache-rules.md` 8.4)."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.scheduler.cache.index import HostTier


def take_host(tier: HostTier, wanted: Sequence[int]) -> list[int]:
    """One host page per position of `wanted` (group ids), 0 where none could be had. May evict."""
    pages = [0] * len(wanted)
    unserved: dict[int, list[int]] = {}
    for position, group in enumerate(wanted):
        if tier.placeable(group):
            pages[position] = tier.take(group)
        else:
            unserved.setdefault(group, []).append(position)
    for group, positions in unserved.items():
        _evict_own(tier, group, len(positions))
        _serve(tier, group, positions, pages)
    if any(unserved.values()):
        _rebind(tier, wanted, unserved, pages)
    return pages


def _serve(tier: HostTier, group: int, positions: list[int], pages: list[int]) -> None:
    while positions and tier.placeable(group):
        pages[positions.pop(0)] = tier.take(group)


def _evict_own(tier: HostTier, group: int, count: int) -> None:
    for _ in range(count):
        key = tier.pop_evictable(group)
        if key is None:
            return
        tier.evict(group, key[-1])


def _rebind(tier: HostTier, wanted: Sequence[int], unserved: dict[int, list[int]], pages: list[int]) -> None:
    """Give whole parents of unpinned cache to other groups, the least valuable first."""
    order = sorted(
        (max(tier.eviction_key(tier.owner[p], page) for page in _children(tier, p)), p)
        for p in range(1, tier.fresh)
        if _is_clean(tier, p)
    )
    parents = [parent for _, parent in order]
    for position, group in enumerate(wanted):
        if pages[position]:
            continue
        while parents and not _is_clean(tier, parents[0]):
            parents.pop(0)
        if not parents:
            return
        parent = parents.pop(0)
        owner = tier.owner[parent]
        for page in _children(tier, parent):
            tier.evict(owner, page)
        _serve(tier, group, unserved[group], pages)


def _is_clean(tier: HostTier, parent: int) -> bool:
    return tier.owner[parent] >= 0 and not tier.busy[parent]


def _children(tier: HostTier, parent: int) -> list[int]:
    """Occupied children of a parent, as page ids of its group."""
    packing, holes = tier.packing[tier.owner[parent]], tier.holes[parent]
    first = 1 + (parent - 1) * packing
    return [first + child for child in range(packing) if not holes >> child & 1]
