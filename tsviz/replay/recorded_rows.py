"""Recorded rows as they stand, for the views of the inspector: operations that are out, forwards, raw rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from tsviz.trace.reader import Part

from .lifetimes import NEVER, Longs, column
from .snapshot import Forward, Outstanding, Record, Transfer

_RECORDS = (("rounds", False), ("operations", True), ("events", True), ("table_changes", True))
"""Tables whose rows of a round are shown as recorded, and whether only those of one request."""
_SHOWN_ITEMS = 64


class RecordedRows:
    """Rows of one part by round; tables are read when they are first asked for."""

    def __init__(self, part: Part, transfers: Callable[[int], tuple[Transfer, ...]]) -> None:
        """`transfers` returns the operations that the plan of a round began."""
        self._part, self._transfers = part, transfers

    def outstanding(self, round_: int) -> tuple[Outstanding, ...]:
        """Return the operations that are out behind the plan of a round, oldest first."""
        begun, ended = self._operations
        out = np.flatnonzero((begun <= round_) & (ended > round_))
        return tuple(
            Outstanding(number, transfer)
            for number in sorted({int(begun[row]) for row in out})
            for transfer in self._transfers(number)
            if transfer.acknowledged_round is None or transfer.acknowledged_round > round_
        )

    @cached_property
    def _operations(self) -> tuple[Longs, Longs]:
        """Round whose plan began each operation, and round in front of whose plan it was acknowledged."""
        transfers, events = self._part.table("transfers"), self._part.table("events")
        ids, first = np.unique(column(transfers, "op_id"), return_index=True)
        begun = column(transfers, "round")[first].astype(np.int64)
        ended = np.full(len(ids), NEVER, np.int64)
        answered = column(events, "op_id")
        rows = np.flatnonzero(np.isin(answered, ids))
        ended[np.searchsorted(ids, answered[rows])] = column(events, "round")[rows]
        return begun, ended

    def forwards(self, first_round: int, last_round: int) -> tuple[Forward, ...]:
        """Return the measured forwards of the rounds, both included."""
        plans = {row["round"]: row for row in self._between("rounds", first_round, last_round)}
        return tuple(
            Forward(row["round"], plan["start_ns"], row["start_ns"], row["end_ns"], plan["scheduled_tokens"])
            for row in self._between("forwards", first_round, last_round)
            if (plan := plans.get(row["round"])) is not None
        )

    def records(self, round_: int, submission: int | None) -> tuple[Record, ...]:
        """Return the recorded rows of a round: its own, and those of a submission in it."""
        found: list[Record] = []
        for name, own in _RECORDS:
            rows = self._between(name, round_, round_)
            found += [_record(name, row) for row in rows if not own or row["submission"] == submission]
        if submission is not None:
            submitted = self._part.table("submissions").slice(submission, 1).to_pylist()
            found += [_record("submissions", row) for row in submitted]
        return tuple(found)

    def _between(self, name: str, first: int, last: int) -> list[dict[str, Any]]:
        table = self._part.table(name)
        low, high = np.searchsorted(column(table, "round"), (first, last + 1))
        rows: list[dict[str, Any]] = table.slice(low, high - low).to_pylist()
        return rows


def _record(table: str, row: dict[str, Any]) -> Record:
    return Record(table, tuple((name, _text(value)) for name, value in row.items()))


def _text(value: Any) -> str:
    """Return a recorded value as text, long lists cut."""
    if value is None:
        return "null"
    if isinstance(value, list):
        shown = " ".join(map(str, value[:_SHOWN_ITEMS]))
        return f"{len(value)}: {shown}{' …' if len(value) > _SHOWN_ITEMS else ''}"
    return str(value)
