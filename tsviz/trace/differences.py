"""Block tables as differences: what a plan changed against what was last seen of the same request.

One matrix a group holds the last table of every request-pool slot, so a batch is compared at once; a round in which
no table changed costs one gather and one comparison a group. The same class serves the recorder and verification,
which is why recorded differences and re-executed ones can be compared byte for byte.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int32]
_ABSENT = -1


@dataclass(slots=True)
class Changes:
    """Runs of changed slots of one group in one batch.

    Parallel arrays, one entry a run: `row` in the batch, `first` slot, `length` of the whole table behind the plan,
    `fresh` (only on the first run of a table that starts anew). Run i holds `pages[offsets[i]:offsets[i + 1]]`.
    """

    group: str
    row: Ints
    first: Ints
    length: Ints
    fresh: npt.NDArray[np.bool_]
    offsets: Ints
    pages: Ints


class TableDifferences:
    """Remembers the tables of one scheduler's requests by slot; `update` says what a batch changed."""

    __slots__ = ("_known", "_owner", "_slots")

    def __init__(self, slots: int) -> None:
        """`slots`: size of the request pool; slot numbers are 1-based."""
        self._slots = slots + 1
        self._owner = np.full(self._slots, _ABSENT, np.int64)
        self._known: dict[str, Ints] = {}

    def claim(self, slots: Ints, owners: npt.NDArray[np.int64], anew: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Note who owns which slot and return, per row, whether its tables start anew.

        `anew` marks rows of requests that were admitted again although they may have kept their slot.
        """
        fresh: npt.NDArray[np.bool_] = (self._owner[slots] != owners) | anew
        if fresh.any():
            chosen = slots[fresh]
            self._owner[chosen] = owners[fresh]
            for known in self._known.values():
                known[chosen] = _ABSENT
        return fresh

    def update(self, tables: dict[str, Ints], slots: Ints, fresh: npt.NDArray[np.bool_]) -> list[Changes]:
        """Return the changes of every group of a batch whose rows sit in `slots`, and remember the new tables."""
        changes = []
        for group, table in tables.items():
            width = table.shape[1]
            known = self._known.get(group)
            if known is None or known.shape[1] < width:
                known = self._widen(group, width)
            old = known[slots, :width]
            different = table != old
            if known.shape[1] > width:
                shrunk = (known[slots, width:] != _ABSENT).any(axis=1)
                if shrunk.any():
                    known[slots[shrunk], width:] = _ABSENT
            else:
                shrunk = None
            if not different.any() and (shrunk is None or not shrunk.any()):
                continue
            known[slots, :width] = table
            changes.append(_runs(group, table, different, fresh, shrunk))
        return changes

    def _widen(self, group: str, width: int) -> Ints:
        wider = np.full((self._slots, max(16, width + width // 2)), _ABSENT, np.int32)
        known = self._known.get(group)
        if known is not None:
            wider[:, : known.shape[1]] = known
        self._known[group] = wider
        return wider


def _runs(
    group: str,
    table: Ints,
    different: npt.NDArray[np.bool_],
    fresh: npt.NDArray[np.bool_],
    shrunk: npt.NDArray[np.bool_] | None,
) -> Changes:
    different &= table != _ABSENT
    rows, columns = np.nonzero(different)
    begins = np.empty(len(rows), np.bool_)
    if len(rows):
        begins[0] = True
        np.not_equal(rows[1:], rows[:-1], out=begins[1:])
        first_of_row = begins.copy()
        begins[1:] |= columns[1:] != columns[:-1] + 1
    else:
        first_of_row = begins
    starts = np.flatnonzero(begins)
    row, first = rows[starts], columns[starts]
    offsets = np.append(starts, len(rows))
    fresh_run = fresh[row] & first_of_row[starts]
    pages = table[rows, columns]
    if shrunk is not None and shrunk.any():
        # A table that only became shorter has no changed slot: it gets an empty run that carries the new length.
        bare = np.setdiff1d(np.flatnonzero(shrunk), row)
        row = np.concatenate([row, bare])
        first = np.concatenate([first, (table[bare] != _ABSENT).sum(axis=1)])
        offsets = np.concatenate([offsets, np.full(len(bare), offsets[-1])])
        fresh_run = np.concatenate([fresh_run, fresh[bare]])
    length = (table[row] != _ABSENT).sum(axis=1)
    return Changes(
        group,
        row.astype(np.int32),
        first.astype(np.int32),
        length.astype(np.int32),
        fresh_run,
        offsets.astype(np.int32),
        pages,
    )
