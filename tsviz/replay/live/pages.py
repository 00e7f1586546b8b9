"""The pages of a tier at a stop, as columns by page id."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from operator import is_, itemgetter
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.scheduler.cache.geometry import FULL, Group, groups_of
from tsviz.scheduler.cache.index import CHUNK, Entry
from tsviz.scheduler.config import Config
from tsviz.scheduler.snapshot import TierState

Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]
KINDS = ("chunk", "endpoint", "promoted")
"""Kinds of cached pages, by number."""


@dataclass(frozen=True, slots=True, eq=False)
class LivePages:
    """The pages of one group in one tier. Arrays by page id; 0 is the null page."""

    group: str
    packing: int
    """Pages in an LCM block: page p lies in block (p - 1) // packing + 1."""
    owners: Ints
    """How many own the page: tables, the index, operations. 0: free."""
    tables: Ints
    """How many block tables have it; above 1 it is shared."""
    holder: Ints
    """Submission of one request whose table has it; -1 for none."""
    kind: Ints
    """What it is cached as (`KINDS`); -1 when it is not cached."""
    epoch: Longs
    """When it was last used, on the access clock; -1 when it is not cached."""
    registered: Longs
    """Its number in order of registration; -1 when it is not cached."""
    acquired: Ints
    """1 when a request has hit it, 0 when not, -1 when it is not cached."""
    eviction: Ints
    """Its turn among the pages that could be evicted now, 0 goes first (device: over all groups); -1: it could not."""
    ticket: Longs
    """An operation that pins it; -1 for none."""


@dataclass(frozen=True, slots=True, eq=False)
class LiveTier:
    """A pool at a stop. `block_*` by LCM block; those behind the end were never used."""

    name: str
    blocks: int
    """Blocks that can be used."""
    empty_blocks: int
    block_group: Ints
    """Which group a block is bound to; -1: none."""
    block_pages: Ints
    """Pages of it that are occupied."""
    block_tables: Ints
    """References of block tables to pages of it."""
    groups: tuple[LivePages, ...]


def tier_of(
    name: str,
    tier: TierState,
    config: Config,
    tables: Sequence[tuple[int, int, Ints]],
    pins: Sequence[tuple[int, int, int]],
) -> LiveTier:
    """Return the pages of a tier; `tables` as (group, submission, pages), `pins` as (group, page, op id)."""
    groups = groups_of(config)
    parents = (config.num_device_pages if name == "device" else config.num_host_pages) - 1
    pages = []
    for group in groups:
        mine = [(submission, listed) for at, submission, listed in tables if at == group.index]
        pinned = [(page, op_id) for at, page, op_id in pins if at == group.index]
        pages.append(_pages(group, tier.refs[group.index], tier.entries[group.index], mine, pinned))
    _turns(name, groups, [tier.entries[group.index] for group in groups], pages)
    return LiveTier(
        name, parents, parents - tier.fresh + 1 + len(tier.returned), np.array(tier.owner, np.int32),
        np.array(tier.occupied, np.int32), np.array(tier.tabled, np.int32), tuple(pages),
    )  # fmt: skip


def _pages(
    group: Group,
    refs: tuple[int, ...],
    entries: tuple[Entry | None, ...],
    tables: list[tuple[int, Ints]],
    pins: list[tuple[int, int]],
) -> LivePages:
    size = len(refs)
    counts, holder = np.zeros(size, np.int32), np.full(size, -1, np.int32)
    for submission, listed in tables:
        real = listed[listed > 0]
        counts[real] += 1
        holder[real] = submission
    epoch, kind, _, acquired, registered = _columns(group.index, entries)
    ticket = np.full(size, -1, np.int64)
    for page, op_id in pins:
        ticket[page] = op_id
    owners = np.array(refs, np.int32)
    eviction = np.full(size, -1, np.int32)
    return LivePages(
        group.group_id, group.packing, owners, counts, holder, kind.astype(np.int32), epoch, registered,
        acquired.astype(np.int32), eviction, ticket,
    )  # fmt: skip


_Entries = tuple[Entry | None, ...]
_KEPT = 4
_kept: OrderedDict[tuple[int, int], tuple[_Entries, Longs]] = OrderedDict()
"""The last entries of a group in a pool of a size, with their columns: the next state has nearly all of them too."""


def _columns(group: int, entries: _Entries) -> Longs:
    """Return epoch, kind, slot, acquired and order of every page's entry; -1 for none."""
    size = len(entries)
    key = group, size
    before = _kept.get(key)
    if before is not None:
        columns = before[1].copy()
        changed = np.flatnonzero(~np.fromiter(map(is_, entries, before[0]), np.bool_, size)).tolist()
    if before is None or len(changed) > size // 4:
        columns, changed = np.full((5, size), -1, np.int64), list(range(size))
    columns[:, changed] = -1
    there = [page for page in changed if entries[page] is not None]
    places = np.array(there, np.intp)
    found: list[Any] = [entries[page] for page in there]
    for field, row in enumerate(columns, 2):
        row[places] = np.fromiter(map(itemgetter(field), found), np.int64, len(there))
    _kept[key] = entries, columns
    _kept.move_to_end(key)
    while len(_kept) > _KEPT:
        _kept.popitem(last=False)
    return columns


def _turns(
    name: str, groups: Sequence[Group], entries: Sequence[tuple[Entry | None, ...]], pages: list[LivePages]
) -> None:
    """Number the pages that could be evicted in the order of `cache-rules.md` 5 (device) and 8.4 (host, by group)."""
    keys: list[npt.NDArray[np.int64]] = []
    for group, known, columns in zip(groups, entries, pages, strict=True):
        free = np.flatnonzero((columns.kind >= 0) & (columns.owners == 1)).astype(np.int64)
        if name == "host":
            order = np.lexsort((free, columns.epoch[free], columns.acquired[free]))
            columns.eviction[free[order]] = np.arange(len(free))
            continue
        slot = _columns(group.index, known)[2][free]
        if group.kind == FULL:
            tier, position = np.full(len(free), 3), np.where(slot >= 0, -slot, 0)
        else:
            early = (columns.kind[free] == CHUNK) & (columns.acquired[free] == 0) & (slot >= 0)
            tier, position = np.where(early, 1, 2), np.where(early, slot, 0)
        keys.append(np.stack([columns.epoch[free], tier, position, np.full(len(free), group.index), free]))
    if keys:
        joined = np.concatenate(keys, axis=1)
        order = np.lexsort(joined[::-1])
        turn_of = np.empty(len(order), np.int32)
        turn_of[order] = np.arange(len(order))
        for group in groups:
            mine = joined[3] == group.index
            pages[group.index].eviction[joined[4][mine]] = turn_of[mine]
