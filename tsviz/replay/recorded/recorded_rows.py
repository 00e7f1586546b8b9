"""Recorded rows as they stand, for the views of the inspector: operations that are out, forwards, raw rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np

from tsviz.replay.rows.lifetimes import NEVER, Longs

from .snapshot import DeviceOperation, DeviceRow, DeviceSide, Forward, Outstanding, Record, Transfer
from .source import Source

_RECORDS = (("rounds", False), ("operations", True), ("events", True), ("table_changes", True))
"""Tables whose rows of a round are shown as recorded, and whether only those of one request."""
_SHOWN_ITEMS = 64


class RecordedRows:
    """Rows of one part by round; they are read when they are first asked for."""

    def __init__(self, source: Source, transfers: Callable[[int], tuple[Transfer, ...]]) -> None:
        """`transfers` returns the operations that the plan of a round began."""
        self._source, self._transfers = source, transfers

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
        op_ids, rounds = self._source.operations()
        begins = np.flatnonzero(np.concatenate([[True], op_ids[1:] != op_ids[:-1]])[: len(op_ids)])
        op_ids, rounds = op_ids[begins], rounds[begins]
        ids, first = np.unique(op_ids, return_index=True)
        known = [self._source.acknowledged(op) for op in ids.tolist()]
        ended = np.array([NEVER if round_ is None else round_ for round_ in known], np.int64)
        return rounds[first].astype(np.int64), ended

    def device(self, round_: int, around: int) -> DeviceSide:
        """Return what a device did for a round, and the forwards of `around` rounds before and behind it."""
        return DeviceSide(
            self._forwards(round_ - around, round_ + around),
            tuple(
                DeviceOperation(
                    row["op"], row["round"], row["stream"], row["kind"], row["layer"], row["op_id"], row["moved_bytes"],
                    tuple(row["waits"]), row["submit_ns"], row["start_ns"], row["end_ns"],
                )
                for row in self._source.recorded("device_ops", round_, round_, key="round")
            ),
            tuple(
                DeviceRow(
                    row["request"], row["valid_tokens"], row["fed_tokens"], row["accepted_tokens"], row["top2_margin"],
                    row["broken"],
                )
                for row in self._source.recorded("forward_rows", round_, round_)
            ),
        )  # fmt: skip

    def _forwards(self, first_round: int, last_round: int) -> tuple[Forward, ...]:
        """Return the measured forwards of the rounds, both included."""
        plans = {row["round"]: row for row in self._source.recorded("rounds", first_round, last_round)}
        return tuple(
            Forward(row["round"], plan["start_ns"], row["start_ns"], row["end_ns"], plan["scheduled_tokens"])
            for row in self._source.recorded("forwards", first_round, last_round)
            if (plan := plans.get(row["round"])) is not None
        )

    def records(self, round_: int, submission: int | None) -> tuple[Record, ...]:
        """Return the recorded rows of a round: its own, and those of a submission in it."""
        found: list[Record] = []
        for name, own in _RECORDS:
            rows = self._source.recorded(name, round_, round_)
            found += [_record(name, row) for row in rows if not own or row["submission"] == submission]
        if submission is not None:
            submitted = self._source.recorded("submissions", submission, submission)
            found += [_record("submissions", row) for row in submitted]
        return tuple(found)


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
