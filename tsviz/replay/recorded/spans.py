"""Rows of one table that repeat from round to round, as spans: what `PerRequest` answers, as large as the changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import Longs, keys

_LAST = 0xFFFF_FFFF


class Spans:
    """Spans of rounds of all requests, in order of (submission, first round); those of one request do not overlap."""

    def __init__(self, submission: npt.NDArray[Any], first: npt.NDArray[Any], last: npt.NDArray[Any]) -> None:
        self.keys: Longs = keys(submission, first)
        self.first, self.last_rounds = first.astype(np.int64), last.astype(np.int64)

    def last(self, submissions: Longs, round_: Longs | int) -> Longs:
        """Return, per submission, its last span that begins at or before its `round_`; -1 if there is none."""
        if not len(self.keys):
            return np.full(len(submissions), -1, np.int64)
        position = np.searchsorted(self.keys, (submissions << 32) | round_, side="right") - 1
        found = (position >= 0) & ((self.keys[np.maximum(position, 0)] >> 32) == submissions)
        return np.where(found, position, -1)

    def last_round(self, submissions: Longs, round_: Longs | int) -> Longs:
        """Return, per submission, the last round at or before `round_` that a span of it holds; -1 if there is none."""
        span = self.last(submissions, round_)
        if not len(self.keys):
            return span
        return np.where(span >= 0, np.minimum(self.last_rounds[np.maximum(span, 0)], round_), -1)

    def nearest(self, submission: int, round_: int, step: int) -> int | None:
        """Return the next (`step` 1) or previous (-1) round that a span of the submission holds."""
        low, high = self._of(submission)
        if step < 0:
            span = int(np.searchsorted(self.first[low:high], round_)) + low - 1
            return None if span < low else min(int(self.last_rounds[span]), round_ - 1)
        span = int(np.searchsorted(self.last_rounds[low:high], round_, side="right")) + low
        return None if span == high else max(int(self.first[span]), round_ + 1)

    def _of(self, submission: int) -> tuple[int, int]:
        low, high = np.searchsorted(self.keys, (submission << 32, (submission + 1) << 32))
        return int(low), int(high)


class Sums(Spans):
    """Spans with an amount that every round of them adds."""

    def __init__(
        self, submission: npt.NDArray[Any], first: npt.NDArray[Any], last: npt.NDArray[Any], amount: npt.NDArray[Any]
    ) -> None:
        super().__init__(submission, first, last)
        self._amount: Longs = amount.astype(np.int64)
        self._before: Longs = np.concatenate([[0], np.cumsum((self.last_rounds - self.first + 1) * self._amount)])

    def amount(self, submissions: Longs, round_: Longs | int) -> Longs:
        """Return, per submission, what it came to by a round, that round included."""
        start = np.searchsorted(self.keys, submissions << 32)
        span = self.last(submissions, round_)
        if not len(self.keys):
            return np.zeros(len(submissions), np.int64)
        at = np.maximum(span, 0)
        inside = (np.minimum(round_, self.last_rounds[at]) - self.first[at] + 1) * self._amount[at]
        return np.where(span >= 0, self._before[at] + inside - self._before[start], 0)


def merged(
    submission: npt.NDArray[Any], first: npt.NDArray[Any], last: npt.NDArray[Any], columns: list[npt.NDArray[Any]]
) -> tuple[Longs, Longs, npt.NDArray[np.bool_]]:
    """Return the spans that remain when neighbours of one request with equal `columns` are joined.

    Spans come in order of (submission, first round). Returned are first and last rounds of those that remain, and
    which of the given ones begin them.
    """
    begins = np.ones(len(first), np.bool_)
    if len(first) > 1:
        begins[1:] = (submission[1:] != submission[:-1]) | (first[1:] != last[:-1] + 1)
        for values in columns:
            begins[1:] |= values[1:] != values[:-1]
    starts = np.flatnonzero(begins)
    ends = np.concatenate([starts[1:], [len(first)]])[: len(starts)] - 1
    return first[starts].astype(np.int64), last[ends].astype(np.int64), begins
