"""The pages of a large part: a stretch of rounds around the one that is looked at, made when it is needed.

A stretch answers as the whole part would, but for what was before it: which pages nobody holds and are cached is not
known until they are used in it, or until the round was re-executed. What is held in memory is bounded by the stretch
and by the requests that are there in it, not by the trace (architecture.md, section 6).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tsviz.replay.recorded.lives import Lives
from tsviz.replay.rows.lifetimes import Longs, column
from tsviz.replay.rows.rows_from import RowsFrom
from tsviz.trace.reader import Part

from .host import HostHistory
from .live import LivePageSource
from .map import PagesHistory
from .open import Decided, decided_of, retracted
from .spells import host_layout_of, layout_of, mapped
from .values import GroupPool, PageLife, PagesMap
from .window import DecidedWindow, PartWindow, RowReaders

REACH_ROUNDS = 512
"""How far a stretch reaches to both sides of the round that asked for it."""
_REACH_ROWS = 150_000
"""Rows of all tables that one side of a stretch may have; it reaches 32 rounds at least."""
_LEAST_ROUNDS = 32
_MOST_ROUNDS = 1 << 14
_KEPT = 2
_ROUND = 0xFFFF_FFFF


class Source(Protocol):
    """What the recorded view of a large part reads (`tsviz.replay.recorded.source_bases.BasedTables`)."""

    @property
    def life(self) -> Lives:
        """What happened to every request."""
        ...

    def changes(self, first: int, last: int) -> Any:
        """Return the table changes of the submissions from the first to the last, request by request."""
        ...


class LargePages:
    """The pages of one large part at every round."""

    def __init__(
        self, part: Part, source: Source, absences: Callable[[], Longs], begun: Callable[[int], Iterable[int]]
    ) -> None:
        """`absences` are the keys of retractions as the recording tells them; `begun` returns, for a round, the rounds
        in which the operations began that are out behind it. Raises `TraceError`.
        """
        self._part, self._source, self._absences, self._begun = part, source, absences, begun
        self.live = LivePageSource(part)
        self._decided: Decided | None = decided_of(part)
        self._rows = RowReaders(part)
        self._decided_rows = None if self._decided is None else RowReaders(self._decided[0])
        self._numbers = part.meta.get("starts_at", 1), part.last_round
        rows = sum(part.rows(name) for name in ("events", "transfers", "zeroed", "calls"))
        fitting = int(_REACH_ROWS * max(part.rows("rounds"), 1) / max(rows, 1))
        self._reach = max(min(REACH_ROUNDS, fitting), _LEAST_ROUNDS)
        self._kept: OrderedDict[tuple[int, int], PagesHistory] = OrderedDict()

    def history(self, round_: int) -> PagesHistory:
        """Return a stretch that has a round, and where there are more rounds also some to both sides of it."""
        least, most = self._numbers
        round_ = min(max(round_, least), most)
        for (first, last), history in self._kept.items():
            if (first < round_ or first <= least) and round_ <= last:
                self._kept.move_to_end((first, last))
                return history
        first, last = self._stretch(round_)
        self._kept[first, last] = made = self._make(first, last)
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return made

    def _stretch(self, round_: int) -> tuple[int, int]:
        least, most = self._numbers
        return max(round_ - self._reach, least), min(round_ + self._reach, most)

    def _make(self, first: int, last: int) -> PagesHistory:
        life, told = self._source.life, self._absences()
        begun = sorted({round_ for round_ in self._begun(first - 1) if round_ < first})
        window = PartWindow(self._part, self._rows, life, self._source.changes, begun, first, last)
        if self._decided is None or self._decided_rows is None:
            return PagesHistory(window, life, told, self.live)
        _, source, known = self._decided
        tables = DecidedWindow(self._decided_rows, first, min(last, known))
        when = told & _ROUND
        gone = np.concatenate([told[(when < first) | (when > known)], retracted(tables, life.names)])
        return PagesHistory(window, life, gone, self.live, (tables, source, known))

    def at(self, round_: int) -> PagesMap:
        """Return the map behind the plan of a round (clamped to the trace). Raises `TraceError`."""
        return self.history(round_).at(round_)

    def held(self, submission: int, round_: int) -> tuple[frozenset[int], ...]:
        """Return the pages of a request behind the plan of a round, by group. Raises `TraceError`."""
        return self.history(round_).held(submission, round_)

    def group_pool(self, group: int, first_round: int, last_round: int, buckets: int) -> GroupPool:
        """Return the pool of one group in each of at most `buckets` equal pieces of the rounds, both included.

        Not of more rounds than a stretch has. Raises `TraceError`.
        """
        most = 2 * self._reach
        if last_round - first_round >= most:
            return GroupPool((), (), f"of this large trace at most {most:,} rounds at once: + zooms in")
        history = self.history((first_round + last_round) // 2)
        if not history.rounds[0] <= first_round <= last_round <= history.rounds[1]:
            history = self._make(*self._stretch((first_round + last_round) // 2))
        return history.group_pool(group, first_round, last_round, buckets)

    def life(self, group: int, page: int, round_: int) -> PageLife:
        """Return what happened to a page of a group up to the end of the stretch around a round, in order.

        Of requests that ended before the stretch nothing is told. Raises KeyError for a page that does not exist,
        `TraceError`.
        """
        history = self.history(round_)
        return self.clipped(history.life(group, page, round_), history.rounds)

    def clipped(self, life: PageLife, rounds: tuple[int, int]) -> PageLife:
        """Return a life that tells of some rounds, with these, and without what is known of later ones."""
        if rounds == self._numbers:
            return life
        return replace(life, events=tuple(event for event in life.events if event.round <= rounds[1]), rounds=rounds)

    @property
    def host(self) -> LargeHost | None:
        """The pages of the host tier; None for a part without one."""
        return None if host_layout_of(self._part) is None else LargeHost(self)

    def event_beyond(self, group: int, page: int, round_: int, step: int) -> int | None:
        """Return the next (`step` 1) or previous (-1) round, of those outside the stretch around `round_`, in which a
        table takes the page or it is zeroed; None without one. Raises `TraceError`.
        """
        name = layout_of(self._part).names[group]
        zeroed = RowsFrom(self._part, "zeroed", ("round", "group", "page"), key="round")
        changes = RowsFrom(self._part, "table_changes", ("round", "group", "pages"), key="round")

        def naming(since: int, until: int) -> Longs:
            found = [_rounds_naming(rows.between(since, until), name, page) for rows in (zeroed, changes)]
            return np.concatenate(found)

        return self.beyond(round_, step, naming)

    def beyond(self, round_: int, step: int, naming: Callable[[int, int], Longs]) -> int | None:
        """Return the next (`step` 1) or previous (-1) round that `naming` tells of, outside the stretch of a round."""
        first, last = self.history(round_).rounds
        for since, until in _blocks(*self._numbers, last + 1 if step > 0 else first - 1, step):
            rounds = naming(since, until)
            if len(rounds):
                return int(rounds.min() if step > 0 else rounds.max())
        return None

    def host_transfers(self) -> RowsFrom:
        """Return what reads the copies between the tiers."""
        columns = ("round", "kind", "group_index", "src_page", "dst_page")
        return RowsFrom(self._part, "transfers", columns, key="round")


class LargeHost:
    """The host pages of a large part: those of the stretch around each round."""

    def __init__(self, device: LargePages) -> None:
        self._device, self.live = device, device.live

    def _host(self, round_: int) -> HostHistory:
        host = self._device.history(round_).host
        assert host is not None
        return host

    def at(self, round_: int) -> PagesMap:
        """Return the map behind the plan of a round (clamped to the trace). Raises `TraceError`."""
        return self._host(round_).at(round_)

    def held(self, submission: int, round_: int) -> tuple[frozenset[int], ...]:
        """Return the host pages with copies of pages of a request. Raises `TraceError`."""
        return self._host(round_).held(submission, round_)

    def life(self, group: int, page: int, round_: int) -> PageLife:
        """Return what happened to a host page up to the end of the stretch around a round. Raises `TraceError`."""
        host = self._host(round_)
        return self._device.clipped(host.life(group, page, round_), host.rounds)

    def event_beyond(self, group: int, page: int, round_: int, step: int) -> int | None:
        """Return the next (`step` 1) or previous (-1) round outside the stretch in which a copy fills or reads it."""
        rows = self._device.host_transfers()

        def naming(since: int, until: int) -> Longs:
            found = rows.between(since, until).unify_dictionaries().combine_chunks()
            host = np.where(mapped(found, "kind", {"load_back": 1}) == 1, column(found, "src_page"),
                            column(found, "dst_page"))  # fmt: skip
            mine = (host == page) & (column(found, "group_index") == group)
            return np.asarray(column(found, "round").astype(np.int64)[mine], np.int64)

        return self._device.beyond(round_, step, naming)


def _blocks(least: int, most: int, start: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield stretches of rounds from a round on, each twice as long as the one before up to a limit."""
    size = REACH_ROUNDS
    while least <= start <= most:
        end = min(max(start + step * (size - 1), least), most)
        yield min(start, end), max(start, end)
        start, size = end + step, min(size * 2, _MOST_ROUNDS)


def _rounds_naming(rows: Any, group: str, page: int) -> Longs:
    """Return the rounds of the rows that name a page of a group: in column `page`, or in the lists of `pages`."""
    rows = rows.unify_dictionaries().combine_chunks()
    if "page" in rows.column_names:
        naming = np.flatnonzero(column(rows, "page") == page)
    else:
        lists = rows["pages"].combine_chunks()
        ends = np.cumsum(np.diff(lists.offsets.to_numpy()))
        naming = np.unique(np.searchsorted(ends, np.flatnonzero(lists.flatten().to_numpy() == page), side="right"))
    found: Longs = column(rows, "round").astype(np.int64)[naming[mapped(rows, "group", {group: 1})[naming] == 1]]
    return found
