"""Spans of rounds in which something is the same of a request, put together as rounds come in."""

from __future__ import annotations

import numpy as np

from tsviz.replay.rows.buffer import Buffer
from tsviz.replay.rows.lifetimes import Longs, keys

from .distinct import Columns
from .spans import merged


class GrowingSpans:
    """Spans of all requests."""

    def __init__(self, fields: tuple[str, ...]) -> None:
        """`fields` are what is the same in all rounds of a span."""
        self._fields = fields
        self._columns = {name: Buffer(np.int64) for name in ("submission", "first_round", "last_round", *fields)}
        self._open = Buffer(np.int64)
        """The last span of each submission; -1 without one."""
        self._keys: Longs = np.zeros(0, np.int64)
        self._order: Longs = np.zeros(0, np.int64)

    def add(self, submission: Longs, first: Longs, last: Longs, columns: Columns) -> None:
        """Add spans behind those that are there; of one request none overlap, and those that touch may say the same."""
        order = np.argsort(keys(submission, first), kind="stable")
        submission, first, last = submission[order], first[order], last[order]
        fields = [columns[name][order] for name in self._fields]
        first, last, begins = merged(submission, first, last, fields)
        submission, fields = submission[begins], [values[begins] for values in fields]
        if not len(submission):
            return
        self._open.add(np.full(max(0, int(submission[-1]) + 1 - len(self._open)), -1, np.int64))
        heads = np.flatnonzero(np.concatenate([[True], submission[1:] != submission[:-1]]))
        goes_on = self._going_on(submission, first, fields, heads)
        self._columns["last_round"].put(self._open.values[submission[goes_on]], last[goes_on])
        new = np.ones(len(submission), np.bool_)
        new[goes_on] = False
        number = len(self._columns["first_round"]) + np.cumsum(new) - 1
        tails = np.append(heads[1:], len(submission)) - 1
        opened = tails[new[tails]]
        self._open.put(submission[opened], number[opened])
        for name, values in zip(self._columns, (submission, first, last, *fields), strict=True):
            self._columns[name].add(values[new])

    def _going_on(self, submission: Longs, first: Longs, fields: list[Longs], heads: Longs) -> Longs:
        """Return those of the first spans of each request that go on where its last one ends, and say the same."""
        at = self._open.values[submission[heads]]
        heads, at = heads[at >= 0], at[at >= 0]
        same = self._columns["last_round"].values[at] + 1 == first[heads]
        for name, values in zip(self._fields, fields, strict=True):
            same &= self._columns[name].values[at] == values[heads]
        found: Longs = heads[same]
        return found

    def columns(self) -> Columns:
        """Return all spans in order of (submission, first round), copied."""
        known, first = len(self._order), self._columns["first_round"].values
        added = keys(self._columns["submission"].values[known:], first[known:])
        order = np.argsort(added, kind="stable")
        at = np.searchsorted(self._keys, added[order])
        self._keys = np.insert(self._keys, at, added[order])
        self._order = np.insert(self._order, at, order + known)
        return {name: column.values[self._order] for name, column in self._columns.items()}
