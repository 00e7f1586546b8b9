"""From a moment to a round: a timestamp pasted from a log, or a time since the start of a run (debugger.md, section 2).

A part whose clock is the monotonic one of a machine is put on the wall clock by the anchor of its bundle; a virtual
clock belongs to its run and has no place there (`merge.axis_of`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.diff.axis import CannotMerge, axis_of
from tsviz.replay.rows.lifetimes import column
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Bundle, Part

Numbers = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class AtRound:
    """The round that was under way at a moment; `note` says where the moment lies outside of the trace."""

    round: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class NoMoment:
    """Why a moment has no round."""

    reason: str


def round_at(
    bundle: Bundle, part: Part, time_ns: int, *, wall: bool, columns: tuple[Numbers, Numbers] | None = None
) -> AtRound | NoMoment:
    """Return the last round that began at or before a moment: ns since 1970, or since the part's clock began.

    `columns` are `round` and `start_ns` of table `rounds`, from whoever has them.
    """
    if columns is None:
        rounds = part.table("rounds")
        columns = column(rounds, "round"), column(rounds, "start_ns")
    numbers, starts = columns[0], columns[1].astype(np.int64)
    if not len(starts):
        return NoMoment("this trace has no rounds")
    offset_ns = 0
    if wall:
        try:
            axis = axis_of([bundle])
        except (TraceError, CannotMerge) as error:
            return NoMoment(str(error))
        if axis.kind == "virtual":
            return NoMoment("this trace runs on a virtual clock: a time such as 12.5s counts from its start")
        offset_ns = next(
            added for _, placed, added in axis.parts if (placed.node, placed.rank) == (part.node, part.rank)
        )
    elif part.clock != "virtual":
        offset_ns = -int(starts[0])
    index = int(np.searchsorted(starts + offset_ns, time_ns, side="right")) - 1
    if index < 0:
        return AtRound(int(numbers[0]), "the moment lies before the first round")
    note = "the moment lies behind the begin of the last round" if index == len(starts) - 1 else ""
    return AtRound(int(numbers[index]), note)
