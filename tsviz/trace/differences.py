"""Block tables as differences: what a plan changed against what was last seen of the same request.

One matrix a group holds the last table of every request-pool slot, so a batch is compared at once; a round in which
no table changed costs one gather and one comparison a group. The same class serves the recorder and verification,
which is why recorded differences and re-executed ones can be compared byte for byte.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .plan_fields import Grown

Ints = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
_ABSENT = -1


@dataclass(slots=True)
class Changes:
    """Runs of changed slots of one group in one batch.

    Parallel arrays, one entry a run: `row` in the batch, `first` slot, `length` of the whole table behind the plan,
    `fresh` (only on the first run of a table that starts anew). Run i holds `pages[offsets[i]:offsets[i + 1]]`; it is
    empty where a table only became shorter, or starts anew without a page.
    """

    group: str
    row: Ints
    first: Ints
    length: Ints
    fresh: Flags
    offsets: Ints
    pages: Ints


class _Known:
    """The last table of one group by slot: pages padded with -1, and how many slots of each are filled."""

    __slots__ = ("lengths", "pages")

    def __init__(self) -> None:
        self.pages: Ints = np.full((0, 0), _ABSENT, np.int32)
        self.lengths: npt.NDArray[np.int64] = np.zeros(0, np.int64)

    def fit(self, rows: int, width: int) -> None:
        """Grow to at least this size."""
        have_rows, have_width = self.pages.shape
        if rows > have_rows or width > have_width:
            wider = np.full((max(rows, have_rows), max(16, have_width, width + width // 2)), _ABSENT, np.int32)
            wider[:have_rows, :have_width] = self.pages
            self.pages = wider
            self.lengths = np.concatenate([self.lengths, np.zeros(len(wider) - have_rows, np.int64)])


class TableDifferences:
    """Remembers the tables of one scheduler's requests by slot; `update` says what a batch changed.

    Memory follows the highest slot that was seen, not the size of the request pool, which a config may overstate.
    """

    __slots__ = ("_known", "_owner")

    def __init__(self) -> None:
        self._owner = np.full(64, _ABSENT, np.int64)
        self._known: dict[str, _Known] = {}

    def known(self) -> tuple[npt.NDArray[np.int64], dict[str, list[Ints]]]:
        """Return who owns which slot, and by group the last table of every slot: what `adopt` takes."""
        tables = {}
        for group, known in self._known.items():
            filled = (known.pages != _ABSENT).sum(axis=1).tolist()
            tables[group] = [row[:length].copy() for row, length in zip(known.pages, filled, strict=True)]
        return self._owner.copy(), tables

    def adopt(self, owner: npt.NDArray[np.int64], tables: dict[str, list[Ints]]) -> None:
        """Go on from what `known` returned."""
        self._owner = np.array(owner, np.int64)
        for group, rows in tables.items():
            known = self._known[group] = _Known()
            known.fit(max(len(rows), len(owner)), max(map(len, rows), default=0))
            for slot, row in enumerate(rows):
                known.pages[slot, : len(row)] = row
                known.lengths[slot] = len(row)

    def claim(self, slots: Ints, owners: Ints, anew: Flags) -> Flags:
        """Note who owns which slot and return, per row, whether its tables start anew.

        `anew` marks rows of requests that were admitted again although they may have kept their slot.
        """
        if (highest := int(slots.max(initial=0))) >= len(self._owner):
            more = highest + 1 + highest // 2 - len(self._owner)
            self._owner = np.concatenate([self._owner, np.full(more, _ABSENT, np.int64)])
        fresh: Flags = (self._owner[slots] != owners) | anew
        if fresh.any():
            chosen = slots[fresh]
            self._owner[chosen] = owners[fresh]
            for known in self._known.values():
                there = chosen[chosen < len(known.lengths)]
                known.pages[there] = _ABSENT
                known.lengths[there] = 0
        return fresh

    def update(self, tables: dict[str, Ints], slots: Ints, fresh: Flags) -> list[Changes]:
        """Return the changes of every group of a batch whose rows sit in `slots`, and remember the new tables."""
        changes = []
        any_fresh = bool(fresh.any())
        for group, table in tables.items():
            width = table.shape[1]
            known = self._known.get(group)
            if known is None:
                known = self._known[group] = _Known()
            known.fit(len(self._owner), width)
            different = table != known.pages[slots, :width]
            beyond = known.lengths[slots] > width
            if not (any_fresh or different.any() or beyond.any()):
                continue
            known.pages[slots, :width] = table
            known.pages[slots[beyond], width:] = _ABSENT
            changed = _runs(group, table, different, fresh, beyond)
            known.lengths[slots[changed.row]] = changed.length
            if len(changed.row):
                changes.append(changed)
        return changes

    def grow(self, groups: Sequence[str], rows: Sequence[Grown], slots: Ints) -> list[Changes]:
        """Return what `update` does where tables have only grown: a run a row and group, taken from its new pages."""
        changes = []
        for index, group in enumerate(groups):
            grown = [(row, *tables[index]) for row, tables in rows if tables[index][1] < tables[index][2]]
            if not grown:
                continue
            known = self._known[group]
            known.fit(len(self._owner), max(end for *_, end in grown))
            pages, offsets = array("i"), [0]
            for row, table, start, end in grown:
                slot, new = slots[row], table[start:end]
                known.pages[slot, start:end] = new
                known.lengths[slot] = end
                pages += new
                offsets.append(len(pages))
            numbers, first, length = (np.array([one[at] for one in grown], np.int32) for at in (0, 2, 3))
            fresh, runs = np.zeros(len(grown), np.bool_), np.array(offsets, np.int32)
            changes.append(Changes(group, numbers, first, length, fresh, runs, np.frombuffer(pages, np.int32)))
        return changes


def _runs(group: str, table: Ints, different: Flags, fresh: Flags, beyond: Flags) -> Changes:
    """Cut the changed slots into runs; `beyond` marks rows that were longer than the batch is wide."""
    filled = table != _ABSENT
    written = different & filled
    rows, columns = np.nonzero(written)
    begins = np.ones(len(rows), np.bool_)
    np.not_equal(rows[1:], rows[:-1], out=begins[1:])
    first_of_row = begins.copy()
    begins[1:] |= columns[1:] != columns[:-1] + 1
    starts = np.flatnonzero(begins)
    row, first = rows[starts], columns[starts]
    offsets = np.append(starts, len(rows))
    fresh_run = fresh[row] & first_of_row[starts]
    # Rows without a written slot that changed all the same get an empty run, which carries the new length.
    silent = fresh | beyond | (different & ~filled).any(axis=1)
    silent[row] = False
    if silent.any():
        bare = np.flatnonzero(silent)
        row = np.concatenate([row, bare])
        first = np.concatenate([first, filled[bare].sum(axis=1)])
        offsets = np.concatenate([offsets, np.full(len(bare), offsets[-1])])
        fresh_run = np.concatenate([fresh_run, fresh[bare]])
    return Changes(
        group,
        row.astype(np.int32),
        first.astype(np.int32),
        filled[row].sum(axis=1).astype(np.int32),
        fresh_run,
        offsets.astype(np.int32),
        table[rows, columns],
    )
