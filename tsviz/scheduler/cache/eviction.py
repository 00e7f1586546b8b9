"""Whether an admission fits, and which cached pages must go for it (`cache-rules.md` 5 step 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tsviz.scheduler.cache.index import DeviceTier, Key


class Supply(NamedTuple):
    """What a pool can give: LCM blocks that any group may bind, and children in parents of each group."""

    blocks: int
    local_pages: tuple[int, ...]


class Shortage(NamedTuple):
    """A refusal for capacity, with its numbers."""

    need_pages: tuple[int, ...]
    """Per group, new device pages that the admission asks for."""
    free: Supply
    """What is there without eviction."""
    reachable: Supply
    """What is there after evicting everything that may be evicted for this request."""


def fits(needs: Sequence[int], packing: Sequence[int], local: Sequence[int], blocks: int) -> bool:
    """Whether every group's need fits in its own parents and the free ones."""
    for need, k, have in zip(needs, packing, local, strict=True):
        if need > have:
            blocks -= -(-(need - have) // k)
    return blocks >= 0


class _Shadow:
    """The pool as it would be after some evictions."""

    __slots__ = ("blocks", "left", "local", "needs", "tier")

    def __init__(self, tier: DeviceTier, needs: Sequence[int]) -> None:
        self.tier = tier
        self.needs = needs
        self.local = list(tier.local)
        self.blocks = tier.empty
        self.left: dict[int, int] = {}

    def fits(self) -> bool:
        return fits(self.needs, self.tier.packing, self.local, self.blocks)

    def take(self, key: Key) -> None:
        group, packing = key[-2], self.tier.packing[key[-2]]
        parent = (key[-1] - 1) // packing + 1
        left = self.left.get(parent, self.tier.occupied[parent]) - 1
        self.left[parent] = left
        if left:
            self.local[group] += 1
        else:
            self.local[group] -= packing - 1
            self.blocks += 1

    def put_back(self, key: Key) -> None:
        group, packing = key[-2], self.tier.packing[key[-2]]
        parent = (key[-1] - 1) // packing + 1
        left = self.left[parent]
        self.left[parent] = left + 1
        if left:
            self.local[group] -= 1
        else:
            self.local[group] += packing - 1
            self.blocks -= 1


def plan_eviction(
    tier: DeviceTier,
    needs: Sequence[int],
    protected: Iterable[tuple[int, int]],
    reclaim: Iterable[tuple[int, int]],
) -> list[Key] | Shortage:
    """The pages to evict, in order, so that `needs` (pages per group) fit, or a `Shortage`.

    `protected` are the (group, page) hits of the request, `reclaim` the pages its own progress will give up.
    The keys returned are out of the tier's order: evict them, or `push_back`. Where every page is an LCM block
    of its own, each victim gives one block, so how many there will be is known beforehand.
    """
    if fits(needs, tier.packing, tier.local, tier.empty):
        return []
    guarded = set(protected)
    extra = list(reclaim)
    reachable = _reach(tier, guarded, extra)
    if not fits(needs, tier.packing, reachable.local_pages, reachable.blocks):
        return Shortage(tuple(needs), Supply(tier.empty, tuple(tier.local)), reachable)
    if not extra and tier.unpacked:
        return tier.pop_many(sum(needs) - tier.empty, guarded)
    own = sorted((tier.eviction_key(*block) for block in extra), reverse=True)
    shadow = _Shadow(tier, needs)
    victims: list[Key] = []
    passed: list[Key] = []
    cached: Key | None = None
    while not shadow.fits():
        while cached is None:
            cached = tier.pop_evictable(0)
            if cached is None:
                break
            if cached[-2:] in guarded:
                passed.append(cached)
                cached = None
        if own and (cached is None or own[-1] < cached):
            key = own.pop()
        else:
            assert cached is not None
            key, cached = cached, None
        shadow.take(key)
        victims.append(key)
    if cached is not None:
        passed.append(cached)
    if not tier.unpacked:
        victims = _thin(shadow, victims, passed, set(extra))
    for key in passed:
        tier.push_back(key)
    return victims


def _thin(shadow: _Shadow, victims: list[Key], passed: list[Key], own: set[tuple[int, int]]) -> list[Key]:
    """Spare every victim without which the rest still suffices, from the last taken to the first."""
    kept: list[Key] = []
    for key in reversed(victims):
        shadow.put_back(key)
        if shadow.fits():
            if (key[-2], key[-1]) not in own:
                passed.append(key)
            continue
        shadow.take(key)
        kept.append(key)
    kept.reverse()
    return kept


def _reach(tier: DeviceTier, guarded: set[tuple[int, int]], own: list[tuple[int, int]]) -> Supply:
    """The supply once every page that may go is gone, from the live counters."""
    blocks, local = tier.available, list(tier.reach_local)
    change: dict[tuple[int, int], int] = {}
    for group, page in guarded:
        if tier.is_unpinned(group, page):
            parent = (page - 1) // tier.packing[group] + 1
            change[group, parent] = change.get((group, parent), 0) + 1
    for group, page in own:
        parent = (page - 1) // tier.packing[group] + 1
        change[group, parent] = change.get((group, parent), 0) - 1
    for (group, parent), delta in change.items():
        packing, busy = tier.packing[group], tier.busy[parent]
        if busy:
            local[group] -= packing - busy
        else:
            blocks -= 1
        if busy + delta:
            local[group] += packing - busy - delta
        else:
            blocks += 1
    return Supply(blocks, tuple(local))
