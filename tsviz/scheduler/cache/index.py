"""One tier: a pool, its index of cached pages, and the order in which they would be evicted.

Implements `cache-rules.md` 4.2 (entries) and the orders of 5 (device) and 8.4 (host). Heaps hold one key for
each page that became unpinned; a key that no longer describes its page is dropped when it surfaces.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from tsviz.scheduler.cache.geometry import FULL, Group
from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.pool import Pool
from tsviz.scheduler.decisions import Eviction, Log
from tsviz.scheduler.errors import InvariantError

CHUNK: Final = 0
ENDPOINT: Final = 1
PROMOTED: Final = 2
KIND_NAMES: Final = ("chunk", "endpoint", "promoted")

Key = tuple[int, ...]
"""An eviction key: what decides first, with group and page last."""


class Entry(NamedTuple):
    """A cached page of one group in one tier."""

    digest: Digest
    offset: int
    epoch: int
    kind: int
    slot: int
    acquired: bool
    order: int
    """Registration number in its tier."""


_new_entry = tuple.__new__


class Tier(Pool):
    """A pool whose pages can be cached under (digest, offset) keys."""

    name = ""

    __slots__ = (
        "entries",
        "evictable",
        "groups",
        "heaps",
        "log",
        "loose",
        "on_change",
        "pushed",
        "registered",
        "where",
    )

    def __init__(self, groups: Sequence[Group], parents: int) -> None:
        """An empty tier of `parents` LCM blocks."""
        super().__init__([group.packing for group in groups], parents)
        self.groups = tuple(groups)
        self.where: list[list[dict[Digest, int]]] = [[{} for _ in range(g.per_page)] for g in groups]
        self.entries: list[list[Entry | None]] = [[None] for _ in groups]
        self.pushed: list[list[Key | None]] = [[None] for _ in groups]
        self.heaps: list[list[Key]] = self._make_heaps(len(groups))
        """By group; a tier with one order over all groups has the same list everywhere."""
        self.loose: list[list[int]] = [[] for _ in groups]
        """Unpinned pages that are not in the order yet."""
        self.evictable = 0
        self.registered = 0
        self.on_change: Callable[[Digest, int], None] | None = None
        self.log: Log | None = None

    def _grow(self, group: int, pages: int) -> None:
        self.refs[group].extend([0] * pages)
        self.entries[group].extend([None] * pages)
        self.pushed[group].extend([None] * pages)

    def lookup(self, group: int, digest: Digest, offset: int) -> int:
        """Page cached under the key, or 0."""
        return self.where[group][offset].get(digest, 0)

    def acquire(self, group: int, page: int) -> None:
        """Add an owner to an occupied page."""
        refs = self.refs[group]
        count = refs[page]
        refs[page] = count + 1
        if self.tabled[(page - 1) // self.packing[group] + 1]:
            self.sharing += 1
        if count == 1 and self.entries[group][page] is not None:
            self.evictable -= 1
            self.busy_up(group, (page - 1) // self.packing[group] + 1)

    def release(self, group: int, page: int) -> None:
        """Drop an owner; a page without owners returns to its pool."""
        refs = self.refs[group]
        count = refs[page] - 1
        refs[page] = count
        if count == 0:
            if self.entries[group][page] is not None:
                raise InvariantError(f"index entry without owner: group {group} page {page}")
            self.busy_down(group, (page - 1) // self.packing[group] + 1)
            self.vacate(group, page)
        elif count == 1:
            if self.entries[group][page] is not None:
                self.busy_down(group, (page - 1) // self.packing[group] + 1)
                self.evictable += 1
                self.requeue(group, page)
            else:
                self.sharing += 1
        elif count > 1:
            self.sharing += 1
        else:
            raise InvariantError(f"release of an unoccupied child: group {group} page {page}")

    def release_singles(self, group: int, pages: Iterable[int]) -> None:
        """A table of a group of packing 1 gives up its pages, holes (0) skipped.

        The same as `unhold` and `release` page by page, where the page is its own LCM block; written out
        because whole tables go this way.
        """
        refs, entries, tabled = self.refs[group], self.entries[group], self.tabled
        busy, loose = self.busy, self.loose[group]
        for page in pages:
            if not page:
                continue
            tabled[page] -= 1
            if not tabled[page]:
                self.active -= 1
            count = refs[page] - 1
            refs[page] = count
            if count > 1:
                self.sharing += 1
                continue
            cached = entries[page] is not None
            if count == 1:
                if cached:
                    busy[page] = 0
                    self.clean += 1
                    self.evictable += 1
                    loose.append(page)
                else:
                    self.sharing += 1
            elif cached or count < 0:
                raise InvariantError(f"release of an unowned child: group {group} page {page}")
            else:
                busy[page] = self.occupied[page] = 0
                self.owner[page] = -1
                self.returned.append(page)

    def register(
        self, group: int, page: int, digest: Digest, offset: int, epoch: int, kind: int, slot: int
    ) -> tuple[int, bool]:
        """Cache a page that the caller owns.

        Returns the canonical page of the key and whether an entry was inserted. When the canonical page is
        another one, the caller must take a reference to it and drop its own.
        """
        entries = self.entries[group]
        entry = entries[page]
        if entry is not None:
            if entry.digest != digest or entry.offset != offset:
                raise RuntimeError(f"cached block re-registered under another key: group {group} page {page}")
            entries[page] = entry._replace(kind=max(entry.kind, kind), epoch=epoch)
            return page, False
        where = self.where[group][offset]
        other = where.get(digest, 0)
        if other:
            entry = entries[other]
            assert entry is not None
            entries[other] = entry._replace(kind=max(entry.kind, kind), epoch=epoch)
            return other, False
        where[digest] = page
        self.registered += 1
        entries[page] = Entry(digest, offset, epoch, kind, slot, False, self.registered)
        self.refs[group][page] += 1
        if self.on_change is not None:
            self.on_change(digest, 1)
        return page, True

    def insert_run(
        self,
        group: int,
        pages: Sequence[int],
        slots: Iterable[int],
        chain: Sequence[Digest],
        epoch: int,
        kind: int,
    ) -> tuple[list[int], list[int]]:
        """Cache the pages of these table slots, holes (0) skipped, where nothing stands in the way.

        Returns the slots inserted, and those that need `register`: key cached or entry changed.
        """
        refs, entries, where = self.refs[group], self.entries[group], self.where[group]
        r, watch = len(where), self.on_change
        order = self.registered
        inserted, left = [], []
        for slot in slots:
            page = pages[slot]
            if not page:
                continue
            digest, offset = (chain[slot], 0) if r == 1 else (chain[slot // r], slot % r)
            entry = entries[page]
            if entry is not None:
                if entry[2] != epoch or entry[3] < kind or entry[0] != digest or entry[1] != offset:
                    left.append(slot)
                continue
            if digest in where[offset]:
                left.append(slot)
                continue
            order += 1
            where[offset][digest] = page
            entries[page] = _new_entry(Entry, (digest, offset, epoch, kind, slot, False, order))
            refs[page] += 1
            inserted.append(slot)
            if watch is not None:
                watch(digest, 1)
        self.registered = order
        return inserted, left

    def hit(self, group: int, page: int, epoch: int) -> None:
        """Take a reference to a cached page as a hit."""
        self.acquire(group, page)
        entry = self.entries[group][page]
        assert entry is not None
        if not entry.acquired or entry.epoch != epoch:
            self.entries[group][page] = entry._replace(epoch=epoch, acquired=True)

    def is_unpinned(self, group: int, page: int) -> bool:
        """Whether only the index owns the page."""
        return self.entries[group][page] is not None and self.refs[group][page] == 1

    def evict(self, group: int, page: int) -> None:
        """Remove the entry of an unpinned page and free it."""
        entry = self.entries[group][page]
        assert entry is not None and self.refs[group][page] == 1
        del self.where[group][entry.offset][entry.digest]
        self.entries[group][page] = None
        self.pushed[group][page] = None
        self.refs[group][page] = 0
        self.evictable -= 1
        self.vacate(group, page)
        if self.on_change is not None:
            self.on_change(entry.digest, -1)
        if self.log is not None:
            kind = KIND_NAMES[entry.kind]
            self.log.tell(Eviction(self.name, group, page, kind, entry.epoch, entry.acquired))

    def evict_unpinned(self, keys: Iterable[Key]) -> list[Key]:
        """Evict the pages of these keys that only the index owns; returns the keys of the others.

        The same as `evict` page by page where pages are LCM blocks, written out because a full pool evicts a
        page for every page that it gives.
        """
        left: list[Key] = []
        if not self.unpacked or self.on_change is not None or self.log is not None:
            for key in keys:
                if self.is_unpinned(key[-2], key[-1]):
                    self.evict(key[-2], key[-1])
                else:
                    left.append(key)
            return left
        gone = 0
        for key in keys:
            group, page = key[-2], key[-1]
            entries, refs = self.entries[group], self.refs[group]
            entry = entries[page]
            if entry is None or refs[page] != 1:
                left.append(key)
                continue
            del self.where[group][entry[1]][entry[0]]
            entries[page] = self.pushed[group][page] = None
            refs[page] = self.occupied[page] = 0
            self.owner[page] = -1
            self.returned.append(page)
            gone += 1
        self.evictable -= gone
        self.clean -= gone
        return left

    def evict_all(self) -> None:
        """Evict every entry: groups ascending, in order of registration."""
        for group, entries in enumerate(self.entries):
            cached = [(entry.order, page) for page, entry in enumerate(entries) if entry is not None]
            for _, page in sorted(cached):
                self.evict(group, page)

    def eviction_key(self, group: int, page: int) -> Key:
        """The order in which an unpinned page would be evicted: lowest first."""
        raise NotImplementedError

    def _make_heaps(self, groups: int) -> list[list[Key]]:
        raise NotImplementedError

    def requeue(self, group: int, page: int) -> None:
        """An unpinned page joins the eviction order, into which it is sorted when somebody wants to evict."""
        loose = self.loose[group]
        loose.append(page)
        if len(loose) > 64 + 2 * self.evictable:
            loose[:] = [p for p in dict.fromkeys(loose) if self.is_unpinned(group, p)]

    def _sort_in(self, group: int) -> None:
        """Give the pages that became unpinned their place in the order."""
        loose, heap, pushed = self.loose[group], self.heaps[group], self.pushed[group]
        entries, refs, key_of = self.entries[group], self.refs[group], self.eviction_key
        for page in loose:
            if refs[page] != 1 or entries[page] is None:
                continue
            key = key_of(group, page)
            if pushed[page] != key:
                pushed[page] = key
                heappush(heap, key)
        loose.clear()
        if len(heap) > 64 + 2 * self.evictable:
            heap[:] = [k for k in heap if self._is_current(k)]
            heapify(heap)

    def _is_current(self, key: Key) -> bool:
        group, page = key[-2], key[-1]
        if self.pushed[group][page] is not key:
            return False
        if self.is_unpinned(group, page):
            return True
        self.pushed[group][page] = None
        return False

    def pop_evictable(self, group: int) -> Key | None:
        """Take the first page out of the order that `group` is in, or None; `push_back` undoes it."""
        heap = self.heaps[group]
        for other, loose in enumerate(self.loose):
            if loose and self.heaps[other] is heap:
                self._sort_in(other)
        while heap:
            key = heappop(heap)
            if self._is_current(key):
                self.pushed[key[-2]][key[-1]] = None
                return key
        return None

    def pop_many(self, count: int, spared: Container[tuple[int, int]]) -> list[Key]:
        """Take the first `count` pages that are not spared out of the one order; there must be so many."""
        for group, loose in enumerate(self.loose):
            if loose:
                self._sort_in(group)
        heap, pushed, entries, refs = self.heaps[0], self.pushed, self.entries, self.refs
        taken: list[Key] = []
        passed: list[Key] = []
        while len(taken) < count:
            key = heappop(heap)
            group, page = key[-2], key[-1]
            if pushed[group][page] is not key:
                continue
            pushed[group][page] = None
            if refs[group][page] == 1 and entries[group][page] is not None:
                (passed if (group, page) in spared else taken).append(key)
        for key in passed:
            self.push_back(key)
        return taken

    def push_back(self, key: Key) -> None:
        """Return a key that `pop_evictable` gave out."""
        self.pushed[key[-2]][key[-1]] = key
        heappush(self.heaps[key[-2]], key)


class DeviceTier(Tier):
    """The device tier: one order over all groups."""

    __slots__ = ()
    name = "device"

    def _make_heaps(self, groups: int) -> list[list[Key]]:
        heap: list[Key] = []
        return [heap] * groups

    def eviction_key(self, group: int, page: int) -> Key:
        """(epoch, tier, position, group, page) of `cache-rules.md` 5 step 2."""
        entry = self.entries[group][page]
        if entry is None:
            return (0, 0, 0, group, page)
        if self.groups[group].kind == FULL:
            return (entry.epoch, 3, -entry.slot if entry.slot >= 0 else 0, group, page)
        if entry.kind == CHUNK and not entry.acquired and entry.slot >= 0:
            return (entry.epoch, 1, entry.slot, group, page)
        return (entry.epoch, 2, 0, group, page)


class HostTier(Tier):
    """The host tier: one order a group."""

    __slots__ = ()
    name = "host"

    def _make_heaps(self, groups: int) -> list[list[Key]]:
        return [[] for _ in range(groups)]

    def eviction_key(self, group: int, page: int) -> Key:
        """(acquired, epoch, group, page) of `cache-rules.md` 8.4."""
        entry = self.entries[group][page]
        assert entry is not None
        return (int(entry.acquired), entry.epoch, group, page)
