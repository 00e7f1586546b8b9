"""How many pages stand in each block table of each request behind each change, from the rows of `table_changes`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import Longs, column, keys


@dataclass(frozen=True, slots=True)
class HeldPages:
    """Counts in order of (table, round), one where a table changes; table number = submission x groups + group."""

    keys: Longs
    pages: Longs
    groups: int

    def of_tables(self, tables: Longs, round_: int) -> Longs:
        """Return, per table, how many distinct pages stand in it behind the plan of a round."""
        if not len(self.keys):
            return np.zeros(len(tables), np.int64)
        position = np.searchsorted(self.keys, (tables << 32) | round_, side="right") - 1
        found = (position >= 0) & ((self.keys[np.maximum(position, 0)] >> 32) == tables)
        return np.where(found, self.pages[np.maximum(position, 0)], 0)

    def at(self, submissions: Longs, round_: int) -> Longs:
        """Return, per submission and group (n x groups), how many pages it holds behind the plan of a round."""
        tables = submissions[:, None] * self.groups + np.arange(self.groups)
        found: Longs = self.of_tables(tables.ravel(), round_).reshape(tables.shape)
        return found


def held_pages(changes: Any, group: Longs, groups: int) -> HeldPages:
    """Return the counts of a part. `changes` is `table_changes`, `group` the number of each row's group.

    Rows of groups that the config does not name (numbers outside 0 .. groups - 1) are left out.
    """
    table = column(changes, "submission").astype(np.int64) * groups + group
    order = np.argsort(table, kind="stable")
    order = order[(group[order] >= 0) & (group[order] < groups)]
    if not len(order):
        return HeldPages(np.zeros(0, np.int64), np.zeros(0, np.int64), groups)
    where = keys(table[order], column(changes, "round")[order])
    counts = _in_tables(changes, order, table[order])
    last = np.concatenate([where[1:] != where[:-1], [True]])
    return HeldPages(where[last], counts[last], groups)


def _in_tables(changes: Any, order: Longs, table: Longs) -> Longs:
    """Return the distinct pages in the row's own table behind each row, rows in `order`: table by table."""
    fresh = changes["fresh"].to_numpy(zero_copy_only=False)[order]
    first, length = column(changes, "first_slot")[order].astype(np.int64), column(changes, "length_slots")[order]
    lists = changes["pages"].combine_chunks()
    offsets, pages = lists.offsets.to_numpy(), lists.values.to_numpy()
    begin, end = offsets[:-1][order].astype(np.int64), offsets[1:][order].astype(np.int64)
    starts = fresh | np.concatenate([[True], table[1:] != table[:-1]])
    epoch = np.cumsum(starts) - 1
    expected = np.where(starts, 0, np.concatenate([[0], length[:-1]]))
    filled = np.concatenate([[0], np.cumsum(pages != 0)])
    appended = (first == expected) & (length == first + end - begin) & (filled[end] - filled[begin] == end - begin)
    plain = np.ones(int(epoch[-1]) + 1, np.bool_)
    plain[epoch[~appended]] = False
    plain[_repeated(epoch, begin, end, pages)] = False
    counts = length.astype(np.int64)
    bounds = np.append(np.flatnonzero(starts), len(order))
    for number in np.flatnonzero(~plain).tolist():
        low, high = int(bounds[number]), int(bounds[number + 1])
        counts[low:high] = _replayed(first[low:high], length[low:high], begin[low:high], end[low:high], pages)
    return counts


def _repeated(epoch: Longs, begin: Longs, end: Longs, pages: npt.NDArray[np.int32]) -> Longs:
    """Return the epochs in which a page is written more than once."""
    sizes = end - begin
    total = int(sizes.sum())
    at = np.repeat(begin - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes) + np.arange(total)
    written = np.sort((np.repeat(epoch, sizes) << 32) | pages[at])
    return np.unique(written[1:][written[1:] == written[:-1]] >> 32)


def _replayed(first: Longs, length: Longs, begin: Longs, end: Longs, pages: npt.NDArray[np.int32]) -> Longs:
    """Return the counts behind the changes of one table, made one after the other."""
    there: Counter[int] = Counter()
    slots: list[int] = []
    counts = np.empty(len(first), np.int64)
    columns = zip(first.tolist(), length.tolist(), begin.tolist(), end.tolist(), strict=True)
    for row, (slot, size, low, high) in enumerate(columns):
        slots.extend([0] * (slot - len(slots)))
        new = pages[low:high].tolist()
        old = slots[slot : slot + len(new)]
        slots[slot : slot + len(new)] = new
        old += slots[size:]
        del slots[size:]
        there.update(new)
        there.subtract(old)
        for page in {*old, *new}:
            if there[page] <= 0:
                del there[page]
        counts[row] = len(there) - (0 in there)
    return counts
