"""The rows of results that land, which nearly all events are: they wait for others and become columns together."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from itertools import chain, groupby
from typing import Any

import numpy as np

from . import entries as e

Cause = list[int | None] | int | None


class ResultRows:
    """Rows of table `events`, for runs of results that were all applied."""

    __slots__ = ("_full", "_runs", "_table")

    def __init__(self, table: Mapping[str, Any], *, full: bool) -> None:
        """`table`: its columns; `full`: whether tokens are recorded."""
        self._table, self._full = table, full
        self._runs: list[tuple[Any, ...]] = []

    def add(
        self, sequence: int, round_: int, first: int, run: e.Results, submissions: array[int],
        lengths: array[int], cause: Cause, delay: Cause,
    ) -> None:  # fmt: skip
        """Take a run: the number of its call, the round behind that, and by result its submission, how many tokens it
        has, its cause and delay, one for all where they are the same. `first` is the place of its first in the call.
        """
        full, requests = self._full, self._table["request"].coded(run.requests)
        self._runs.append((
            sequence, round_, first, requests, run.tokens if full else (), run.candidates, submissions, lengths, cause,
            delay,
        ))  # fmt: skip

    def settle(self) -> None:
        """Make rows of what waits; to be called before others of the table are added."""
        if not self._runs:
            return
        runs, self._runs, table, full = self._runs, [], self._table, self._full
        sequences, rounds, firsts, requests, tokens, candidates, submissions, lengths, causes, delays = zip(
            *runs, strict=True
        )
        counts = list(map(len, requests))
        rows = sum(counts)
        table["call_seq"].extend_numpy(np.repeat(sequences, counts))
        table["round"].extend_numpy(np.repeat(rounds, counts))
        table["item"].extend_counts(firsts, counts)
        table["kind"].repeat_text(e.EXTEND_RESULT, rows)
        table["request"].extend_arrays(requests)
        table["submission"].extend_arrays(submissions)
        table["op_id"].repeat(None, rows)
        table["value"].repeat(None, rows)
        table["applied"].repeat(True, rows)
        table["token_count"].extend_arrays(lengths)
        for name, values in (("cause_round", causes), ("delay_ns", delays)):
            if all(type(value) is int for value in values):
                table[name].extend_numpy(np.repeat(values, counts))
                continue
            for value, count in zip(values, counts, strict=True):
                if isinstance(value, list):
                    table[name].extend_optional(value)
                else:
                    table[name].repeat(value, count)
        if full:
            table["tokens"].extend(list(chain.from_iterable(tokens)))
        else:
            table["tokens"].repeat_missing(rows)
            table["candidates"].repeat_missing(rows)
        for has, alike in groupby(zip(candidates, counts, strict=True), lambda run: run[0] is not None):
            given, numbers = zip(*alike, strict=True)
            if has:
                table["candidate_count"].extend(map(len, chain.from_iterable(given)))
            else:
                table["candidate_count"].repeat(0, sum(numbers))
            if full and has:
                table["candidates"].extend(list(chain.from_iterable(given)))
            elif full:
                table["candidates"].repeat_empty(sum(numbers))
