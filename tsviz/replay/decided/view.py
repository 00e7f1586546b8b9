"""Decisions at a round: the verdict of every request, and the reserve of one (tables *Decided*)."""

from __future__ import annotations

from collections.abc import Container, Sequence
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow as pa

from tsviz.replay.recorded.snapshot import Cause, Reserve, Term
from tsviz.replay.rows.lifetimes import Longs, PerRequest, among, column, words
from tsviz.replay.rows.rows_from import some
from tsviz.scheduler.states import RETRACTED, STATE_NAMES

from .causes import REFUSED, cause_words

RECORDED, DERIVED = "recorded", "derived"

_MARKS = {
    "head_of_line": ("holds", "", ""),
    "capacity": ("blockers", "", ""),
    "grant": ("grants", "outcome", "granted"),
    "promotion": ("publications", "kind", "promoted"),
}
"""Per mark: the table whose rows make it, and which of them."""


class DecidedTables(Protocol):
    """Where decided tables come from: the part itself, or its index."""

    def table(self, name: str) -> pa.Table:
        """Return a table by name."""
        ...


class DecidedView:
    """Decisions of one part up to `last_round`; behind it nothing is known."""

    def __init__(
        self, tables: DecidedTables, source: str, last_round: int, groups: Sequence[str], *, has_state: bool,
        begin: int = 1, carried: Container[int] = (),
    ) -> None:  # fmt: skip
        """`source` is `recorded` or `derived`; `groups` names the groups, `has_state` says whether one holds states.

        `carried`: who was submitted before round `begin`, in which the trace begins: their verdicts of that round may
        hold since before it.
        Raises `TraceError` for a table that cannot be read.
        """
        self.source, self.last_round, self._groups, self._has_state = source, last_round, groups, has_state
        self._tables = tables
        verdicts = some(tables, "verdicts", ("submission", "round", "cause", "holder", "rule", "op_id"))
        self._carried, self._begin = carried, begin
        self._verdicts = PerRequest(column(verdicts, "submission"), column(verdicts, "round"))
        self._since = column(verdicts, "round")
        self._cause, self._holder = words(verdicts, "cause"), words(verdicts, "holder")
        self._rule, self._op = words(verdicts, "rule"), column(verdicts, "op_id")
        refusals = some(tables, "refusals", ("submission", "round", "need_pages", "free_blocks", "reachable_blocks"))
        self._refusals = PerRequest(column(refusals, "submission"), column(refusals, "round"))
        self._need, self._free = refusals["need_pages"], column(refusals, "free_blocks")
        self._reachable = column(refusals, "reachable_blocks")
        terms = {name: f"{name}_tokens" for name in ("decode", "rest_of_prompt", "headroom", "growth")}
        reserves = some(tables, "reserves", ("submission", "round", *terms.values()))
        self._reserves = PerRequest(column(reserves, "submission"), column(reserves, "round"))
        self._terms = {name: column(reserves, field) for name, field in terms.items()}
        self._reserve_round = column(reserves, "round")

    @cached_property
    def marks(self) -> dict[str, Longs]:
        """The rounds of each mark that decisions tell (`timeline.DECIDED_MARKS`), rising, each once."""
        found = {}
        for mark, (name, field, said) in _MARKS.items():
            table = some(self._tables, name, ("round", *filter(None, (field,))))
            rounds = column(table, "round").astype(np.int64)
            if field:
                rounds = rounds[among(table, field, (said,))]
            found[mark] = np.unique(rounds[rounds <= self.last_round])
        return found

    def causes(self, submissions: Longs, names: Sequence[str], round_: int) -> list[Cause | None]:
        """Return, per submission and its id, what became of it in a round; None where that is not known."""
        if round_ > self.last_round:
            return [None] * len(submissions)
        rows, refused = self._verdicts.last(submissions, round_), self._refusals.last(submissions, round_)
        return [
            None if row < 0 else self._one(row, name, round_, refusal, submission in self._carried)
            for row, name, refusal, submission in zip(
                rows.tolist(), names, refused.tolist(), submissions.tolist(), strict=True
            )
        ]

    def _one(self, row: int, name: str, round_: int, refusal: int, carried: bool) -> Cause:
        since, cause, holder = int(self._since[row]), self._cause[row] or "", self._holder[row] or ""
        shortage = self._shortage(refusal) if cause in REFUSED and refusal >= 0 else ""
        at_least = carried and since == self._begin
        said = cause_words(
            cause, holder, self._rule[row] or "", int(self._op[row]), round_ - since, shortage, name, at_least=at_least
        )
        return Cause(cause, said, holder, since, at_least)

    def _shortage(self, refusal: int) -> str:
        need = self._need[refusal].as_py()
        named = ", ".join(f"{pages:,} of {name}" for name, pages in zip(self._groups, need, strict=False) if pages)
        free, reachable = int(self._free[refusal]), int(self._reachable[refusal])
        return f"needs {named or 'none'}; {free:,} free, {reachable:,} with evictions"

    def retracted(self, round_: int) -> Longs:
        """Return the submissions of which the last state told by a round is that they were retracted, in order."""
        states = some(self._tables, "states", ("submission", "round", "after"))
        rows = PerRequest(column(states, "submission"), column(states, "round"))
        everyone = np.unique(column(states, "submission").astype(np.int64))
        last, after = rows.last(everyone, round_), np.array(words(states, "after"), dtype=object)
        known = last >= 0
        gone: Longs = everyone[known][after[last[known]] == STATE_NAMES[RETRACTED]]
        return gone

    def reserve(self, submission: int, round_: int) -> Reserve | None:
        """Return the reserve of the request's last prefill attempt at or before a round."""
        if round_ > self.last_round:
            return None
        (row,) = self._reserves.last(np.array([submission], np.int64), round_).tolist()
        if row < 0:
            return None
        decode, rest, headroom, growth = (int(terms[row]) for terms in self._terms.values())
        prepaid = rest + headroom if headroom else 0
        # Full history holds the larger of the two; only the terms of that one are named.
        if prepaid > decode:
            terms = [Term("rest of prompt", rest), Term("headroom", headroom)]
        else:
            terms = [Term("decode slot", decode)]
        if self._has_state and growth >= 0:
            terms.append(Term("state growth", growth))
        return Reserve(int(self._reserve_round[row]), tuple(terms), max(decode, prepaid))
