"""Hit lists: every position at which a predicate holds, computed once and not by stepping (debugger.md, section 2).

Predicates are SQL of the user over the catalog (`tsviz.query.predicate`). `hits` asks an open locked catalog;
`hits_apart` opens the traces in a process of its own, for traces and predicates that are not the user's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from tsviz.query.catalog import literal
from tsviz.query.child import ask
from tsviz.query.locked import Limits, Locked, Total
from tsviz.query.predicate import TYPES, positions
from tsviz.query.problem import Kind, Problem, QueryError

OPENER = "tsviz.replay.reexecution.index:open_indexed"
LIMITS = Limits(rows=1_000_000, count_rows=100_000_000)
"""Limits of a hit list: as many positions as anybody steps through, and their number beyond."""
_COLUMNS = ", ".join(TYPES)
_PARTS = 1024
_END = 1 << 31
"""Behind every stop of a round: where a hit without a stop is, and a position without one."""


class Wanted(StrEnum):
    """Which hits are wanted: all, or one of them."""

    ALL = "all"
    FIRST = "first"
    LAST = "last"
    NEXT = "next"
    PREVIOUS = "previous"


@dataclass(frozen=True, slots=True)
class Near:
    """Where hits are sought: in which part (any without node and rank), and the position that NEXT and PREVIOUS need.

    A position without a stop is the end of its round, behind all stops.
    """

    node: str | None = None
    rank: int | None = None
    round: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A part whose decisions are not known, or only up to a round, so that it may have hits which are not listed."""

    trace: str
    node: str
    rank: int
    known_round: int
    recorded_round: int

    def __str__(self) -> str:
        """Return it in words."""
        what = f"are known up to round {self.known_round:,} of {self.recorded_round:,}" if self.known_round else (
            f"are not known ({self.recorded_round:,} rounds)")  # fmt: skip
        return (
            f"{self.trace} {self.node}/{self.rank}: decisions {what}; what needs them has no hits there (tsviz index)"
        )


@dataclass(frozen=True, slots=True)
class Hits:
    """Where a predicate holds."""

    positions: pa.Table
    """`trace, node, rank, round, stop, submission, request`, distinct and sorted. `stop` is null for what holds at the
    end of a round; `submission` and `request` where the predicate names none."""
    total: Total
    """How many positions these are, and of how many."""
    unknown: tuple[Unknown, ...] = ()
    """Parts in which the predicate could not be asked of every round."""
    left_out: tuple[Problem, ...] = ()
    """Bundles that could not be read, where that was allowed."""


def hits(
    locked: Locked, predicate: str, wanted: Wanted = Wanted.ALL, near: Near | None = None, *, limits: Limits = LIMITS
) -> Hits:
    """Return the hits of a predicate in the opened traces. Raises `QueryError`; its place is in the predicate.

    Of the limits only those on rows are heeded: time and memory are those of the connection.
    """
    return _hits(lambda sql: locked.stream(sql, _roomier(limits)), predicate, wanted, near or Near(), limits)


def hits_apart(
    paths: Sequence[str], predicate: str, wanted: Wanted = Wanted.ALL, near: Near | None = None, *,
    limits: Limits = LIMITS, opener: str = OPENER, optional: Collection[str] = (),
) -> Hits:  # fmt: skip
    """Return what `hits` does, from a process that opens the bundles at `paths`, under hard limits.

    Bundles in `optional` that cannot be read are left out.
    """
    return _hits(
        lambda sql: ask(paths, sql, _roomier(limits), opener, optional=optional),
        predicate,
        wanted,
        near or Near(),
        limits,
    )


class _Result(Protocol):
    """An open result, of this process or of another one."""

    total: Total | None
    left_out: list[Problem]

    @property
    def schema(self) -> pa.Schema:
        """Its columns."""

    def __iter__(self) -> Iterator[pa.RecordBatch]: ...


def _hits(
    open_: Callable[[str], AbstractContextManager[_Result]], predicate: str, wanted: Wanted, near: Near, limits: Limits
) -> Hits:
    asked = positions(predicate)
    head, tail = _around(wanted, near)
    try:
        with open_(f"{head}{asked.sql}{tail}") as result:
            table = pa.Table.from_batches(list(result), result.schema)
            total = result.total
            left_out = tuple(result.left_out)
    except QueryError as error:
        raise QueryError(_placed(error.problem, len(head) + asked.shift, predicate)) from error
    assert total is not None
    is_part = table.column("part")
    parts = table.filter(is_part)
    found = _named(table.filter(pc.invert(is_part)).drop_columns(["part"]), parts)
    unknown = tuple(_unknown(row) for row in parts.to_pylist() if (row["round"] or 0) < (row["stop"] or 0))
    found = found.slice(0, limits.rows)
    given = Total(found.num_rows, total.of - parts.num_rows, total.exact)
    return Hits(found, given, unknown if asked.needs_decisions else (), left_out)


def _roomier(limits: Limits) -> Limits:
    """Return limits with room for the rows that say what the parts are."""
    return limits if limits.rows is None else replace(limits, rows=limits.rows + _PARTS)


def _around(wanted: Wanted, near: Near) -> tuple[str, str]:
    """Return the query around the one for positions: parts in front, then distinct positions in order."""
    behind = f"coalesce(stop, {_END})"
    here = f"({near.round:d}, {_END if near.stop is None else near.stop:d})"
    conditions = ["round IS NOT NULL"]
    if near.node is not None:
        conditions.append(f"coalesce(node, {literal(near.node)}) = {literal(near.node)}")
    if near.rank is not None:
        conditions.append(f"coalesce(rank, {near.rank:d}) = {near.rank:d}")
    if wanted in (Wanted.NEXT, Wanted.PREVIOUS):
        conditions.append(f"(round, {behind}) {'>' if wanted is Wanted.NEXT else '<'} {here}")
    back = "DESC" if wanted in (Wanted.LAST, Wanted.PREVIOUS) else ""
    order = f"round {back}, {behind} {back}, trace, node, rank, submission, request LIMIT 1"
    if wanted is Wanted.ALL:
        order = f"trace, node, rank, round, {behind}, submission, request"
    head = (
        f"SELECT true AS part, trace, node, rank, decided_round AS round, last_round AS stop, NULL AS submission,"
        f" NULL AS request FROM parts UNION ALL SELECT * FROM (SELECT DISTINCT false AS part, {_COLUMNS} FROM (\n"
    )
    return head, f"\n) WHERE {' AND '.join(conditions)} ORDER BY {order})"


def _named(found: pa.Table, parts: pa.Table) -> pa.Table:
    """Fill in the part where a query did not say it. Raises `QueryError` where there are several."""
    for name in ("trace", "node", "rank"):
        column = found.column(name)
        if not column.null_count:
            continue
        if parts.num_rows != 1:
            message = f"the query gives no {name}, and there are {parts.num_rows} parts: hits need trace, node and rank"
            raise QueryError(Problem(Kind.FAILED, message))
        filled = pc.fill_null(column, parts.column(name)[0])
        found = found.set_column(found.schema.get_field_index(name), name, filled)
    return found


def _unknown(row: Mapping[str, Any]) -> Unknown:
    return Unknown(row["trace"], row["node"], row["rank"], row["round"] or 0, row["stop"] or 0)


def _placed(problem: Problem, shift: int, predicate: str) -> Problem:
    """Return a problem of the whole query as one of the predicate."""
    at = problem.at
    if "_asked" in problem.message:
        return Problem(problem.kind, "the query gives no column round: a hit is a position")
    if at is None or not 0 <= at[0] - shift <= len(predicate) + 1:
        return replace(problem, at=None)
    if at[0] - shift > len(predicate.rstrip()):
        return replace(problem, message="the predicate ends too early", at=(len(predicate.rstrip()), 1))
    return replace(problem, at=(at[0] - shift, at[1]))
