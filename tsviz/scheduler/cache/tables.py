"""A request's block table in one group, and how much it must grow (`cache-rules.md` 2.3)."""

from __future__ import annotations

from array import array
from typing import Final, NamedTuple

from tsviz.scheduler.cache.geometry import Group
from tsviz.scheduler.cache.index import Tier

DENSE: Final = 0
SPARSE: Final = 1

TableView = tuple["array[int]", int, int]
"""A table as a plan sees it: append-only pages, how many of them, how many leading ones are holes."""


class Demand(NamedTuple):
    """What one group must hold after an admission."""

    shape: int
    tokens: int
    """Dense: tokens appended. Sparse: extent, the absolute end of the suffix."""
    first_slot: int
    """Sparse: first real slot of the suffix."""
    reserve_tokens: int


class Table:
    """Slots of one request in one group. Pages are only ever appended, so that plans can share them.

    Slots below `frontier` are holes whatever `pages` says there; later holes are zeros.
    """

    __slots__ = ("available", "frontier", "pages")

    def __init__(self) -> None:
        """An empty table."""
        self.pages: array[int] = array("i")
        self.available = 0
        self.frontier = 0

    def view(self) -> TableView:
        """The table as an immutable value."""
        return (self.pages, len(self.pages), self.frontier)

    def replace(self, slot: int, page: int) -> None:
        """Point a slot at the canonical page; copies, because plans share the pages."""
        pages = self.pages[:]
        pages[slot] = page
        self.pages = pages


def blocks_needed(group: Group, table: Table, demand: Demand) -> int:
    """New blocks the demand needs on the table as it stands. Raises RuntimeError on an empty suffix."""
    g = group.granularity_tokens
    shape, tokens, first, reserve = demand
    if shape == DENSE:
        short = tokens + reserve - table.available
        return -(-short // g) if short > 0 else 0
    last = (tokens + reserve - 1) // g
    if first > last:
        raise RuntimeError("materialized suffix starts beyond the requested extent")
    return last - first + 1


def grow(tier: Tier, group: Group, table: Table, demand: Demand) -> list[int]:
    """Extend the table by the demand and return the fresh pages in slot order. The capacity must be there."""
    g = group.granularity_tokens
    count = blocks_needed(group, table, demand)
    fresh = place(tier, group, table, count)
    if demand.shape == DENSE:
        table.pages.extend(fresh)
        table.available += len(fresh) * g - demand.tokens
        return fresh
    if table.available or len(table.pages) > demand.first_slot:
        raise RuntimeError("sparse suffix needs a table without unconsumed tail")
    if not table.pages:
        table.frontier = demand.first_slot
    table.pages.extend([0] * (demand.first_slot - len(table.pages)))
    table.pages.extend(fresh)
    table.available = len(table.pages) * g - demand.tokens
    return fresh


def place(tier: Tier, group: Group, table: Table, count: int) -> list[int]:
    """Place `count` children for a request table, balanced over the shards when the group has some."""
    index = group.index
    if not count:
        return []
    if group.packing == 1:
        return tier.take_singles(index, count)
    if group.shards == 1:
        fresh = [tier.take(index) for _ in range(count)]
    else:
        loads = [0] * group.shards
        for page in table.pages[table.frontier :]:
            if page:
                loads[(page - 1) % group.packing % group.shards] += 1
        fresh = [tier.take_balanced(index, loads) for _ in range(count)]
    for page in fresh:
        tier.hold(index, page)
    return fresh


def expired_slots(group: Group, computed_tokens: int) -> int:
    """Leading slots that no later query reads once `computed_tokens` are computed (`cache-rules.md` 6)."""
    if not group.window_tokens:
        return 0
    return max(0, computed_tokens - group.window_tokens + 1) // group.granularity_tokens


def reclaim(tier: Tier, group: Group, table: Table, computed_tokens: int) -> int:
    """Drop the expired slots of a table; returns how many blocks lost this owner."""
    end = min(expired_slots(group, computed_tokens), len(table.pages))
    dropped = 0
    if end <= table.frontier:
        return dropped
    for slot in range(table.frontier, end):
        page = table.pages[slot]
        if page:
            tier.unhold(group.index, page)
            tier.release(group.index, page)
            dropped += 1
    table.frontier = end
    return dropped


def reclaimable(tier: Tier, group: Group, table: Table, computed_tokens: int) -> list[int]:
    """Pages that a reclaim would leave without any owner but the index."""
    end = min(expired_slots(group, computed_tokens), len(table.pages))
    out: list[int] = []
    if end <= table.frontier:
        return out
    index = group.index
    for slot in range(table.frontier, end):
        page = table.pages[slot]
        if page and tier.refs[index][page] == (1 if tier.entries[index][page] is None else 2):
            out.append(page)
    return out


def free(tier: Tier, groups: tuple[Group, ...], tables: list[Table]) -> None:
    """Release whole tables: groups ascending, last slot first."""
    for group, table in zip(groups, tables, strict=True):
        index = group.index
        pages = table.pages[table.frontier :]
        pages.reverse()
        if group.packing == 1:
            tier.release_singles(index, pages)
            continue
        for page in pages:
            if page:
                tier.unhold(index, page)
                tier.release(index, page)


def releasable_blocks(tier: Tier, groups: tuple[Group, ...], tables: list[Table]) -> int:
    """LCM blocks that would become reclaimable if exactly these references were dropped."""
    count = 0
    for group, table in zip(groups, tables, strict=True):
        index, packing = group.index, group.packing
        refs, entries = tier.refs[index], tier.entries[index]
        if packing == 1:
            for page in table.pages[table.frontier :]:
                if page and refs[page] == (1 if entries[page] is None else 2):
                    count += 1
            continue
        freed: dict[int, int] = {}
        for page in table.pages[table.frontier :]:
            if page and refs[page] == (1 if entries[page] is None else 2):
                parent = (page - 1) // packing + 1
                freed[parent] = freed.get(parent, 0) + 1
        for parent, children in freed.items():
            if children == tier.occupied[parent]:
                count += 1
    return count
