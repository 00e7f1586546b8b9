"""From a moment to a round: a timestamp pasted from a log, or a time since the start of a run (debugger.md, section 2).

A part whose clock is the monotonic one of a machine is put on the wall clock by the anchor of its bundle; a virtual
clock belongs to its run and has no place there, and neither has one that counts from the start of its run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import column
from tsviz.trace.errors import TraceError
from tsviz.trace.merging import clock_offset_ns
from tsviz.trace.reader import Bundle, Part

Numbers = npt.NDArray[Any]
_MINUTE_NS, _HOUR_NS = 60 * 10**9, 3600 * 10**9


@dataclass(frozen=True, slots=True)
class AtRound:
    """The round that was under way at a moment; `note` says that this is the last one, which may have ended."""

    round: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class NoMoment:
    """Why a moment has no round."""

    reason: str


def wall_offset_ns(bundle: Bundle, part: Part, first_ns: int) -> int | NoMoment:
    """Return what to add to times of a part for ns since 1970, or why that is not known.

    `first_ns` is when its first round began. A clock that counts from the start of its run is told from that of the
    machine by its anchor: a bundle is opened within the hour, and a machine is up for a minute before it schedules.
    """
    if part.clock == "virtual":
        return NoMoment("this trace runs on a virtual clock: a time such as 12.5s counts from its start")
    try:
        offset_ns = clock_offset_ns(bundle)
    except TraceError as error:
        return NoMoment(str(error))
    before_ns = bundle.description["clock_anchor"]["monotonic_ns"] - first_ns
    if before_ns > _HOUR_NS or (first_ns < _MINUTE_NS < before_ns):
        return NoMoment("its clock counts from the start of its run, not with the machine's: a time such as 12.5s does")
    return offset_ns


def round_at(
    bundle: Bundle, part: Part, time_ns: int, *, wall: bool, columns: tuple[Numbers, Numbers] | None = None
) -> AtRound | NoMoment:
    """Return the last round that began at or before a moment: ns since 1970, or since the part's clock began.

    `columns` are `round` and `start_ns` of table `rounds`, from whoever has them.
    """
    if columns is None:
        rounds = part.table("rounds")
        columns = column(rounds, "round"), column(rounds, "start_ns")
    numbers, starts = columns[0], columns[1].astype(np.int64, copy=False)
    if not len(starts):
        return NoMoment("this trace has no rounds")
    offset_ns = 0
    if wall:
        found = wall_offset_ns(bundle, part, int(starts[0]))
        if isinstance(found, NoMoment):
            return found
        offset_ns = found
    elif part.clock != "virtual":
        offset_ns = -int(starts[0])
    index = int(np.searchsorted(starts, time_ns - offset_ns, side="right")) - 1
    if index < 0:
        return NoMoment("the moment lies before the first round")
    note = "the moment lies behind the begin of the last round" if index == len(starts) - 1 else ""
    return AtRound(int(numbers[index]), note)
