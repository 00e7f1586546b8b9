"""Several recordings on one time axis: what P and D did, in the order in which it happened (debugger.md, section 1).

Parts of one bundle share its clock. Bundles of different processes are put on the wall clock by the anchor that each
took of its monotonic clock when it was opened; a virtual clock belongs to its run and has no place on it.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tsviz.replay.rows.event_words import event_words
from tsviz.trace import entries as e
from tsviz.trace.merging import clock_offset_ns
from tsviz.trace.reader import Bundle, Part

_CHUNK_ROWS = 1 << 14
_ROWS = {
    "prefill_rows": "prefill",
    "decode_rows": "decode",
    "remote_prefill_rows": "remote prefill",
    "remote_decode_rows": "remote decode",
}
_COLUMNS = {
    "submissions": ("request", "prompt_tokens", "max_new_tokens"),
    "events": ("kind", "request", "op_id", "value", "token_count", "cause_round"),
    "rounds": (*_ROWS, "scheduled_tokens"),
}


class CannotMerge(Exception):
    """The recordings have no clock in common; the message names the clocks."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened. `time_ns` is on the merged axis; `round` is that of the plan, or the one it precedes."""

    time_ns: int
    label: str
    round: int
    kind: str
    request: str | None
    words: str


@dataclass(frozen=True, slots=True)
class Axis:
    """The merged axis: `virtual` (ns since the start of the run) or `wall` (ns since 1970), and each part on it."""

    kind: str
    parts: tuple[tuple[str, Part, int], ...]
    """Label, part, and what is added to its times."""


def axis_of(bundles: Sequence[Bundle]) -> Axis:
    """Return the axis that holds all parts of the bundles. Raises CannotMerge, and `TraceError` for a bad anchor."""
    parts = [(bundle, part) for bundle in bundles for part in bundle.parts]
    clocks = {part.clock for _, part in parts}
    if len(clocks) > 1:
        said = ", ".join(f"{bundle.name} {part.node}/{part.rank}: {part.clock}" for bundle, part in parts)
        raise CannotMerge(f"expected one kind of clock, found {said}")
    kind = "virtual" if clocks == {"virtual"} else "wall"
    several = len(bundles) > 1
    placed = []
    for bundle, part in parts:
        label = f"{bundle.name}:{part.node}/{part.rank}" if several else f"{part.node}/{part.rank}"
        placed.append((label, part, 0 if kind == "virtual" else clock_offset_ns(bundle)))
    return Axis(kind, tuple(placed))


def merge(axis: Axis, *, request: str | None = None) -> Iterator[Moment]:
    """Iterate over everything in order of time; at one time in the order of the parts, in a part in order of its calls.

    `request` keeps the moments of one request only. Raises `TraceError` when a table cannot be read.
    """
    streams = (_moments(*place, request) for place in axis.parts)
    return heapq.merge(*streams, key=lambda moment: moment.time_ns)


def _moments(label: str, part: Part, offset_ns: int, request: str | None) -> Iterator[Moment]:
    submissions, events, rounds = (_BySeq(part.table(name), columns) for name, columns in _COLUMNS.items())
    for batch in part.table("calls").select(["seq", "round", "kind", "time_ns"]).to_batches(max_chunksize=_CHUNK_ROWS):
        for call in batch.to_pylist():
            at, round_ = call["time_ns"] + offset_ns, call["round"]
            if call["kind"] == e.PLAN:
                for row in rounds.take(call["seq"]):
                    if request is None:
                        yield Moment(at, label, round_, "plan", None, _plan_words(row))
            elif call["kind"] == e.SUBMIT:
                for row in submissions.take(call["seq"]):
                    if request in (None, row["request"]):
                        budget = row["max_new_tokens"] or "undeclared"
                        words = f"{row['request']} submitted: {row['prompt_tokens']} tokens, budget {budget}"
                        yield Moment(at, label, round_, e.SUBMIT, row["request"], words)
            elif call["kind"] == e.ADVANCE:
                taken = events.take(call["seq"])
                for row, words in zip(taken, event_words(taken), strict=True):
                    if request in (None, row["request"]):
                        yield Moment(at, label, round_, row["kind"], row["request"], words)


def _plan_words(row: dict[str, Any]) -> str:
    rows = [f"{row[name]} {words}" for name, words in _ROWS.items() if row[name]]
    return f"{', '.join(rows)} rows, {row['scheduled_tokens']:,} tokens" if rows else "no row"


class _BySeq:
    """Rows of a table that belong to calls, in order of `call_seq`."""

    def __init__(self, table: Any, columns: Sequence[str]) -> None:
        batches = table.select(["call_seq", *columns]).to_batches(max_chunksize=_CHUNK_ROWS)
        self._rows: Iterator[dict[str, Any]] = (row for batch in batches for row in batch.to_pylist())
        self._next = next(self._rows, None)

    def take(self, seq: int) -> list[dict[str, Any]]:
        """Return the rows of a call; calls must be asked for in order."""
        taken = []
        while self._next is not None and self._next["call_seq"] <= seq:
            if self._next["call_seq"] == seq:
                taken.append(self._next)
            self._next = next(self._rows, None)
        return taken
