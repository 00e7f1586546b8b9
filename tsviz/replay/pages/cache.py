"""Where pages were between two owners: cached, or empty. What the recording and its decisions support, nothing more.

A gap is a stretch of rounds in which no table and no operation holds a page that was held before. Three facts settle
it: an eviction of the page in the gap (cached until then); the page placed again without being zeroed (a hit: cached
all the time); the page placed freshly although no eviction took it out of the index (empty all the time). The last one
needs decisions. A gap that is open at the end of the trace is settled by what was published of the page, if that is
known exactly; otherwise it stays unknown. Where a slice begins, its keyframe says what was cached (`start.py`): every
page that nobody holds there is in a gap.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tsviz.replay.decided.view import DecidedTables
from tsviz.replay.rows.lifetimes import NEVER, Longs, column

from .spells import Layout, Spells, mapped
from .start import Start
from .tickets import Tickets
from .window import PagesPart

UNSETTLED, WAS_EMPTY, WAS_CACHED = range(3)
KINDS = ("", "chunk", "endpoint", "promoted")


class Evictions(NamedTuple):
    """Evictions of device pages, in order: page number, round, kind (index into KINDS), epoch, acquired by a hit."""

    number: Longs
    round: Longs
    kind: npt.NDArray[Any]
    epoch: Longs
    acquired: npt.NDArray[Any]


def evictions_of(tables: DecidedTables | None, layout: Layout) -> Evictions:
    """Return the evictions of the device tier; none without decisions. Raises `TraceError`."""
    if tables is None:
        nothing = np.zeros(0, np.int64)
        return Evictions(nothing, nothing, nothing, nothing, nothing)
    table = tables.table("evictions")
    group = column(table, "group").astype(np.int64)
    device = mapped(table, "tier", {"device": 1}) == 1
    kept = np.flatnonzero(device & (group >= 0) & (group < len(layout.packing)))
    number = np.array(layout.base, np.int64)[group[kept]] + column(table, "page").astype(np.int64)[kept]
    kind = _kinds(table)[kept]
    acquired = table["acquired"].to_numpy(zero_copy_only=False)[kept]
    round_ = column(table, "round").astype(np.int64)[kept]
    return Evictions(number, round_, kind, column(table, "epoch").astype(np.int64)[kept], acquired)


def _kinds(table: Any) -> npt.NDArray[np.int8]:
    numbers = {name: index for index, name in enumerate(KINDS) if name}
    return np.maximum(mapped(table, "kind", numbers), 0).astype(np.int8)


class Publications(NamedTuple):
    """Pages of which it is known that they entered the index: page number, round, kind (index into KINDS)."""

    number: Longs
    round: Longs
    kind: npt.NDArray[Any]
    unsure: Longs
    """Numbers of pages of which it is not known whether they did."""


def publications_of(
    part: PagesPart, tables: DecidedTables | None, spells: Spells, tickets: Tickets, start: Start | None
) -> Publications:
    """Return which pages were published. Raises `TraceError`.

    A publication names the request, the group and a range of prefix pages; which slots of these are published follows
    from the kind of group (cache-rules.md, section 7.2), and the table behind the plan holds the canonical pages. Where
    it registered fewer entries than it has slots at the end of a request, duplicates are not told apart: unsure. Pages
    that a load fills are published as chunk and not told as publications. What was cached at the start of a slice was
    published by then.
    """
    nothing = np.zeros(0, np.int64)
    if tables is None:
        return Publications(nothing, nothing, nothing, nothing)
    table = tables.table("publications")
    kind = _kinds(table)
    row, slot = _published_slots(part, table)
    submission, group = column(table, "submission").astype(np.int64), column(table, "group").astype(np.int64)
    round_ = column(table, "round").astype(np.int64)
    spell = spells.holding(submission[row], group[row], slot, round_[row])
    lost = spell < 0  # the plan that published them gave the table up as well (a retraction)
    spell[lost] = spells.holding(submission[row][lost], group[row][lost], slot[lost], round_[row][lost] - 1)
    there = spell >= 0
    row, number = row[there], spells.number[spell[there]].astype(np.int64)
    shown_behind = _seen_again(spells, spell[there], round_[row])
    slots_of, new = np.bincount(row, minlength=len(kind)), column(table, "new_pages").astype(np.int64)
    sure = shown_behind | (slots_of == new)[row]
    states = np.array([g["family"] == "State" for g in part.config["cache_groups"]], np.bool_)
    if states.any():
        sure &= ~states[group[row]] | (slots_of == new)[row]
    placed = moment(spells.number.astype(np.int64), spells.from_round)
    used = np.isin(moment(tickets.number, tickets.from_round), placed)  # others were cached on the device already
    loads = np.flatnonzero(tickets.load & used & (tickets.landed != NEVER))
    before = (nothing, nothing.astype(np.int8), 0) if start is None else (start.device, start.kind, start.round)
    return Publications(
        np.concatenate([before[0], tickets.number[loads], number[sure]]),
        np.concatenate([np.full(len(before[0]), before[2]), tickets.landed[loads], round_[row][sure]]),
        np.concatenate([before[1], np.full(len(loads), KINDS.index("chunk"), np.int8), kind[row][sure]]),
        np.unique(number[~sure]),
    )


def _seen_again(spells: Spells, spell: Longs, round_: Longs) -> npt.NDArray[np.bool_]:
    """Return whether the spell goes on behind the round that published: then its table shows the canonical page."""
    return np.asarray(spells.to_round[spell] > round_ + 1)


def _published_slots(part: PagesPart, table: Any) -> tuple[Longs, Longs]:
    """Return (row of the publication, slot) of every slot that publications may have registered."""
    prefix = int(part.config["prefix_granularity"])
    groups = part.config["cache_groups"]
    per_page = np.array([max(1, prefix // int(g["block_granularity"])) for g in groups], np.int64)
    state = np.array([g["family"] == "State" for g in groups], np.bool_)
    lookback = np.array([_lookback(g) for g in groups], np.int64)
    group = column(table, "group").astype(np.int64)
    first = column(table, "first_page").astype(np.int64) * per_page[group]
    end = column(table, "end_page").astype(np.int64) * per_page[group]
    first = np.where(lookback[group] >= 0, np.maximum(end - lookback[group], 0), first)
    counts = np.maximum(end - first, 0)
    row = np.repeat(np.arange(len(counts)), counts)
    slot = first[row] + np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = ~state[group[row]] | ((slot + 1) % per_page[group[row]] == 0)
    return row[kept], slot[kept]


def _lookback(group: dict[str, Any]) -> int:
    """Return how many slots behind a resume point a sliding group publishes; -1 for groups that publish all."""
    window = group.get("sliding_window_tokens")
    if group["family"] == "State" or not window or group["retention"] != "SlidingWindow":
        return -1
    return -(-(int(window) - 1) // int(group["block_granularity"]))


class Gaps:
    """The gaps of every page, each settled as far as facts allow."""

    def __init__(
        self, part: PagesPart, layout: Layout, spells: Spells, tickets: Tickets, tables: DecidedTables | None,
        last: int, start: Start | None,
    ) -> None:  # fmt: skip
        """`last` is the last round of which decisions are known, `start` what was cached where a slice begins.

        Raises `TraceError`.
        """
        self._start = start
        self.evictions = evictions_of(tables, layout)
        self.publications = publications_of(part, tables, spells, tickets, start)
        every = np.zeros(0, np.int64) if start is None else np.delete(np.arange(layout.size), layout.base[:-1])
        at_start = np.full(len(every), 0 if start is None else start.round)
        number = np.concatenate([every, spells.number.astype(np.int64), tickets.number])
        from_ = np.concatenate([at_start, spells.from_round, tickets.from_round])
        to = np.concatenate([at_start, spells.to_round, tickets.to_round])
        order = np.lexsort((from_, number))
        number, from_, to = number[order], from_[order], to[order]
        latest = (np.maximum.accumulate((number << 32) + np.minimum(to, 0xFFFF_FFFF)) & 0xFFFF_FFFF).astype(np.int64)
        final = np.append(number[1:] != number[:-1], True)[: len(number)]
        following = np.where(final, 0xFFFF_FFFF, np.append(from_[1:], 0)[: len(number)])
        gap = np.flatnonzero(following > latest)
        self.number, self.from_round, self.to_round = number[gap], latest[gap], following[gap]
        self._settle(part, layout, tickets, tables is not None, last)

    def _settle(self, part: PagesPart, layout: Layout, tickets: Tickets, decided: bool, last: int) -> None:
        closed = self.to_round < 0xFFFF_FFFF
        taken = _fresh(part, layout, tickets)
        fresh = np.isin(moment(self.number, self.to_round), taken)
        self.state = np.full(len(self.number), UNSETTLED, np.int8)
        self.until = self.to_round.copy()
        """The gap was cached before this round and empty from it on (only where the state is WAS_CACHED)."""
        self.kind = np.zeros(len(self.number), np.int8)
        self.state[closed & ~fresh & ~self._raised(part)] = WAS_CACHED
        self.state[self._never_cached(part, layout)] = WAS_EMPTY
        if not decided:
            return
        self.state[closed & fresh & (self.to_round <= last)] = WAS_EMPTY
        published = self._published(taken)
        self.state[~closed] = np.where(published[~closed] >= 0, WAS_CACHED, WAS_EMPTY)
        unsure = np.isin(self.number, self.publications.unsure) & (published < 0)
        if (
            part.meta.get("starts_at") is not None and self._start is None
        ):  # what was published of a page before is known only if taken since
            unsure |= (published < 0) & ~self._taken_before(taken)
        self.state[~closed & (unsure | (self.from_round > last))] = UNSETTLED
        seen = published >= 0
        self.kind[seen] = self.publications.kind[published[seen]]
        evicted = self._evicted(taken)
        hit = evicted >= 0
        self.state[hit] = WAS_CACHED
        self.until[hit] = self.evictions.round[evicted[hit]]
        self.kind[hit] = self.evictions.kind[evicted[hit]]

    def _never_cached(self, part: PagesPart, layout: Layout) -> npt.NDArray[np.bool_]:
        """Return whether the page belongs to a replayable group, which never enters the index."""
        replayable = np.array([bool(g.get("replayable")) for g in part.config["cache_groups"]], np.bool_)
        group = np.searchsorted(np.array(layout.base, np.int64), self.number, side="right") - 1
        return np.asarray(replayable[group] if len(replayable) else np.zeros(len(group), np.bool_))

    def _raised(self, part: PagesPart) -> npt.NDArray[np.bool_]:
        """Return whether a plan raised while the gap was open: what it acquired was never told to be zeroed."""
        calls = part.table("calls")
        plans = (mapped(calls, "kind", {"plan": 1}) == 1) & (mapped(calls, "outcome", {"ok": 1}) != 1)
        rounds = np.sort(column(calls, "round").astype(np.int64)[plans])
        low, high = np.searchsorted(rounds, self.from_round), np.searchsorted(rounds, self.to_round, side="right")
        return np.asarray(high > low)

    def _published(self, taken: Longs) -> Longs:
        """Return, for each gap, the last publication of its page before it; -1 where there is none.

        Not one from before the page was taken anew or evicted: it is out of the index until published again.
        """
        told, gone = self.publications, self.evictions
        order = np.lexsort((told.round, told.number))
        moments = moment(told.number[order], told.round[order])
        found = np.searchsorted(moments, moment(self.number, self.from_round), side="right") - 1
        row = order[np.maximum(found, 0)] if len(order) else np.zeros(len(found), np.int64)
        valid = (found >= 0) & (len(order) > 0)
        if len(order):
            valid &= told.number[row] == self.number
        exits = np.sort(moment(gone.number, gone.round))
        if len(order) and len(exits):
            since = np.searchsorted(exits, moment(self.number, told.round[row]), side="right")
            before = np.searchsorted(exits, moment(self.number, self.from_round - 1), side="right")
            valid &= since >= before
        anew = np.sort(taken)
        if len(order) and len(anew):
            last = np.searchsorted(anew, moment(self.number, self.from_round - 1), side="right") - 1
            since = anew[np.maximum(last, 0)]
            valid &= (last < 0) | (since >> 32 != self.number) | (moment(self.number, told.round[row]) >= since)
        return np.where(valid, row, -1)

    def _taken_before(self, taken: Longs) -> npt.NDArray[np.bool_]:
        """Return whether the page of each gap was taken anew before it, in a round that is told of."""
        anew = np.sort(taken)
        position = np.searchsorted(anew, moment(self.number, self.from_round), side="right") - 1
        if not len(anew):
            return np.zeros(len(self.number), np.bool_)
        return np.asarray((position >= 0) & (anew[np.maximum(position, 0)] >> 32 == self.number))

    def _evicted(self, taken: Longs) -> Longs:
        """Return, for each gap, the eviction that ended its caching; -1 where there is none."""
        found = np.full(len(self.number), -1, np.int64)
        if not len(self.number):
            return found
        starts = moment(self.number, self.from_round)
        gone = self.evictions
        gap = np.searchsorted(starts, moment(gone.number, gone.round), side="right") - 1
        inside = (gap >= 0) & (self.number[gap] == gone.number) & (gone.round <= self.to_round[gap])
        # Between two plans (a clear of the cache) an eviction carries the round before the release that let it go.
        after = np.minimum(gap + 1, len(starts) - 1)
        between = ~inside & (self.number[after] == gone.number) & (self.from_round[after] == gone.round + 1)
        between &= ~np.isin(moment(gone.number, gone.round), taken)  # released, evicted and taken by one plan: no gap
        found[gap[inside]] = np.flatnonzero(inside)
        found[after[between]] = np.flatnonzero(between)
        return found

    def at(self, round_: int) -> Longs:
        """Return the gaps that are open behind the plan of a round."""
        return np.flatnonzero((self.from_round <= round_) & (self.to_round > round_))

    def of_page(self, number: int) -> Longs:
        """Return the gaps of one page, in order."""
        return np.flatnonzero(self.number == number)


def moment(number: Longs, round_: Longs) -> Longs:
    """Return keys that sort by page, then round."""
    return np.asarray((number << 32) + np.minimum(round_, 0xFFFF_FFFF), np.int64)


def _fresh(part: PagesPart, layout: Layout, tickets: Tickets) -> Longs:
    """Return the moments at which pages were acquired anew: zeroed, or taken as the target of a load."""
    zeroed = part.table("zeroed")
    bases = {name: layout.base[index] for name, index in layout.indexes.items()}
    number = mapped(zeroed, "group", bases) + column(zeroed, "page").astype(np.int64)
    taken = moment(number, column(zeroed, "round").astype(np.int64))
    loaded = moment(tickets.number[tickets.load], tickets.from_round[tickets.load])
    return np.concatenate([taken, loaded])
