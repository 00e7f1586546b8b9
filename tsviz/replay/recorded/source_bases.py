"""Where the recorded view of a large part reads: compact bases, and row groups of the cold tables."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import NEVER, Longs, column
from tsviz.trace.cold import ColdTables
from tsviz.trace.errors import TraceError
from tsviz.trace.grouped import GroupedTable
from tsviz.trace.reader import Part
from tsviz.trace.tables import RECORDED

from . import bases_tables as t
from .bases import Bases, make_bases
from .block_tables import RecordedTables
from .lives import Lives, Requests
from .retractions import Absence
from .snapshot import BlockTable, Row
from .source import by_group
from .states import Absences

_ROUNDS = (
    "round", "start_ns", "scheduled_tokens", "bootstrapping_requests", "waiting_requests", "prefilling_requests",
    "decoding_requests", "pd_transfer_requests", "retracted_requests", "empty_pages",
)  # fmt: skip
_TRANSFERS = ("round", "op_id", "kind", "source_pinned")
_KEPT_TABLES = 8


class ColdRounds:
    """What the cold tables tell of single rounds, by row group."""

    def __init__(self, part: Part, store: ColdTables) -> None:
        """Raises `TraceError`."""
        self._part = part
        self._rounds = GroupedTable(store, RECORDED["rounds"], _ROUNDS)
        self._transfers = GroupedTable(store, RECORDED["transfers"], _TRANSFERS)
        self._zeroed = GroupedTable(store, RECORDED["zeroed"], ("round", "group", "page"))
        self._store, self._wide = store, dict[str, GroupedTable]()
        self.numbers = self._rounds.column("round")

    def of_rounds(self, name: str) -> npt.NDArray[Any]:
        """Return a column of table `rounds`."""
        return self._rounds.column(name)

    def round_row(self, index: int) -> dict[str, Any]:
        """Return a row of table `rounds` by its number."""
        row: dict[str, Any] = self._rounds.slice(index, index + 1).to_pylist()[0]
        return row

    def transfers(self, number: int) -> list[dict[str, Any]]:
        """Return the rows of table `transfers` of a plan."""
        rows: list[dict[str, Any]] = self._transfers.between(number, number).to_pylist()
        return rows

    def zeroed(self, number: int) -> dict[str, frozenset[int]]:
        """Return the pages that a plan zeroes, by group."""
        return by_group(self._zeroed.between(number, number))

    def operations(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the columns `op_id` and `round` of table `transfers`."""
        return self._transfers.column("op_id"), self._transfers.column("round")

    def recorded(self, name: str, first: int, last: int) -> list[dict[str, Any]]:
        """Return the rows of a table whose key (round, or submission) lies from `first` to `last`, as recorded."""
        table = RECORDED[name]
        if name not in self._wide:
            self._wide[name] = GroupedTable(self._store, table, table.names, key=table.key)
        rows: list[dict[str, Any]] = self._wide[name].between(first, last).to_pylist()
        return rows


class BasedTables(ColdRounds):
    """A part of which nothing is read whole that grows with its rows."""

    def __init__(self, part: Part, store: ColdTables, bases: Bases) -> None:
        """Read what happened to the requests. Raises `TraceError`."""
        super().__init__(part, store)
        self._bases = bases
        self.life = Lives(Requests(part), bases.row_spans, bases.result_spans, bases.fates, bases.table_starts)
        gone = bases.absences
        every = zip(*(gone[name].tolist() for name in ("submission", "since_round", "back_round")), strict=True)
        self.absent = Absences([Absence(s, since, NEVER if back < 0 else back) for s, since, back in every])
        self._tables: OrderedDict[int, RecordedTables] = OrderedDict()

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
        groups = len(self._part.config["cache_groups"])
        return [
            tuple(pages.get(submission * groups + group, 0) for group in range(groups))
            for submission in submissions.tolist()
        ]

    def tables(self, submission: int, number: int, zeroed: dict[str, frozenset[int]]) -> tuple[BlockTable, ...]:
        """Return the tables of a request behind a plan."""
        kept = self._tables
        if submission not in kept:
            kept[submission] = RecordedTables(self.changes(submission, submission), self._part.config)
            while len(kept) > _KEPT_TABLES:
                kept.popitem(last=False)
        kept.move_to_end(submission)
        return kept[submission].tables(submission, number, zeroed)

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


def _piece(table: GroupedTable, starts: tuple[Longs, Longs], number: int) -> Any:
    """Return the rows of the piece that holds a round."""
    rounds, rows = starts
    piece = int(np.searchsorted(rounds, number, side="right")) - 1
    if piece < 0:
        return table.slice(0, 0)
    return table.slice(int(rows[piece]), int(rows[piece + 1]) if piece + 1 < len(rows) else table.rows)
