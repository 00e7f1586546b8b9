"""The recorded events of a part, call by call: columns at once, because nearly all of them are results that landed.

A row object an event costs more than the scheduler needs for it, so the rows of a call are taken as slices of whole
columns, and the columns that a result does not use are read only when another event asks for them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsviz.trace import entries as e

EVENT_COLUMNS = (
    "kind", "request", "submission", "op_id", "value", "applied", "token_count", "tokens", "candidate_count",
    "candidates",
)  # fmt: skip
"""What `pieces` yields of an event, beside its `call_seq`."""


class Landed(NamedTuple):
    """Results of live requests, one behind the other, without candidates: parallel lists.

    `tokens` is None for a trace that holds none.
    """

    requests: list[str]
    submissions: list[int]
    counts: list[int]
    tokens: Sequence[Sequence[int]] | None


class EventRows:
    """Walks the events of a part in order of `call_seq`."""

    def __init__(self, batches: Iterator[pa.RecordBatch], *, full: bool, limit: int) -> None:
        """`batches`: the rows, with `call_seq` and `EVENT_COLUMNS`. `full`: whether tokens are recorded.

        A result of more than `limit` tokens is left to `rows`.
        """
        self._batches = batches
        self._full, self._limit = full, limit
        self._batch: _Batch | None = None
        self._place = 0
        self._ahead()

    def _ahead(self) -> None:
        """Go to the next batch that has rows."""
        self._place = 0
        for batch in self._batches:
            if len(batch):
                self._batch = _Batch(batch, full=self._full, limit=self._limit)
                return
        self._batch = None

    def pieces(self, seq: int) -> Iterator[Landed | list[tuple[Any, ...]]]:
        """Yield the rows of a call: as columns where all have landed, else as tuples of `kind` .. `candidates`."""
        while (batch := self._batch) is not None:
            first = self._place
            if batch.seqs[first] != seq:
                return
            end = batch.end_of(first)
            self._place = end
            yield batch.landed(first, end) if batch.plain(first, end) else batch.rows(first, end)
            if end < len(batch.seqs):
                return
            self._ahead()


class _Batch:
    """Some rows of the table; its columns become Python lists when they are first asked for."""

    def __init__(self, batch: pa.RecordBatch, *, full: bool, limit: int) -> None:
        self._batch, self._full = batch, full
        self._lists: dict[str, list[Any]] = {}
        seqs = batch["call_seq"].to_numpy(zero_copy_only=False)
        self.seqs: list[int] = seqs.tolist()
        self._ends: list[int] = [*(np.flatnonzero(np.diff(seqs)) + 1).tolist(), len(seqs)]
        self._ended = 0
        self._others: list[int] = np.flatnonzero(~self._plain(limit)).tolist()

    def plain(self, first: int, end: int) -> bool:
        """Whether all of these rows are results that landed."""
        at = bisect_left(self._others, first)
        return at == len(self._others) or self._others[at] >= end

    def _plain(self, limit: int) -> npt.NDArray[np.bool_]:
        batch = self._batch
        plain = pc.and_(pc.equal(batch["kind"], e.EXTEND_RESULT), batch["applied"])
        plain = pc.and_(plain, pc.and_(pc.equal(batch["candidate_count"], 0), pc.is_valid(batch["request"])))
        counted = pc.and_(pc.greater_equal(batch["token_count"], 0), pc.less_equal(batch["token_count"], limit))
        plain = pc.and_(plain, pc.and_(counted, pc.is_valid(batch["submission"])))
        if self._full:
            plain = pc.and_(plain, pc.equal(pc.list_value_length(batch["tokens"]), batch["token_count"]))
        flags: npt.NDArray[np.bool_] = plain.fill_null(False).to_numpy(zero_copy_only=False)
        return flags

    def end_of(self, first: int) -> int:
        """Return where the rows of the call that `first` belongs to end."""
        while self._ends[self._ended] <= first:
            self._ended += 1
        return self._ends[self._ended]

    def _list(self, name: str) -> list[Any]:
        found = self._lists.get(name)
        if found is None:
            column = self._batch[name]
            if isinstance(column, pa.DictionaryArray):
                words = [*column.dictionary.to_pylist(), None]
                codes = column.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False)
                found = list(map(words.__getitem__, codes.tolist()))
            elif pa.types.is_integer(column.type) and not column.null_count:
                found = column.to_numpy(zero_copy_only=False).tolist()
            else:
                found = column.to_pylist()
            self._lists[name] = found
        return found

    def landed(self, first: int, end: int) -> Landed:
        """Return rows of which all are plain."""
        counts = self._list("token_count")[first:end]
        return Landed(
            self._list("request")[first:end],
            self._list("submission")[first:end],
            counts,
            self._list("tokens")[first:end] if self._full else None,
        )

    def rows(self, first: int, end: int) -> list[tuple[Any, ...]]:
        """Return rows as tuples."""
        return list(zip(*(self._list(name)[first:end] for name in EVENT_COLUMNS), strict=True))
