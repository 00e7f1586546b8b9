"""How many pages stand in each block table behind each plan, put together as table changes come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsviz.replay.rows.buffer import Buffer
from tsviz.replay.rows.lifetimes import Longs, column

from . import bases_tables as t


class _Table:
    """The pages of one block table: its slots, and how often each page stands in them."""

    __slots__ = ("pages", "slots")

    def __init__(self) -> None:
        self.slots: list[int] = []
        self.pages: dict[int, int] = {}

    def put(self, first: int, new: list[int], length: int) -> None:
        """Write a run of slots, and cut the table to its length behind the plan."""
        slots, pages = self.slots, self.pages
        if first > len(slots):
            slots.extend([0] * (first - len(slots)))
        gone = slots[first : first + len(new)]
        slots[first : first + len(new)] = new
        if length < len(slots):
            gone += slots[length:]
            del slots[length:]
        for page in new:
            if page:
                pages[page] = pages.get(page, 0) + 1
        for page in gone:
            if page:
                pages[page] -= 1
                if not pages[page]:
                    del pages[page]


@dataclass(frozen=True, slots=True)
class HeldLog:
    """Counts in order of rounds: those that changed, and where a block of rounds begins those of all tables."""

    rounds: Longs
    tables: Longs
    pages: Longs
    groups: int
    shared: tuple[Longs, Longs, Longs]
    """Round, table, and how many pages of it in front of that round stream-ordered stores of the round read."""

    def at(self, submissions: Longs, round_: int) -> list[tuple[int, ...]]:
        """Return, per submission, how many pages it holds behind the plan of a round, by group."""
        base = round_ // t.BLOCK_ROUNDS * t.BLOCK_ROUNDS
        low, high = np.searchsorted(self.rounds, (base, round_ + 1))
        known = dict(zip(self.tables[low:high].tolist(), self.pages[low:high].tolist(), strict=True))
        return per_request(known, submissions, self.groups)

    def totals(self, submissions: Longs, round_: int) -> Longs:
        """Return, per submission, how many pages it holds behind the plan of a round."""
        return np.array([sum(pages) for pages in self.at(submissions, round_)], np.int64)

    def shared_at(self, submissions: Longs, round_: int) -> Longs:
        """Return, per submission, how many pages that it held in front of a round stores of that round read."""
        rounds, tables, pages = self.shared
        low, high = np.searchsorted(rounds, (round_, round_ + 1))
        totals: dict[int, int] = {}
        for table, count in zip(tables[low:high].tolist(), pages[low:high].tolist(), strict=True):
            totals[table // self.groups] = totals.get(table // self.groups, 0) + count
        return np.array([totals.get(submission, 0) for submission in submissions.tolist()], np.int64)


def per_request(pages: dict[int, int], submissions: Longs, groups: int) -> list[tuple[int, ...]]:
    """Return counts of pages, which are by table (submission x groups + group), per submission."""
    return [
        tuple(pages.get(submission * groups + group, 0) for group in range(groups))
        for submission in submissions.tolist()
    ]


class GrowingHeld:
    """The counts of all tables so far."""

    def __init__(self, groups: Sequence[str]) -> None:
        """`groups` are those of the config, in order."""
        self._groups = {name: number for number, name in reversed(list(enumerate(groups)))}
        self._count = len(groups)
        self._log = Buffer(np.int64), Buffer(np.int64), Buffer(np.int32)
        self._new: tuple[list[int], list[int], list[int]] = ([], [], [])
        self._stored: dict[int, dict[int, set[int]]] = {}
        self._shared = Buffer(np.int64), Buffer(np.int64), Buffer(np.int64)
        self._tables: dict[int, _Table] = {}
        self._changed: dict[int, int] = {}
        self._round, self._base = 0, t.BLOCK_ROUNDS

    def take(self, batch: Any, end_of: Callable[[int], int]) -> None:
        """Take rows of `table_changes`; `end_of` returns the round in which a submission ended, a large one before."""
        groups = [self._groups.get(name, -1) for name in batch["group"].dictionary.to_pylist()]
        lists = batch["pages"]
        offsets, pages = lists.offsets.to_pylist(), lists.values.to_pylist()
        rows = zip(
            column(batch, "round").tolist(), column(batch, "submission").tolist(), batch["group"].indices.to_pylist(),
            batch["fresh"].to_pylist(), column(batch, "first_slot").tolist(), column(batch, "length_slots").tolist(),
            offsets[:-1], offsets[1:], strict=True,
        )  # fmt: skip
        for round_, submission, code, fresh, first, length, low, high in rows:
            if round_ != self._round:
                self._tell()
                self.reach(round_, end_of)
                self._round = round_
            if groups[code] < 0:
                continue
            number = submission * self._count + groups[code]
            table = self._tables.get(number)
            if table is None or fresh:
                table = self._tables[number] = _Table()
            table.put(first, pages[low:high], length)
            self._changed[number] = len(table.pages)
        self._tell()

    def store(self, round_: int, group: int, page: int) -> None:
        """Take a page that a stream-ordered store of a plan reads, before the table changes of that plan."""
        self._stored.setdefault(round_, {}).setdefault(group, set()).add(page)

    def _share(self, round_: int) -> None:
        """Count what stores up to a round read of the pages that tables hold in front of it."""
        for number in [stored for stored in self._stored if stored <= round_]:
            read = self._stored.pop(number)
            some = [
                (number, table, count)
                for table, of in self._tables.items()
                if (pages := read.get(table % self._count)) and (count := len(of.pages.keys() & pages))
            ]
            for log, values in zip(self._shared, np.array(some, np.int64).reshape(-1, 3).T, strict=True):
                log.add(values)

    def reach(self, round_: int, end_of: Callable[[int], int]) -> None:
        """Say what every table holds at the blocks that begin up to a round; what changes in it comes behind."""
        if self._stored:
            self._share(round_)
        while self._base <= round_:
            for number in [n for n in self._tables if end_of(n // self._count) < self._base]:
                del self._tables[number]
            some = sorted((number, len(table.pages)) for number, table in self._tables.items() if table.pages)
            self._add(self._base, some)
            self._base += t.BLOCK_ROUNDS

    def _tell(self) -> None:
        self._add(self._round, sorted(self._changed.items()))
        self._changed.clear()

    def _add(self, round_: int, some: list[tuple[int, int]]) -> None:
        rounds, tables, pages = self._new
        rounds += [round_] * len(some)
        tables += [table for table, _ in some]
        pages += [count for _, count in some]

    def log(self) -> HeldLog:
        """Return what is known so far."""
        for log, new in zip(self._log, self._new, strict=True):
            log.add(np.array(new, np.int64))
            new.clear()
        rounds, tables, pages = (buffer.values for buffer in self._log)
        since, of, shared = (buffer.values for buffer in self._shared)
        return HeldLog(rounds, tables, pages, self._count, (since, of, shared))
