"""The pages of the host tier at every round: what a store fills, what is kept, what a load reads, what was evicted.

Which host page a copy fills or reads is recorded. That a page left the cache is a decision; without decisions it is
kept for certain as long as a later load reads it, and else not known (debugger.md, section 1, *Pages*).
"""

from __future__ import annotations

from array import array
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.decided.view import DecidedTables
from tsviz.replay.rows.lifetimes import NEVER, Longs, column

from . import values as v
from .cache import moment
from .counting import counts_of
from .host_doubles import doubles
from .host_life import host_life
from .spells import Layout, mapped
from .start import Start
from .tickets import acknowledged, answers
from .values import PageLife, PagesMap

if TYPE_CHECKING:
    from .live import LivePageSource
    from .map import PagesHistory


class HostFillings:
    """One row a host page that a store, or a load from storage, fills: sorted by page, then round.

    A page that was kept where a slice begins is a row too: of no operation (-1), filled in the round before.
    """

    def __init__(self, transfers: Any, events: Any, layout: Layout, start: Start | None) -> None:
        load = mapped(transfers, "kind", {"load_back": 1}) == 1
        fetched = load & transfers["from_storage"].to_numpy(zero_copy_only=False).astype(np.bool_)
        group = column(transfers, "group_index").astype(np.int64)
        page = np.where(load, column(transfers, "src_page"), column(transfers, "dst_page")).astype(np.int64)
        op_id, round_ = column(transfers, "op_id").astype(np.int64), column(transfers, "round").astype(np.int64)
        inside = (group >= 0) & (group < len(layout.packing)) & (page > 0)
        ends = np.array(layout.base[1:], np.int64)[np.where(inside, group, 0)]
        number = np.array(layout.base[:-1], np.int64)[np.where(inside, group, 0)] + page
        inside &= number < ends
        ack, failed = acknowledged(events, op_id, round_)
        filled = np.flatnonzero(inside & (~load | fetched))
        source = column(transfers, "src_page").astype(np.int64)
        kept, before = (np.zeros(0, np.int64), 0) if start is None else (start.host, start.round)
        kept_group = np.searchsorted(np.array(layout.base, np.int64), kept, side="right") - 1
        since, nobody = np.full(len(kept), before), np.full(len(kept), -1)
        number_, from_ = np.concatenate([kept, number[filled]]), np.concatenate([since, round_[filled]])
        order = np.lexsort((from_, number_))
        self.number, self.from_round = number_[order], from_[order]
        self.op_id = np.concatenate([nobody, op_id[filled]])[order]
        self.source = np.concatenate([nobody, source[filled]])[order]
        self.fetched = np.concatenate([nobody >= 0, fetched[filled]])[order]
        self.group = np.concatenate([kept_group, group[filled]])[order]
        self.content = np.concatenate([nobody, _contents(transfers)[filled]])[order]
        """The same number for the same content; -1 where it is not told."""
        device = np.where(load, column(transfers, "dst_page"), source)
        self.device = np.concatenate([nobody, device[filled]])[order]
        """The device page that is copied, or that a load fills."""
        self.turn = np.concatenate([nobody, answers(events, op_id, round_)[filled]])[order]
        """Which acknowledgement came when: a later one has a greater number."""
        self.acknowledged = np.concatenate([since, ack[filled]])[order]
        lost = np.concatenate([nobody >= 0, failed[filled]])[order]
        self.landed = np.where(lost & self.fetched, NEVER, self.acknowledged)
        """The round from which the page is kept."""
        following = np.append(self.from_round[1:], NEVER)[: len(order)]
        last = np.append(self.number[1:] != self.number[:-1], True)[: len(order)]
        end = np.where(last, NEVER, following)
        self.until = np.where(self.landed == NEVER, np.minimum(end, np.where(lost, self.acknowledged, end)), end)
        """The page is filled anew, or given back, in this round."""
        read = np.flatnonzero(inside & load & ~fetched)
        read = read[np.lexsort((round_[read], number[read]))]
        self.read_number, self.read_round, self.read_op_id = number[read], round_[read], op_id[read]
        self.read_until = ack[read]

    def at(self, round_: int) -> Longs:
        """Return the rows of pages that are being filled or kept behind the plan of a round, as far as is known."""
        return np.flatnonzero((self.from_round <= round_) & (self.until > round_))

    def read_at(self, round_: int) -> Longs:
        """Return the rows of loads that read their page behind the plan of a round."""
        return np.flatnonzero((self.read_round <= round_) & (self.read_until > round_))


class HostHistory:
    """The host pages of one part, or of a stretch of it, at every round."""

    def __init__(self, device: PagesHistory, layout: Layout, tables: DecidedTables | None) -> None:
        """`layout` is that of the host pages. Raises `TraceError`."""
        self._device, self.layout = device, layout
        part = device.part
        self.fillings = fillings = HostFillings(part.table("transfers"), part.table("events"), layout, device.start)
        self._whole = part.meta.get("starts_at") is None or device.start is not None
        self.evicted, self.evicted_round = _evictions(tables, layout)
        evicted_at = self._evictions_of(fillings)
        given_back, self.open = doubles(fillings)
        self.open &= evicted_at == fillings.until  # what was evicted had been kept
        self.kept_until = np.where(given_back, np.minimum(fillings.landed, evicted_at), evicted_at)
        self.proven = self._last_read(fillings)
        self.owner = device.holders(fillings.group, fillings.source, fillings.from_round)
        self.owner[fillings.fetched | (fillings.op_id < 0)] = -1

    @property
    def live(self) -> LivePageSource:
        """What a re-executed scheduler knows of the pages of both tiers."""
        return self._device.live

    @property
    def rounds(self) -> tuple[int, int]:
        """The first and the last round of which something is told."""
        return self._device.rounds

    def _evictions_of(self, fillings: HostFillings) -> Longs:
        """Return the round in which each filled page left the cache; that of its end where no eviction is known."""
        moments = moment(self.evicted, self.evicted_round)
        order = np.argsort(moments)
        found = np.searchsorted(moments[order], moment(fillings.number, fillings.landed))
        if not len(order):
            return fillings.until.copy()
        row = order[np.minimum(found, len(order) - 1)]
        mine = (found < len(order)) & (self.evicted[row] == fillings.number)
        mine &= (self.evicted_round[row] <= fillings.until) & (fillings.landed != NEVER)
        return np.where(mine, self.evicted_round[row], fillings.until)

    def _last_read(self, fillings: HostFillings) -> Longs:
        """Return the last round in which a load began to read each filled page; -1 where none did."""
        reads = moment(fillings.read_number, fillings.read_round)
        found = np.searchsorted(reads, moment(fillings.number, fillings.until)) - 1
        if not len(reads):
            return np.full(len(found), -1, np.int64)
        row = np.maximum(found, 0)
        mine = (found >= 0) & (fillings.read_number[row] == fillings.number)
        return np.where(mine & (fillings.read_round[row] >= fillings.from_round), fillings.read_round[row], -1)

    def at(self, round_: int) -> PagesMap:
        """Return the map behind the plan of a round (clamped to the trace)."""
        number = self._device.clamped(round_)
        told, layout = self.fillings, self.layout
        decided = number <= self._device.decided_round
        codes = np.full(layout.size, v.EMPTY if self._whole else v.UNKNOWN, np.uint8)
        if not self._whole:
            codes[told.number[(told.from_round <= number)]] = v.EMPTY
        codes[self.evicted[self.evicted_round <= number]] = v.EMPTY
        rows = told.at(number)
        filling = told.acknowledged[rows] > number
        proven = self.proven[rows] >= number
        kept = ~filling & (((self.kept_until[rows] > number) & (~self.open[rows] | proven)) if decided else proven)
        open_ = ~filling & ~kept & (self.open[rows] if decided else True)
        codes[told.number[rows[open_]]] = v.UNKNOWN
        codes[told.number[rows[kept]]] = v.CACHED
        codes[told.number[rows[filling]]] = v.LOADING
        reading = told.read_at(number)
        codes[told.read_number[reading]] = v.PINNED
        gone = self.evicted[self.evicted_round == number]
        codes[gone[codes[gone] <= v.CACHED]] = v.FREED
        owners = np.full(layout.size, -1, np.int32)
        there = rows[(codes[told.number[rows]] != v.EMPTY) & (codes[told.number[rows]] != v.FREED)]
        owners[told.number[there]] = self.owner[there]
        tickets: dict[tuple[int, int], tuple[int, ...]] = {}
        for pages, op_ids in (
            (told.number[rows[filling]], told.op_id[rows[filling]]),
            (told.read_number[reading], told.read_op_id[reading]),
        ):
            for page, op_id in zip(pages.tolist(), op_ids.tolist(), strict=True):
                place = layout.split(page)
                tickets[place] = (*tickets.get(place, ()), op_id)
        return self._map(number, codes, owners, tickets)

    def _map(
        self, number: int, codes: npt.NDArray[np.uint8], owners: npt.NDArray[np.int32],
        tickets: dict[tuple[int, int], tuple[int, ...]],
    ) -> PagesMap:  # fmt: skip
        layout, device = self.layout, self._device
        groups = range(len(layout.packing))
        cut = [slice(layout.base[g], layout.base[g + 1]) for g in groups]
        blocks = [codes[c][1:].reshape(-1, layout.packing[g]) for g, c in zip(groups, cut, strict=True)]
        parents = np.full(layout.parents + 1, v.UNBOUND, np.int8)
        unknown = np.zeros(layout.parents, np.bool_)
        for group, block in enumerate(blocks):
            parents[1:][((block != v.EMPTY) & (block != v.UNKNOWN) & (block != v.FREED)).any(axis=1)] = group
            unknown |= (block == v.UNKNOWN).any(axis=1)
        unknown &= parents[1:] == v.UNBOUND
        for group, block in enumerate(blocks):  # a parent that one group holds has no page of another
            block[((parents[1:] >= 0) & (parents[1:] != group))[:, None] & (block == v.UNKNOWN)] = v.EMPTY
        parents[1:][unknown] = v.UNBOUND_OR_CACHED
        known = {s: device.name_of(s) for s in np.unique(owners[owners >= 0]).tolist()}
        return PagesMap(
            round=number,
            groups=device.groups,
            parents=array("b", parents.tobytes()),
            codes=tuple(codes[c].tobytes() for c in cut),
            owners=tuple(array("i", owners[c].tobytes()) for c in cut),
            shares=tuple(bytes(c.stop - c.start) for c in cut),
            counts=tuple(counts_of(codes[c], np.repeat(parents[1:] == g, layout.packing[g]))
                         for g, c in zip(groups, cut, strict=True)),
            tickets=tickets,
            names=known,
            empty_parents=int((parents[1:] == v.UNBOUND).sum()),
            unknown_parents=int(unknown.sum()),
            unknown_cached=-1,
            source=device.source if number <= device.decided_round else "none",
            tier=v.HOST,
        )  # fmt: skip

    def held(self, submission: int, round_: int) -> tuple[frozenset[int], ...]:
        """Return the host pages with copies of pages of a request behind the plan of a round, by group."""
        owners = self.at(round_).owners
        return tuple(frozenset(np.flatnonzero(np.asarray(of) == submission).tolist()) for of in owners)

    def life(self, group: int, page: int, round_: int) -> PageLife:  # noqa: ARG002 - as of large parts
        """Return what happened to a host page, in order. Raises KeyError for a page that does not exist."""
        if (
            not 0 <= group < len(self.layout.packing)
            or not 1 <= page <= self.layout.parents * self.layout.packing[group]
        ):
            raise KeyError(f"no host page {page} in group {group}")
        found = host_life(self, group, page, self._device.name_of)
        return replace(found, complete=self._device.source != "none" and self._device.decided_round > 0)

    def event_beyond(self, group: int, page: int, round_: int, step: int) -> int | None:  # noqa: ARG002
        """Return None: `life` tells every event there is."""
        return None


def _contents(transfers: Any) -> Longs:
    """Return, per row, a number for the content that is copied: that of its hash and place in the prefix page."""
    known = transfers["content_hash"].combine_chunks().dictionary_encode()
    indices = (known.combine_chunks() if hasattr(known, "combine_chunks") else known).indices
    hashes = np.array(indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
    offset = column(transfers, "page_offset").astype(np.int64)
    return np.where(hashes < 0, -1, hashes << 32 | offset)


def _evictions(tables: DecidedTables | None, layout: Layout) -> tuple[Longs, Longs]:
    """Return page number and round of every eviction from the host tier; none without decisions."""
    if tables is None:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    table = tables.table("evictions")
    group = column(table, "group").astype(np.int64)
    host = mapped(table, "tier", {"host": 1}) == 1
    kept = np.flatnonzero(host & (group >= 0) & (group < len(layout.packing)))
    number = np.array(layout.base, np.int64)[group[kept]] + column(table, "page").astype(np.int64)[kept]
    return number, column(table, "round").astype(np.int64)[kept]
