"""The pages of a part as it is opened: from whole tables, or of a large part from stretches of it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tsviz.replay.decided.view import DERIVED, RECORDED, DecidedTables
from tsviz.replay.reexecution.index import open_index
from tsviz.replay.rows.lifetimes import Lifetimes, Longs, column, keys
from tsviz.trace.reader import Part

from .live import LivePageSource
from .map import PagesHistory
from .spells import mapped
from .start import start_of

_ROUND = 0xFFFF_FFFF
Decided = tuple[DecidedTables, str, int]
"""Decision tables, where they come from, and the last round that they know."""


def decided_of(part: Part) -> Decided | None:
    """Return the decisions of a part, where they are recorded or indexed. Raises `TraceError`."""
    if part.level == "decisions":
        return part, RECORDED, part.last_round
    index = open_index(part)
    return None if index is None else (index, DERIVED, index.last_round)


def open_pages(part: Part, life: Lifetimes, absences: Callable[[], Longs]) -> PagesHistory:
    """Return the pages of a part, with its decisions where they are recorded or indexed. Raises `TraceError`.

    `absences` are the keys of retractions as the recording alone tells them; decisions name each victim, as far as
    they reach.
    """
    live, decided = LivePageSource(part), decided_of(part)
    if decided is None:
        return PagesHistory(part, life, absences(), live)
    tables, _, last = decided
    gone = retracted(tables, life.names)
    if last < part.last_round:
        told = absences()
        gone = np.concatenate([gone[gone & _ROUND <= last], told[told & _ROUND > last]])
    return PagesHistory(part, life, gone, live, decided, start_of(part))


def retracted(tables: DecidedTables, names: list[str]) -> Longs:
    """Return when requests lost their pages, from decided states; one by the runtime carries the plan before it."""
    states, loop = tables.table("states"), tables.table("retractions")
    rows = np.flatnonzero(mapped(states, "after", {"Retracted": 1}) == 1)
    submission, round_ = column(states, "submission")[rows].tolist(), column(states, "round")[rows].tolist()
    taken = np.flatnonzero(mapped(loop, "outcome", {"retracted": 1}) == 1)
    victims = set(zip(column(loop, "round")[taken].tolist(), loop["victim"].take(taken).to_pylist(), strict=True))
    when = [r if (r, names[who]) in victims else r + 1 for who, r in zip(submission, round_, strict=True)]
    return keys(np.array(submission, np.int64), np.array(when, np.int64))
