"""One plan as the rows that are stored of it: shared by the recorder and by verification.

`PlanBook` keeps what is needed to say a plan by difference (who sits in which slot, how far each prompt is computed),
so that a recorded plan and a re-executed one can be compared digest by digest and, if they differ, field by field.
"""

from __future__ import annotations

from array import array
from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import digest
from .differences import Changes, TableDifferences
from .plan_fields import BatchFields, PlanFields, ReadPlan, read_plan


class Counters(NamedTuple):
    """The scheduler's own counters right behind a plan; part of the structural digest, in this order."""

    bootstrapping: int
    waiting: int
    prefilling: int
    decoding: int
    pd_transfer: int
    empty_pages: int


@dataclass(slots=True)
class BatchRecord:
    """One batch of a plan: the kind of its prefill and decode rows, its fields, submissions and table changes."""

    prefill_kind: str
    decode_kind: str
    fields: BatchFields
    submissions: array[int]
    changes: list[Changes]


@dataclass(slots=True)
class RoundRecord:
    """One plan with everything that is stored of it."""

    plan: PlanFields
    batches: list[BatchRecord]
    counters: Counters
    retracted: int
    structural: int
    content: int | None


@dataclass(slots=True)
class _Seats:
    """Who sits where in the last batch: a batch of the same decode rows again claims nothing anew."""

    ids: list[str]
    slots: array[int]
    submissions: array[int]


@dataclass(frozen=True, slots=True)
class BookState:
    """A `PlanBook` between two calls, as far as live requests go: what a keyframe holds of it.

    `submissions`: by request id its number, the number that digests have of it (another one in a slice) and how far its
    prompt is computed (-1: not known). `shift`: what digests add to the number of a request that is submitted later.
    """

    submissions: dict[str, tuple[int, int, int]]
    shift: int
    owner: npt.NDArray[np.int64]
    tables: dict[str, list[npt.NDArray[np.int32]]]


class PlanBook:
    """Turns the plans of one scheduler into `RoundRecord`s. Calls must be fed in the order in which they were made."""

    def __init__(self, *, content: bool, read: ReadPlan = read_plan) -> None:
        """`content`: whether ids, tokens and hashes are read and digested; `read` reads one plan, as `read_plan`."""
        self._read = read
        self._differences = TableDifferences()
        self._content = content
        self._submission: dict[str, int] = {}
        self._seats: _Seats | None = None
        self._lost = False
        self._computed: npt.NDArray[np.int64] = np.full(1024, -1, np.int64)
        self._original: dict[int, int] = {}
        self._shift = 0

    def state(self, requests: Sequence[str]) -> BookState:
        """Return the state of the book as far as these requests, those that live, go."""
        known = {r: self._submission[r] for r in requests if r in self._submission}
        owner, tables = self._differences.known()
        owner[~np.isin(owner, list(known.values()))] = -1
        kept = owner >= 0
        for rows in tables.values():
            rows[:] = [row if slot < len(kept) and kept[slot] else row[:0] for slot, row in enumerate(rows)]
        submissions = {r: (n, self._original.get(n, n + self._shift), int(self._computed[n])) for r, n in known.items()}
        return BookState(submissions, self._shift, owner, tables)

    def forget(self, submissions: Container[int], since: int) -> PlanBook:
        """Return a book that goes on from here and knows only these submissions, and those numbered from `since` on."""
        names = [name for name, number in self._submission.items() if number in submissions or number >= since]
        book = PlanBook(content=self._content, read=self._read)
        book.adopt(self.state(names))
        return book

    def adopt(self, state: BookState) -> None:
        """Go on from a state, on a book that has seen nothing."""
        self._differences.adopt(state.owner, state.tables)
        self._shift = state.shift
        for request, (submission, original, computed) in state.submissions.items():
            self.submit(request, submission)
            self._computed[submission] = computed
            if original != submission + state.shift:
                self._original[submission] = original

    def lose(self) -> None:
        """Forget what plans said so far: the next one is told in full, as the first of every request in it."""
        self._differences, self._seats = TableDifferences(), None
        self._computed[:] = -1
        self._lost = True

    def _digested(self, submissions: array[int]) -> Sequence[int]:
        """Return the numbers of submissions as they stand in digests: those of the trace that a slice was cut from."""
        if not self._shift and not self._original:
            return submissions
        return [self._original.get(n, n + self._shift) if n >= 0 else n for n in submissions]

    def submit(self, request: str, submission: int) -> None:
        """Note that `request` now names submission number `submission`."""
        self._submission[request] = submission
        self._seats = None
        if submission >= len(self._computed):
            self._computed = np.concatenate([self._computed, np.full(len(self._computed) + submission, -1, np.int64)])

    def submission(self, request: str) -> int:
        """Return the submission that an id names now; -1 for an id that was never submitted."""
        return self._submission.get(request, -1)

    def submissions(self, requests: Sequence[str]) -> list[int]:
        """Return what `submission` does, for several ids."""
        known = self._submission
        try:
            return [known[request] for request in requests]
        except KeyError:
            return [known.get(request, -1) for request in requests]

    def retract(self, request: str) -> None:
        """Note an applied runtime Retract: the next prefill row of the request starts its tables anew."""
        submission = self.submission(request)
        if submission >= 0:
            self._computed[submission] = -1

    def record(self, plan: Any, waiting_before: int, counters: Counters) -> RoundRecord:
        """Read `plan`; `waiting_before` is `waiting_size()` right before it was asked for."""
        fields = self._read(plan, content=self._content)
        batches: list[BatchRecord] = []
        risen = counters.waiting - waiting_before
        prefills = admitted = 0
        for batch, prefill_kind, decode_kind in (
            (fields.batch, "prefill", "decode"),
            (fields.remote_prefill, "remote_prefill", "remote_prefill"),
            (fields.remote_decode, "remote_decode", "remote_decode"),
        ):
            if batch is None:
                continue
            record, anew = self._batch(batch, prefill_kind, decode_kind)
            batches.append(record)
            prefills += batch.prefills
            admitted += anew
        # A plan with several prefill rows retracts nobody (scheduler-rules.md, section 8.1): all of its admissions show
        # in the counter. Only the one row of a grant can hide behind a retraction, and is told by its own progress.
        # Behind a gap nobody knows who was admitted just now, and all that is sure is the rise.
        retracted = risen if self._lost or (risen <= 0 and prefills > 1) else risen + admitted
        self._lost = False
        structural = digest.structural(
            fields, [(b.fields, self._digested(b.submissions), b.changes) for b in batches], counters
        )
        content = digest.content(fields, [b.fields for b in batches]) if self._content else None
        return RoundRecord(fields, batches, counters, max(0, retracted), structural, content)

    def _batch(self, batch: BatchFields, prefill_kind: str, decode_kind: str) -> tuple[BatchRecord, int]:
        if not batch.ids:
            return BatchRecord(prefill_kind, decode_kind, batch, array("i"), []), 0
        seats, first = self._seats, False
        if seats is None or batch.begins or seats.slots != batch.slots or seats.ids != batch.ids:
            seats, first = _Seats(batch.ids, batch.slots, array("i", self.submissions(batch.ids))), True
        elif batch.grown is not None and not batch.grown:  # a steady round: nothing to compare
            return BatchRecord(prefill_kind, decode_kind, batch, seats.submissions, []), 0
        owners, slots = np.frombuffer(seats.submissions, np.int32), np.frombuffer(seats.slots, np.int32)
        fresh = np.zeros(len(owners), np.bool_)
        if first:
            if batch.begins:
                fresh[: batch.prefills] = self._starts_anew(batch, owners[: batch.prefills])
            fresh = self._differences.claim(slots, owners, fresh)
            self._seats = seats
        changes = self._changes(batch, slots, fresh)
        admitted = int(np.count_nonzero(fresh[: batch.prefills]))
        return BatchRecord(prefill_kind, decode_kind, batch, seats.submissions, changes), admitted

    def _changes(self, batch: BatchFields, slots: npt.NDArray[np.int32], fresh: npt.NDArray[np.bool_]) -> list[Changes]:
        moved = batch.moved
        if batch.grown is not None and not fresh.any():
            return self._differences.grow(batch.groups, batch.grown, slots)
        if moved is None or len(moved) == len(slots):
            return self._differences.update(batch.tables(None), slots, fresh)
        begun = np.flatnonzero(fresh)
        rows = np.union1d(moved, begun) if len(begun) else moved
        if not len(rows):
            return []
        changes = self._differences.update(batch.tables(rows), slots[rows], fresh[rows])
        for change in changes:
            change.row = rows[change.row].astype(np.int32)
        return changes

    def _starts_anew(self, batch: BatchFields, owners: npt.NDArray[np.int32]) -> npt.NDArray[np.bool_]:
        """Tell first chunks from later ones: a later chunk goes on where the chunk before it ended."""
        begins = np.array(batch.begins, np.int64)
        ends = begins + np.array(batch.input_tokens[: batch.prefills], np.int64)
        anew: npt.NDArray[np.bool_] = begins != self._computed[owners]
        completes = ends == np.array(batch.prefill_tokens[: batch.prefills], np.int64)
        self._computed[owners] = np.where(completes, -1, ends)
        return anew


def flat(nested: Sequence[Sequence[int]]) -> list[int]:
    """Concatenate lists of numbers."""
    return [int(value) for inner in nested for value in inner]
