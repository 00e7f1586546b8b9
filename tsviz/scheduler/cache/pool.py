"""A pool of LCM blocks: binding, placement, release (`cache-rules.md` 2).

A parent is an LCM block, a child one page in it. `busy` counts the children of a parent that cannot be
evicted now; it keeps the supply an eviction could reach (`reach_local`, `clean`) live: no admission scans.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from heapq import heappop, heappush


class Pool:
    """Parents 1..n of one tier and the children bound in them. Page ids are `1 + (parent-1)*K + child`."""

    __slots__ = (
        "active",
        "busy",
        "clean",
        "dense",
        "fresh",
        "holes",
        "listed",
        "local",
        "occupied",
        "owner",
        "packing",
        "parents",
        "reach_local",
        "refs",
        "returned",
        "sharing",
        "tabled",
        "unpacked",
    )

    def __init__(self, packing: Sequence[int], parents: int) -> None:
        """An empty pool of `parents` LCM blocks for groups with these packings."""
        count = len(packing)
        self.packing = tuple(packing)
        self.unpacked = all(k == 1 for k in packing)
        """Whether every page is an LCM block of its own."""
        self.parents = parents
        self.fresh = 1
        self.returned: deque[int] = deque()
        self.owner = [-1]
        self.occupied = [0]
        self.holes = [0]
        self.busy = [0]
        self.tabled = [0]
        self.refs: list[list[int]] = [[0] for _ in packing]
        self.local = [0] * count
        self.reach_local = [0] * count
        self.clean = 0
        self.active = 0
        self.sharing = 0
        """Moves whenever a page in a live table gains or loses another owner."""
        self.dense: list[list[list[int]]] = [[[] for _ in range(k)] for k in packing]
        self.listed: list[list[set[int]]] = [[set() for _ in range(k)] for k in packing]

    @property
    def empty(self) -> int:
        """Parents that no group holds."""
        return self.parents - self.fresh + 1 + len(self.returned)

    @property
    def available(self) -> int:
        """Parents that are empty or hold nothing but unpinned cache."""
        return self.empty + self.clean

    def placeable(self, group: int) -> int:
        """Children of `group` that can be placed without eviction."""
        return self.empty * self.packing[group] + self.local[group]

    def take(self, group: int) -> int:
        """Place one child, densest parent first, and return its page id with one owner."""
        if not self.local[group]:
            return self._occupy(group, self._open(group), 0)
        parent = self._densest(group)
        mask = self.holes[parent]
        return self._occupy(group, parent, (mask & -mask).bit_length() - 1)

    def take_singles(self, group: int, count: int) -> list[int]:
        """Place `count` children of a group of packing 1 for a table: whole LCM blocks, held by the table.

        The same as `take` and `hold` page by page; no counter but `active` moves, since a block that is full
        at once has no empty child and is busy. Written out because prefill takes hundreds of pages a round.
        """
        first = self.fresh
        new = min(count, self.parents - first + 1)
        pages = list(range(first, first + new))
        if new:
            self.fresh = first + new
            self.owner += [group] * new
            self.occupied += [1] * new
            self.holes += [0] * new
            self.busy += [1] * new
            self.tabled += [1] * new
            short = first + new - len(self.refs[group])
            if short > 0:
                self._grow(group, short)
            self.refs[group][first : first + new] = [1] * new
        refs = self.refs[group]
        for _ in range(count - new):
            parent = self.returned.popleft()
            self.owner[parent] = group
            self.occupied[parent] = 1
            self.holes[parent] = 0
            self.busy[parent] = 1
            self.tabled[parent] = 1
            if parent >= len(refs):
                self._grow(group, parent + 1 - len(refs))
            refs[parent] = 1
            pages.append(parent)
        self.active += count
        return pages

    def take_balanced(self, group: int, loads: list[int]) -> int:
        """Place one child in the least loaded shard that has room, and count it in `loads`."""
        shards = len(loads)
        if not self.local[group]:
            child = min(range(shards), key=lambda s: (loads[s], s))
            loads[child] += 1
            return self._occupy(group, self._open(group), child)
        best: tuple[int, int, int, int] | None = None
        for occupancy, listed in enumerate(self.listed[group]):
            for parent in listed:
                if self.owner[parent] != group or self.occupied[parent] != occupancy:
                    continue
                for child in self._holes_by_shard(group, parent, shards):
                    shard = child % shards
                    key = (loads[shard], shard, -occupancy, parent)
                    if best is None or key < best:
                        best = key
        assert best is not None
        parent, shard = best[3], best[1]
        child = next(c for c in self._holes_by_shard(group, parent, shards) if c % shards == shard)
        loads[shard] += 1
        return self._occupy(group, parent, child)

    def _holes_by_shard(self, group: int, parent: int, shards: int) -> list[int]:
        """The lowest empty child of each shard that has one."""
        mask = self.holes[parent]
        firsts: dict[int, int] = {}
        for child in range(self.packing[group]):
            if mask >> child & 1:
                firsts.setdefault(child % shards, child)
        return list(firsts.values())

    def hold(self, group: int, page: int) -> None:
        """Count a table's reference to the page's parent."""
        parent = (page - 1) // self.packing[group] + 1
        self.tabled[parent] += 1
        if self.tabled[parent] == 1:
            self.active += 1

    def unhold(self, group: int, page: int) -> None:
        """Drop a table's reference to the page's parent."""
        parent = (page - 1) // self.packing[group] + 1
        self.tabled[parent] -= 1
        if not self.tabled[parent]:
            self.active -= 1

    def _open(self, group: int) -> int:
        """Bind the front of the free queue to `group`."""
        packing = self.packing[group]
        if self.fresh <= self.parents:
            parent = self.fresh
            self.fresh = parent + 1
            self.owner.append(group)
            self.occupied.append(0)
            self.holes.append((1 << packing) - 1)
            self.busy.append(0)
            self.tabled.append(0)
        else:
            parent = self.returned.popleft()
            self.owner[parent] = group
            self.holes[parent] = (1 << packing) - 1
        short = parent * packing + 1 - len(self.refs[group])
        if short > 0:
            self._grow(group, short)
        self.local[group] += packing
        self.clean += 1
        return parent

    def _grow(self, group: int, pages: int) -> None:
        self.refs[group].extend([0] * pages)

    def _densest(self, group: int) -> int:
        dense, listed = self.dense[group], self.listed[group]
        for occupancy in range(self.packing[group] - 1, 0, -1):
            heap = dense[occupancy]
            while heap:
                parent = heap[0]
                if self.owner[parent] == group and self.occupied[parent] == occupancy:
                    return parent
                heappop(heap)
                listed[occupancy].discard(parent)
        raise AssertionError("a group with empty children has a bound parent")

    def _list(self, group: int, parent: int, occupancy: int) -> None:
        """Make a partly used parent findable by its occupancy."""
        if 0 < occupancy < self.packing[group] and parent not in self.listed[group][occupancy]:
            self.listed[group][occupancy].add(parent)
            heappush(self.dense[group][occupancy], parent)

    def _occupy(self, group: int, parent: int, child: int) -> int:
        packing = self.packing[group]
        self.local[group] -= 1
        self.holes[parent] &= ~(1 << child)
        occupancy = self.occupied[parent] + 1
        self.occupied[parent] = occupancy
        if packing > 1:
            self._list(group, parent, occupancy)
        self.busy_up(group, parent)
        page = 1 + (parent - 1) * packing + child
        self.refs[group][page] = 1
        return page

    def vacate(self, group: int, page: int) -> None:
        """Return an occupied child without owners to its parent; unbind the parent with its last child."""
        packing = self.packing[group]
        parent = (page - 1) // packing + 1
        occupancy = self.occupied[parent] - 1
        self.occupied[parent] = occupancy
        if not occupancy:
            self.local[group] -= packing - 1
            self.clean -= 1
            self.owner[parent] = -1
            self.returned.append(parent)
            return
        self.holes[parent] |= 1 << ((page - 1) % packing)
        self.local[group] += 1
        self._list(group, parent, occupancy)

    def busy_up(self, group: int, parent: int) -> None:
        """One more child of the parent cannot be evicted."""
        busy = self.busy[parent]
        self.busy[parent] = busy + 1
        if busy:
            self.reach_local[group] -= 1
        else:
            self.clean -= 1
            self.reach_local[group] += self.packing[group] - 1

    def busy_down(self, group: int, parent: int) -> None:
        """One child less of the parent is beyond eviction."""
        busy = self.busy[parent] - 1
        self.busy[parent] = busy
        if busy:
            self.reach_local[group] += 1
        else:
            self.clean += 1
            self.reach_local[group] -= self.packing[group] - 1
