"""What only the scheduler itself knows of its pages: the prefix index, and the order in which it would evict.

Read from a re-executed scheduler that stands behind the plan of the map's round (architecture.md, section 6, *Live
state*); laid over the recorded map it leaves nothing unknown.
"""

from __future__ import annotations

from array import array
from dataclasses import replace

from tsviz.scheduler.cache.index import KIND_NAMES, DeviceTier
from tsviz.scheduler.scheduler import Scheduler

from . import pages_values as v
from .pages_values import CachedPage, PagesMap


def index_entries(scheduler: Scheduler) -> dict[tuple[int, int], CachedPage]:
    """Return every entry of the device's prefix index by (group, page), with its place in the eviction order."""
    device = scheduler.cache.device
    unpinned = [
        device.eviction_key(group, page)
        for group, entries in enumerate(device.entries)
        for page, entry in enumerate(entries)
        if entry is not None and device.is_unpinned(group, page)
    ]
    recency = {key[-2:]: place for place, key in enumerate(sorted(unpinned))}
    return {
        (group, page): CachedPage(KIND_NAMES[entry.kind], entry.epoch, entry.acquired, recency.get((group, page), -1))
        for group, entries in enumerate(device.entries)
        for page, entry in enumerate(entries)
        if entry is not None
    }


def with_live(pages: PagesMap, scheduler: Scheduler) -> PagesMap:
    """Return the map with caching and bindings as the scheduler has them; it must stand behind the map's round."""
    device, entries = scheduler.cache.device, index_entries(scheduler)
    parents = array("b", pages.parents)
    for parent in range(1, len(parents)):
        parents[parent] = _binding(device, parent)
    codes = [bytearray(each) for each in pages.codes]
    for group, cells in enumerate(codes):
        for page in range(1, len(cells)):
            if cells[page] in (v.UNKNOWN, v.CACHED, v.EMPTY):
                cells[page] = v.CACHED if (group, page) in entries else v.EMPTY
    counts = []
    for group, cells in enumerate(codes):
        found = {name: cells[1:].count(code) for code, name in enumerate(v.CODES)}
        packing = pages.groups[group].packing
        found["empty"] = sum(
            cells[1 + (p - 1) * packing : 1 + p * packing].count(v.EMPTY)
            for p in range(1, len(parents)) if parents[p] == group
        )  # fmt: skip
        counts.append({name: count for name, count in found.items() if count})
    return replace(
        pages, parents=parents, codes=tuple(map(bytes, codes)), counts=tuple(counts), unknown_parents=0,
        unknown_cached=0, source="live", live=entries,
    )  # fmt: skip


def _binding(device: DeviceTier, parent: int) -> int:
    bound = parent < len(device.owner) and device.occupied[parent] > 0
    return device.owner[parent] if bound else v.UNBOUND
