"""What happened to every request, as columns: where its rows, results, tables and end lie.

All look-ups are binary searches over (submission, round), so any round costs the same as any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsviz.trace.reader import Part

Longs = npt.NDArray[np.int64]

ENDS = {"finish": "finished", "succeeded": "finished", "abort": "aborted", "failed": "aborted"}
NEVER = np.iinfo(np.int64).max


def keys(submission: npt.NDArray[Any], round_: npt.NDArray[Any]) -> Longs:
    """Return sortable (submission, round) keys."""
    return (submission.astype(np.int64) << 32) | round_.astype(np.int64)


class PerRequest:
    """Rows of one table in order of (submission, round); `order` maps back to rows of the table."""

    def __init__(self, submission: npt.NDArray[Any], round_: npt.NDArray[Any]) -> None:
        unsorted = keys(submission, round_)
        self.order: Longs = np.argsort(unsorted, kind="stable")
        self.keys: Longs = unsorted[self.order]

    def last(self, submissions: Longs, round_: Longs | int) -> Longs:
        """Return, per submission, the table row of its last entry at or before its `round_`; -1 if there is none."""
        if not len(self.keys):
            return np.full(len(submissions), -1, np.int64)
        wanted = (submissions << 32) | round_
        position = np.searchsorted(self.keys, wanted, side="right") - 1
        found = (position >= 0) & ((self.keys[np.maximum(position, 0)] >> 32) == submissions)
        return np.where(found, self.order[np.maximum(position, 0)], -1)

    def last_round(self, submissions: Longs, round_: Longs | int) -> Longs:
        """Return, per submission, the round of its last entry at or before its `round_`; -1 if there is none."""
        if not len(self.keys):
            return np.full(len(submissions), -1, np.int64)
        position = np.searchsorted(self.keys, (submissions << 32) | round_, side="right") - 1
        key = self.keys[np.maximum(position, 0)]
        return np.where((position >= 0) & (key >> 32 == submissions), key & 0xFFFF_FFFF, -1)

    def nearest(self, submission: int, round_: int, step: int) -> int | None:
        """Return the round of the next (`step` 1) or previous (-1) entry of a submission."""
        rounds = self.rounds(submission)
        chosen = rounds[rounds > round_] if step > 0 else rounds[rounds < round_][::-1]
        return int(chosen[0]) if len(chosen) else None

    def until(self, submission: int, round_: int) -> Longs:
        """Return the table rows of one submission at or before `round_`, in order."""
        low = np.searchsorted(self.keys, submission << 32, side="left")
        high = np.searchsorted(self.keys, (submission << 32) | round_, side="right")
        return self.order[low:high]

    def amount(self, submissions: Longs, rounds: Longs | int) -> Longs:
        """Return, per submission, how many entries it has by a round, that round included."""
        high = np.searchsorted(self.keys, (submissions << 32) + rounds, side="right")
        found: Longs = high - np.searchsorted(self.keys, submissions << 32)
        return found

    def rounds(self, submission: int) -> Longs:
        """Return the rounds of all entries of one submission, in order."""
        low = np.searchsorted(self.keys, submission << 32, side="left")
        high = np.searchsorted(self.keys, (submission + 1) << 32, side="left")
        return self.keys[low:high] & 0xFFFF_FFFF


def column(table: Any, name: str, missing: int = -1) -> npt.NDArray[Any]:
    """Return an integer column as numpy; `missing` stands for null."""
    values = table[name]
    if values.null_count:
        values = values.fill_null(missing)
    array: npt.NDArray[Any] = values.to_numpy()
    return array


def words(table: Any, name: str) -> list[str | None]:
    """Return a word column as Python strings, of which equal ones are one object where the column is a dictionary."""
    found: list[str | None] = []
    values = table[name]
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        if not isinstance(chunk, pa.DictionaryArray):
            found += chunk.to_pylist()
            continue
        known = [*chunk.dictionary.to_pylist(), None]
        codes = chunk.indices.fill_null(len(known) - 1) if chunk.indices.null_count else chunk.indices
        found += map(known.__getitem__, codes.to_numpy(zero_copy_only=False).tolist())
    return found


def among(table: Any, name: str, wanted: Iterable[str]) -> npt.NDArray[np.bool_]:
    """Return which rows of a word column hold one of some words; a null holds none."""
    found = pc.is_in(table[name], value_set=pa.array(list(wanted), pa.string()))
    flags: npt.NDArray[np.bool_] = found.to_numpy().astype(np.bool_)
    return flags


class Lifetimes:
    """Columns of one part that say what happened to each submission."""

    def __init__(self, part: Part) -> None:
        """Raises `TraceError` when a table cannot be read."""
        submissions, operations, events = part.table("submissions"), part.table("operations"), part.table("events")
        self.names = [name or "" for name in words(submissions, "request")]
        self.count = len(self.names)
        self.submitted = column(submissions, "round").astype(np.int64)
        self.accepted = submissions["accepted"].to_numpy(zero_copy_only=False)
        self.prompt = column(submissions, "prompt_tokens").astype(np.int64)
        self.max_new = column(submissions, "max_new_tokens").astype(np.int64)
        self.op_kind = np.array(words(operations, "kind"), dtype=object)
        self.op_round = column(operations, "round")
        self.op_begin = column(operations, "begin_tokens")
        self.op_input = column(operations, "input_tokens")
        self.op_prefill = column(operations, "prefill_tokens")
        op_submission = column(operations, "submission")
        self.op_rows = PerRequest(op_submission, self.op_round)
        local = (self.op_kind == "prefill") | (self.op_kind == "decode")
        self.forward_rows = PerRequest(op_submission[local], self.op_round[local])
        self._events(events)
        changes = part.table("table_changes")
        fresh = changes["fresh"].to_numpy(zero_copy_only=False)
        starts = np.unique(keys(column(changes, "submission")[fresh], column(changes, "round")[fresh]))
        self.start_submission, self.start_round = starts >> 32, starts & 0xFFFF_FFFF

    def _events(self, events: Any) -> None:
        kinds = np.array(words(events, "kind"), dtype=object)
        submission, round_ = column(events, "submission").astype(np.int64), column(events, "round").astype(np.int64)
        landed = column(events, "token_count").astype(np.int64)
        applied = events["applied"].to_numpy(zero_copy_only=False)
        landed[~applied] = 0
        results = kinds == "extend_result"
        self.result_rows = PerRequest(submission[results], round_[results])
        kinds[~applied] = None
        self.event_rows = PerRequest(submission, round_)
        self._landed = np.concatenate([[0], np.cumsum(landed[self.event_rows.order])])
        self.end_round = np.full(self.count, NEVER, np.int64)
        self.end_kind = np.full(self.count, "", dtype=object)
        self.bootstrapped = np.full(self.count, NEVER, np.int64)
        self.remote_done = np.full(self.count, NEVER, np.int64)
        self.runtime_retracts = np.unique(keys(submission[kinds == "retract"], round_[kinds == "retract"]))
        for kind, state in ENDS.items():
            chosen = np.flatnonzero((kinds == kind) & (submission >= 0))
            for row in chosen.tolist():
                if round_[row] < self.end_round[submission[row]]:
                    self.end_round[submission[row]], self.end_kind[submission[row]] = round_[row], state
        for kind, target in (("bootstrapped", self.bootstrapped), ("remote_prefill_done", self.remote_done)):
            chosen = np.flatnonzero((kinds == kind) & (submission >= 0))
            np.minimum.at(target, submission[chosen], round_[chosen])

    def rows_until(self, submission: int, round_: int) -> Longs:
        """Return the numbers of a request's scheduled rows at or before a round, in order."""
        return self.op_rows.until(submission, round_)

    def row_rounds(self, row: int, until: int) -> tuple[int, int]:  # noqa: ARG002 - as of large traces
        """Return the first and the last round up to `until` of a row, which begins in one of them: the same."""
        return int(self.op_round[row]), int(self.op_round[row])

    def landed(self, submissions: Longs, round_: int) -> Longs:
        """Return, per submission, how many generated tokens had landed before the plan of `round_`."""
        table = self.event_rows.keys
        low = np.searchsorted(table, submissions << 32, side="left")
        high = np.searchsorted(table, (submissions << 32) | round_, side="right")
        landed: Longs = self._landed[high] - self._landed[low]
        return landed

    def live(self, round_: int) -> Longs:
        """Return the submissions that were there at the plan of `round_`, those that ended right before it included."""
        there = self.accepted & (self.submitted <= round_) & (self.end_round >= round_)
        return np.flatnonzero(there).astype(np.int64)
