"""Decisions at a round: the verdict of every request, and the reserve of one (tables *Decided*)."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pyarrow as pa

from .causes import cause_words
from .lifetimes import Longs, PerRequest, column, words
from .snapshot import Cause, Reserve, Term

RECORDED, DERIVED = "recorded", "derived"


class DecidedTables(Protocol):
    """Where decided tables come from: the part itself, or its index."""

    def table(self, name: str) -> pa.Table:
        """Return a table by name."""
        ...


class DecidedView:
    """Decisions of one part up to `last_round`; behind it nothing is known."""

    def __init__(self, tables: DecidedTables, source: str, last_round: int) -> None:
        """`source` is `recorded` or `derived`. Raises `TraceError` when a table cannot be read."""
        self.source, self.last_round = source, last_round
        verdicts = tables.table("verdicts")
        self._verdicts = PerRequest(column(verdicts, "submission"), column(verdicts, "round"))
        self._since = column(verdicts, "round")
        self._cause, self._holder = words(verdicts, "cause"), words(verdicts, "holder")
        self._rule, self._op = words(verdicts, "rule"), column(verdicts, "op_id")
        reserves = tables.table("reserves")
        self._reserves = PerRequest(column(reserves, "submission"), column(reserves, "round"))
        self._terms = {
            name: column(reserves, f"{name}_tokens") for name in ("decode", "rest_of_prompt", "headroom", "growth")
        }
        self._reserve_round = column(reserves, "round")

    def causes(self, submissions: Longs, round_: int) -> list[Cause | None]:
        """Return, per submission, what became of it in a round; None where that is not known."""
        if round_ > self.last_round:
            return [None] * len(submissions)
        return [
            None if row < 0 else self._one(row, round_) for row in self._verdicts.last(submissions, round_).tolist()
        ]

    def _one(self, row: int, round_: int) -> Cause:
        since, cause, holder = int(self._since[row]), self._cause[row] or "", self._holder[row] or ""
        said = cause_words(cause, holder, self._rule[row] or "", int(self._op[row]), round_ - since)
        return Cause(cause, said, holder, since)

    def reserve(self, submission: int, round_: int) -> Reserve | None:
        """Return the reserve of the request's last prefill attempt at or before a round."""
        if round_ > self.last_round:
            return None
        (row,) = self._reserves.last(np.array([submission], np.int64), round_).tolist()
        if row < 0:
            return None
        decode, rest, headroom, growth = (int(terms[row]) for terms in self._terms.values())
        terms = (
            Term("decode slot", decode), Term("rest of prompt", rest), Term("headroom", headroom),
            Term("state growth", max(0, growth)),
        )  # fmt: skip
        prepaid = rest + headroom if headroom else 0
        return Reserve(int(self._reserve_round[row]), terms, max(decode, prepaid))
