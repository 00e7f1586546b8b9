"""What happened to every request of a part, and its block tables: from tables held whole, or from compact bases."""

from __future__ import annotations

from typing import Protocol

from tsviz.replay.rows.lifetimes import Lifetimes
from tsviz.trace.catalogue import TABLES
from tsviz.trace.reader import Part

from .bases import make_bases
from .block_tables import RecordedTables
from .lives import Lives, requests_of
from .tables_by_request import TablesByRequest

LARGE_ROWS = 1_000_000
"""Parts with more rows in all tables are looked at through compact bases: held whole, a row takes some 130 bytes."""


class HeldTables(Protocol):
    """Block tables of requests, by (submission, round)."""

    def held(self, submission: int, round_: int) -> frozenset[tuple[int, int]]:
        """Return the (group index, page) pairs that stand in the request's tables behind the plan of `round_`."""
        ...

    def at(self, submission: int, round_: int) -> dict[str, list[int]]:
        """Return the tables as last written at or before `round_`, by group; 0 is a hole."""
        ...


def is_large(part: Part) -> bool:
    """Whether a part is looked at through compact bases; one that is not closed has none, whatever its size."""
    return part.cold is not None and has_many_rows(part)


def has_many_rows(part: Part) -> bool:
    """Whether a part has more rows than are held whole."""
    return sum(part.rows(name) for name in TABLES) > LARGE_ROWS


Life = tuple[Lifetimes | Lives, HeldTables]


def life_of(part: Part) -> Life:
    """Return what happened to the requests of a part, and their tables. Raises `TraceError`, OSError.

    Of a large part bases are built first where there are none; rows of its requests are spans of rounds.
    """
    if not is_large(part):
        return Lifetimes(part), RecordedTables(part.table("table_changes"), part.config)
    bases = make_bases(part)
    life = Lives(requests_of(part), bases.row_spans, bases.result_spans, bases.fates, bases.table_starts)
    return life, TablesByRequest(part.config, bases.request_tables.between)
