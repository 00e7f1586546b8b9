"""The pages map of any round, and a page's life: ownership from recorded table changes, caching from decisions.

Everything is columns over all rounds, made once (`Spells`, `Tickets`, `Gaps`); a round is then a few selections, so
that stepping over 50,000 pages costs milliseconds, forwards and backwards alike (debugger.md, section 1, *Pages*).
"""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.decided.view import DecidedTables
from tsviz.replay.recorded.lives import Lives
from tsviz.replay.rows.lifetimes import Lifetimes, Longs, column

from . import values as v
from .by_group import GroupSteps
from .cache import UNSETTLED, WAS_CACHED, WAS_EMPTY, Gaps, moment
from .counting import counts_of
from .host import HostHistory
from .life import page_life
from .live import LivePageSource
from .spells import Spells, host_layout_of, layout_of, mapped
from .start import Start
from .tickets import Tickets
from .values import GroupPool, PageGroup, PageLife, PagesMap
from .window import PagesPart

Ints = npt.NDArray[np.int32]


class PagesHistory:
    """The pages of one part, or of a stretch of it, at every round."""

    def __init__(
        self,
        part: PagesPart,
        life: Lifetimes | Lives,
        gone: Longs,
        live: LivePageSource,
        decided: tuple[DecidedTables, str, int] | None = None,
        start: Start | None = None,
    ) -> None:
        """`gone` are the keys (submission, round) of retractions, `live` is what a re-executed scheduler knows;
        `decided` are decision tables, where they come from, and their last round; `start` is what was cached where a
        slice begins. Raises `TraceError`.
        """
        self.start = start
        self.part, self._life, self.live = part, life, live
        self.layout = layout_of(part)
        self.groups = tuple(_group(group) for group in part.config["cache_groups"])
        self.spells = Spells(part, self.layout, life, gone)
        self.tickets = Tickets(part, self.layout)
        self._tables: DecidedTables | None
        self._tables, self.source, self.decided_round = decided or (None, "none", 0)
        self.gaps = Gaps(part, self.layout, self.spells, self.tickets, self._tables, self.decided_round, start)
        rounds = part.table("rounds")
        self._numbers, self._empty = column(rounds, "round"), column(rounds, "empty_pages")
        self._begun = part.meta.get("starts_at") is None or start is not None
        """Whether it is known what was cached before the first round."""
        self._ever = self._first_use()
        self._steps: dict[int, GroupSteps] = {}

    def _first_use(self) -> Longs:
        """Return, per page, the first round in which a table or an operation held it."""
        first = np.full(self.layout.size, np.iinfo(np.int64).max, np.int64)
        np.minimum.at(first, self.spells.number, self.spells.from_round)
        np.minimum.at(first, self.tickets.number, self.tickets.from_round)
        return first

    def at(self, round_: int) -> PagesMap:
        """Return the map behind the plan of a round (clamped to the trace)."""
        index = int(np.clip(np.searchsorted(self._numbers, round_), 0, max(len(self._numbers) - 1, 0)))
        number = int(self._numbers[index]) if len(self._numbers) else 0
        empty = int(self._empty[index]) if len(self._numbers) else self.layout.parents
        codes, owners, shares, active = self._owned(number)
        tickets = self._held(number, codes)
        parents, unknown, cached = self._rest(number, codes, empty)
        self._freed(number, codes)
        groups = range(len(self.groups))
        cut = [slice(self.layout.base[g], self.layout.base[g + 1]) for g in groups]
        return PagesMap(
            round=number,
            groups=self.groups,
            parents=array("b", parents.tobytes()),
            codes=tuple(codes[c].tobytes() for c in cut),
            owners=tuple(array("i", owners[c].tobytes()) for c in cut),
            shares=tuple(shares[c].tobytes() for c in cut),
            counts=tuple(counts_of(codes[cut[g]], np.repeat(parents[1:] == g, self.layout.packing[g])) for g in groups),
            tickets=tickets,
            names={s: self._life.names[s] for s in self._there(self.spells.submission[active]).tolist()},
            empty_parents=empty,
            unknown_parents=unknown,
            unknown_cached=cached,
            source=self.source if number <= self.decided_round else "none",
        )

    def _owned(self, number: int) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.uint8], Longs]:
        spells, size = self.spells, self.layout.size
        active = spells.at(number)
        pages, submission = spells.number[active], spells.submission[active]
        held = np.bincount(pages, minlength=size)
        owners = np.full(size, -1, np.int32)
        owners[pages] = submission
        computed, begin, end = self._progress(number, self._there(submission))
        sizes = [group.block_tokens for group in self.groups]
        tokens = sizes[0] if len(set(sizes)) == 1 else np.array(sizes, np.int32)[spells.group[active]]
        first = spells.slot[active] * tokens
        ahead = np.bincount(pages[first >= np.maximum(computed, end)[submission]], minlength=size)
        written = pages[(first < end[submission]) & (first + tokens > begin[submission])]
        codes = np.where(held > 0, v.OWNED, v.EMPTY).astype(np.uint8)
        codes[held > 1] = v.SHARED
        codes[(held > 0) & (ahead == held)] = v.RESERVE
        codes[written] = v.WRITTEN
        zeroed = self._zeroed(number)
        codes[zeroed[held[zeroed] > 0]] = v.ZEROED
        return codes, owners, np.minimum(held, 255).astype(np.uint8), active

    def _there(self, submission: npt.NDArray[Any]) -> Longs:
        """Return the distinct submissions, in order."""
        return np.flatnonzero(np.bincount(submission, minlength=1)).astype(np.int64)

    def _progress(self, number: int, there: Longs) -> tuple[Ints, Ints, Ints]:
        """Return, by submission, the tokens computed before the plan, and the range that its row of the plan writes."""
        life, count = self._life, self._life.count
        computed, begin, end = (np.zeros(count, np.int32) for _ in range(3))
        if not len(there):
            return computed, begin, end
        row = life.op_rows.last(there, number)
        known = row >= 0
        there, row = there[known], row[known]
        prefill = life.op_begin[row] >= 0
        landed = np.maximum(life.landed(there, number) - 1, 0)
        now = life.op_rows.last_round(there, number) == number
        input_ = life.op_input[row].astype(np.int64)
        decoded = life.prompt[there] + landed
        start = np.where(prefill, life.op_begin[row], decoded)
        computed[there] = np.where(prefill & ~now, start + input_, start)
        begin[there] = np.where(now, start, 0)
        end[there] = np.where(now, start + input_, 0)
        return computed, begin, end

    def _zeroed(self, number: int) -> Longs:
        low, high = np.searchsorted(self._zeroed_rounds, (number, number + 1))
        return self._zeroed_numbers[low:high]

    @cached_property
    def _zeroed_rounds(self) -> Longs:
        return column(self.part.table("zeroed"), "round").astype(np.int64)

    @cached_property
    def _zeroed_numbers(self) -> Longs:
        table = self.part.table("zeroed")
        bases = {name: self.layout.base[index] for name, index in self.layout.indexes.items()}
        return mapped(table, "group", bases) + column(table, "page").astype(np.int64)

    def _held(self, number: int, codes: npt.NDArray[np.uint8]) -> dict[tuple[int, int], tuple[int, ...]]:
        rows = self.tickets.at(number)
        codes[self.tickets.number[rows]] = np.where(self.tickets.load[rows], v.LOADING, v.PINNED)
        found: dict[tuple[int, int], tuple[int, ...]] = {}
        for page, op_id in zip(self.tickets.number[rows].tolist(), self.tickets.op_id[rows].tolist(), strict=True):
            place = self.layout.split(page)
            found[place] = (*found.get(place, ()), op_id)
        return found

    def _rest(self, number: int, codes: npt.NDArray[np.uint8], empty: int) -> tuple[npt.NDArray[np.int8], int, int]:
        """Settle the pages that nobody holds, and return the binding of the parents and what is not known of them."""
        gaps = self.gaps
        here = gaps.at(number)
        pages, state = gaps.number[here], gaps.state[here]
        behind = state == WAS_CACHED
        cached = behind & (gaps.until[here] > number)
        unsettled = (state == UNSETTLED) & ~((state == WAS_EMPTY) | behind)
        codes[pages[cached]] = v.CACHED
        codes[pages[unsettled]] = v.UNKNOWN
        if not self._begun:
            codes[(self._ever > number) & (codes == v.EMPTY)] = v.UNKNOWN
        parents = np.full(self.layout.parents + 1, v.UNBOUND, np.int8)
        unknown = np.zeros(self.layout.parents + 1, np.bool_)
        for group in range(len(self.groups)):
            block = self._block(codes, group)
            parents[1:][((block != v.EMPTY) & (block != v.UNKNOWN)).any(axis=1)] = group
        for group in range(len(self.groups)):
            unknown[1:] |= (parents[1:] == v.UNBOUND) & (self._block(codes, group) == v.UNKNOWN).any(axis=1)
        waiting = int(unknown.sum())
        certain = int((parents[1:] == v.UNBOUND).sum()) - waiting
        hold = waiting - (empty - certain)  # of the unknown parents, those that the scheduler does not count as empty
        single = len(self.groups) == 1 and self.layout.packing[0] == 1
        if waiting and (hold == 0 or (hold == waiting and single)):
            self._settle(codes, parents, unknown, to_cached=hold > 0)
            waiting = hold = 0
        parents[unknown & (parents == v.UNBOUND)] = v.UNBOUND_OR_CACHED if waiting else v.UNBOUND
        return parents, waiting, max(hold, 0)

    def _block(self, codes: npt.NDArray[np.uint8], group: int) -> npt.NDArray[np.uint8]:
        base = self.layout.base
        return codes[base[group] + 1 : base[group + 1]].reshape(-1, self.layout.packing[group])

    def _settle(
        self, codes: npt.NDArray[np.uint8], parents: npt.NDArray[Any], unknown: npt.NDArray[Any], *, to_cached: bool
    ) -> None:
        """All unknown parents are empty, or (in one group of one page a parent) all hold cache: the count says it."""
        for group in range(len(self.groups)):
            block = self._block(codes, group)
            block[unknown[1:, None] & (block == v.UNKNOWN)] = v.CACHED if to_cached else v.EMPTY
        if to_cached:
            parents[unknown] = 0

    def _freed(self, number: int, codes: npt.NDArray[np.uint8]) -> None:
        pages = self.spells.number[self.spells.ended(number)]
        gone = self.gaps.evictions
        evicted = gone.number[gone.round == number]
        for pages in (self.spells.number[self.spells.ended(number)], evicted):
            codes[pages[codes[pages] <= v.CACHED]] = v.FREED

    @cached_property
    def host(self) -> HostHistory | None:
        """The pages of the host tier; None for a part without one."""
        layout = host_layout_of(self.part)
        return None if layout is None else HostHistory(self, layout, self._tables)

    def holders(self, group: Longs, page: Longs, round_: Longs) -> Longs:
        """Return, for each (group, page, round), the submission whose table held the page last by then; -1: none."""
        order, spells = self.spells.by_page, self.spells
        moments = moment(spells.number[order].astype(np.int64), spells.from_round[order])
        number = np.array(self.layout.base, np.int64)[group] + page
        found = np.searchsorted(moments, moment(number, round_), side="right") - 1
        if not len(order):
            return np.full(len(number), -1, np.int64)
        row = order[np.maximum(found, 0)]
        return np.where((found >= 0) & (spells.number[row] == number), spells.submission[row], -1).astype(np.int64)

    def name_of(self, submission: int) -> str:
        """Return the id of the request of a submission."""
        return self._life.names[submission]

    def clamped(self, round_: int) -> int:
        """Return the recorded round at or behind a round, the last one behind all; 0 where none is recorded."""
        index = int(np.clip(np.searchsorted(self._numbers, round_), 0, max(len(self._numbers) - 1, 0)))
        return int(self._numbers[index]) if len(self._numbers) else 0

    def group_pool(self, group: int, first_round: int, last_round: int, buckets: int) -> GroupPool:
        """Return the pool of one group in each of at most `buckets` equal pieces of the rounds, both included."""
        if group not in self._steps:
            self._steps[group] = GroupSteps(self, group)
        active, occupied = self._steps[group].most(first_round, last_round, buckets)
        known = self.source != "none" and last_round <= self.decided_round
        return GroupPool(active, occupied, "" if known else "cached as far as later hits prove it")

    def held(self, submission: int, round_: int) -> tuple[frozenset[int], ...]:
        """Return the pages of a request behind the plan of a round, by group."""
        active = self.spells.at(round_)
        mine = active[self.spells.submission[active] == submission]
        group, number = self.spells.group[mine], self.spells.number[mine]
        base = self.layout.base
        return tuple(frozenset((number[group == g] - base[g]).tolist()) for g in range(len(self.groups)))

    def life(self, group: int, page: int, round_: int) -> PageLife:  # noqa: ARG002 - as of large parts
        """Return what happened to a page of a group, in order. Raises KeyError for a page that does not exist."""
        if not 0 <= group < len(self.groups) or not 1 <= page <= self.layout.parents * self.layout.packing[group]:
            raise KeyError(f"no page {page} in group {group}")
        zeroed = self._zeroed_rounds[self._zeroed_numbers == self.layout.base[group] + page]
        return page_life(self, group, page, zeroed, self._life.names)

    @property
    def rounds(self) -> tuple[int, int]:
        """The first and the last round of which something is told."""
        return (int(self._numbers[0]), int(self._numbers[-1])) if len(self._numbers) else (0, 0)

    def event_beyond(self, group: int, page: int, round_: int, step: int) -> int | None:  # noqa: ARG002
        """Return None: `life` tells every event there is."""
        return None


def _group(described: dict[str, Any]) -> PageGroup:
    kind = "state" if described["family"] == "State" else "full"
    if described["retention"] == "SlidingWindow" and kind == "full":
        kind = "replayable" if described.get("replayable") else "sliding"
    packing = max(1, int(described["cache_blocks_per_lcm_block"]))
    return PageGroup(str(described["group_id"]), kind, packing, int(described["block_granularity"]))
