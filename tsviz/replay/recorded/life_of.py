"""What happened to every request of a part, and its block tables: from tables held whole, or from compact bases."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from tsviz.replay.rows.lifetimes import Lifetimes
from tsviz.trace.catalogue import TABLES
from tsviz.trace.reader import Part

from .bases import Bases, make_bases
from .block_tables import RecordedTables
from .lives import Lives, Requests

LARGE_ROWS = 1_000_000
"""Parts with more rows in all tables are looked at through compact bases: held whole, a row takes some 130 bytes."""
_KEPT_TABLES = 128


class HeldTables(Protocol):
    """Block tables of requests, by (submission, round)."""

    def held(self, submission: int, round_: int) -> frozenset[tuple[int, int]]:
        """Return the (group index, page) pairs that stand in the request's tables behind the plan of `round_`."""
        ...

    def at(self, submission: int, round_: int) -> dict[str, list[int]]:
        """Return the tables as last written at or before `round_`, by group; 0 is a hole."""
        ...


class TablesByRequest:
    """Block tables of a large part, of which those of the last requests that were asked for are kept."""

    def __init__(self, part: Part, bases: Bases) -> None:
        self._part, self._bases = part, bases
        self._kept: OrderedDict[int, RecordedTables] = OrderedDict()

    def held(self, submission: int, round_: int) -> frozenset[tuple[int, int]]:
        """Return the (group index, page) pairs that stand in the request's tables behind the plan of `round_`."""
        return self._of(submission).held(submission, round_)

    def at(self, submission: int, round_: int) -> dict[str, list[int]]:
        """Return the tables as last written at or before `round_`, by group; 0 is a hole."""
        return self._of(submission).at(submission, round_)

    def _of(self, submission: int) -> RecordedTables:
        kept = self._kept
        if submission not in kept:
            changes = self._bases.request_tables.between(submission, submission)
            kept[submission] = RecordedTables(changes, self._part.config, kept=2)
            while len(kept) > _KEPT_TABLES:
                kept.popitem(last=False)
        kept.move_to_end(submission)
        return kept[submission]


def is_large(part: Part) -> bool:
    """Whether a part is looked at through compact bases; one that is not closed has none, whatever its size."""
    return part.cold is not None and sum(part.rows(name) for name in TABLES) > LARGE_ROWS


def life_of(part: Part) -> tuple[Lifetimes | Lives, HeldTables]:
    """Return what happened to the requests of a part, and their tables. Raises `TraceError`, OSError.

    Of a large part bases are built first where there are none; rows of its requests are spans of rounds.
    """
    if not is_large(part):
        return Lifetimes(part), RecordedTables(part.table("table_changes"), part.config)
    bases = make_bases(part)
    life = Lives(Requests(part), bases.row_spans, bases.result_spans, bases.fates, bases.table_starts)
    return life, TablesByRequest(part, bases)
