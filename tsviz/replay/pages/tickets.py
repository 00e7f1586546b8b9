"""Pages that operations between the tiers hold until they are acknowledged: sources of stores, targets of loads."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import NEVER, Longs, column

from .spells import Layout, mapped
from .window import PagesPart


class Tickets:
    """One row a device page that a store pins or a load fills, with the rounds of its beginning and end."""

    def __init__(self, part: PagesPart, layout: Layout) -> None:
        """Raises `TraceError` when a table cannot be read."""
        transfers, events = part.table("transfers"), part.table("events")
        load = mapped(transfers, "kind", {"load_back": 1}) == 1
        pinned = transfers["source_pinned"].fill_null(False).to_numpy(zero_copy_only=False).astype(np.bool_)
        group = column(transfers, "group_index").astype(np.int64)
        page = np.where(load, column(transfers, "dst_page"), column(transfers, "src_page")).astype(np.int64)
        kept = np.flatnonzero((load | pinned) & (group >= 0) & (group < len(layout.packing)) & (page > 0))
        bases, ends = np.array(layout.base[:-1], np.int64), np.array(layout.base[1:], np.int64)
        number = bases[group[kept]] + page[kept]
        inside = number < ends[group[kept]]
        kept = kept[inside]
        self.number: npt.NDArray[np.int64] = number[inside]
        self.op_id = column(transfers, "op_id").astype(np.int64)[kept]
        self.load = load[kept]
        self.from_round = column(transfers, "round").astype(np.int64)[kept]
        self.to_round, failed = acknowledged(events, self.op_id, self.from_round)
        later = transfers["from_storage"].to_numpy(zero_copy_only=False).astype(np.bool_)[kept]
        self.landed: Longs = np.where(later, np.where(failed, NEVER, self.to_round), self.from_round)
        """Of a load: the round in which its page enters the index; behind the acknowledgement if it must be fetched."""

    def at(self, round_: int) -> Longs:
        """Return the rows that hold their page behind the plan of a round."""
        return np.flatnonzero((self.from_round <= round_) & (self.to_round > round_))

    def of_page(self, number: int) -> Longs:
        """Return the rows of one page."""
        return np.flatnonzero(self.number == number)


def acknowledged(events: Any, op_id: Longs, from_round: Longs) -> tuple[Longs, npt.NDArray[np.bool_]]:
    """Return, for each operation, the round in front of whose plan it was acknowledged, and whether it failed."""
    answer = answers(events, op_id, from_round)
    rounds: Longs = np.append(column(events, "round").astype(np.int64), NEVER)[answer]
    return rounds, (answer >= 0) & (np.append(column(events, "value", 1), 1)[answer] == 0)


def answers(events: Any, op_id: Longs, from_round: Longs) -> Longs:
    """Return, for each operation, the row of the first acknowledgement that was applied behind it; -1: none."""
    op_ids, rounds = column(events, "op_id").astype(np.int64), column(events, "round").astype(np.int64)
    applied = events["applied"].to_numpy(zero_copy_only=False).astype(np.bool_)
    rows = np.flatnonzero((op_ids >= 0) & applied)
    rows = rows[np.lexsort((rows, op_ids[rows]))]
    if not len(rows):
        return np.full(len(op_id), -1, np.int64)
    keys = op_ids[rows] << 32 | rounds[rows]
    position = np.searchsorted(keys, (op_id << 32 | from_round), side="right")
    row = rows[np.minimum(position, len(rows) - 1)]
    return np.where((position < len(rows)) & (op_ids[row] == op_id), row, -1)
