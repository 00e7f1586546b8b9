"""Where the recorded view of a large part reads: compact bases, and row groups of the cold tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tsviz.replay.rows.lifetimes import NEVER, Longs, column
from tsviz.trace.errors import TraceError
from tsviz.trace.grouped import Large
from tsviz.trace.groups import Groups
from tsviz.trace.reader import Part

from . import bases_tables as t
from .bases import Bases, make_bases
from .by_rounds import ByRounds
from .growing_held import per_request
from .lives import Lives, requests_of
from .retractions import Absence
from .snapshot import BlockTable, Row
from .states import Absences
from .tables_by_request import TablesByRequest

_KEPT_TABLES = 8


class BasedTables(ByRounds):
    """A part of which nothing is read whole that grows with its rows."""

    def __init__(self, part: Part, store: Large, bases: Bases) -> None:
        """Read what happened to the requests. Raises `TraceError`."""
        super().__init__(part, store)
        self._bases = bases
        self.life = Lives(requests_of(part), bases.row_spans, bases.result_spans, bases.fates, bases.table_starts)
        gone = bases.absences
        every = zip(*(gone[name].tolist() for name in ("submission", "since_round", "back_round")), strict=True)
        self.absent = Absences([Absence(s, since, NEVER if back < 0 else back) for s, since, back in every])
        self._tables = TablesByRequest(part.config, self.changes, kept=_KEPT_TABLES)

    def replayed(self) -> Longs:
        """Return the rounds with re-fed rows."""
        return self._bases.replayed

    def rows(self, number: int) -> tuple[Row, ...]:
        """Return the rows of a plan."""
        names = self.life.names
        found = self._read(lambda bases: _piece(bases.batches, bases.batch_starts, number))
        read = (found[c.name].to_pylist() for c in t.BATCHES.columns if c.name != "round")
        return tuple(
            Row(kind, names[submission], submission, slot, begin, size, replay, prefill)
            for submission, kind, slot, begin, size, replay, prefill in zip(*read, strict=True)
        )

    def events(self, number: int) -> Sequence[Mapping[str, Any]]:
        """Return the events before a plan: what `rows/event_words.py` says of rows of table `events`."""
        names = self.life.names
        found = self._read(lambda bases: _piece(bases.landings, bases.landing_starts, number))
        rows: list[dict[str, Any]] = found.to_pylist()
        for row in rows:
            if row["request"] is None and row["submission"] >= 0:
                row["request"] = names[row["submission"]]
            delay = row["delay_rounds"]
            row["cause_round"] = None if delay is None else number - delay
        return rows

    def acknowledged(self, op_id: int) -> int | None:
        """Return the round in which an operation was acknowledged."""
        op_ids, rounds = self._bases.acknowledged["op_id"], self._bases.acknowledged["round"]
        position = int(np.searchsorted(op_ids, op_id))
        return int(rounds[position]) if position < len(op_ids) and op_ids[position] == op_id else None

    def held(self, submissions: Longs, number: int) -> Sequence[tuple[int, ...]]:
        """Return how many pages stand in the tables of requests behind a plan, by group of the config."""
        base = number // t.BLOCK_ROUNDS * t.BLOCK_ROUNDS
        found = self._read(lambda bases: bases.held.between(base, number))
        pages = dict(zip(column(found, "table_index").tolist(), column(found, "held_pages").tolist(), strict=True))
        return per_request(pages, submissions, len(self._part.config["cache_groups"]))

    def tables(self, submission: int, number: int, zeroed: dict[str, frozenset[int]]) -> tuple[BlockTable, ...]:
        """Return the tables of a request behind a plan."""
        return self._tables.tables(submission, number, zeroed)

    def changes(self, first: int, last: int) -> Any:
        """Return the table changes of the submissions from the first to the last, request by request."""
        return self._read(lambda bases: bases.request_tables.between(first, last))

    def _read(self, look_up: Callable[[Bases], Any]) -> Any:
        """Return what a look-up finds; bases that turn out to be damaged are built anew first."""
        try:
            return look_up(self._bases)
        except TraceError:
            self._bases = make_bases(self._part, anew=True)
        return look_up(self._bases)


def _piece(table: Groups, starts: tuple[Longs, Longs], number: int) -> Any:
    """Return the rows of the piece that holds a round."""
    rounds, rows = starts
    piece = int(np.searchsorted(rounds, number, side="right")) - 1
    if piece < 0:
        return table.slice(0, 0)
    return table.slice(int(rows[piece]), int(rows[piece + 1]) if piece + 1 < len(rows) else table.rows)
