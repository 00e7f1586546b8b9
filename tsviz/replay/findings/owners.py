"""Which live block tables hold which pages, round by round and forwards: what the check of pages walks along."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from tsviz.replay.rows.lifetimes import column, words
from tsviz.replay.rows.rows_from import some
from tsviz.replay.why.facts import HOLDING, Facts

Page = tuple[int, int]
"""Group index and page."""
CHANGES = ("round", "group", "submission", "fresh", "first_slot", "pages", "length_slots")
"""What is read of the table of changes."""


class Owners:
    """The tables of the requests that hold pages, as their changes make them."""

    def __init__(self, facts: Facts) -> None:
        """Nobody holds anything. Raises `TraceError`."""
        self._names, self._written = facts.life.names, facts.tables
        self._groups = {name: index for index, name in reversed(list(enumerate(facts.groups)))}
        self._tables: dict[int, dict[int, list[int]]] = {}
        self._holders: dict[Page, set[int]] = {}
        self._counted: set[int] = set()
        self._holding: set[int] = set()
        states = some(facts.decided, "states", ("round", "item", "submission", "after"))
        pool = some(facts.decided, "pool", ("round", "item"))
        self._moments = (column(states, "round").astype(np.int64) << 32) | column(states, "item")
        self._of, self._after = column(states, "submission"), words(states, "after")
        self._position = 0
        self._pool_round, self._pool_item = column(pool, "round"), column(pool, "item")

    def group(self, name: str | None) -> int:
        """Return the index of a group; -1 for none of this part."""
        return self._groups.get(name or "", -1)

    def step(self, round_: int, changes: Iterable[dict[str, Any]], fresh: set[Page]) -> list[tuple[Page, str, str]]:
        """Move to behind the plan of a round; return fresh pages that two live requests hold then, with their names."""
        self._advance(round_ << 32 | self._behind(round_))
        touched = set()
        for row in changes:
            touched.add(row["submission"])
            self._change(row, round_)
        for submission in touched & self._holding - self._counted:
            self._counted.add(submission)
            for group, table in self._tables.get(submission, {}).items():
                self._count(submission, group, table)
        twice = []
        for page in fresh:
            if len(holders := self._holders.get(page, ())) > 1:
                order = sorted(holders, key=lambda s: (s in touched, s))
                twice += [((second in touched, second), page, first) for first, second in pairwise(order)]
        names = self._names
        return [(page, names[first], names[second]) for (_, second), page, first in sorted(twice)]

    def _behind(self, round_: int) -> int:
        """Return the item of the last row of the pool in a round: what comes later is behind its plan."""
        at = int(np.searchsorted(self._pool_round, round_, side="right")) - 1
        return int(self._pool_item[at]) if at >= 0 and self._pool_round[at] == round_ else 0xFFFF_FFFF

    def _advance(self, moment: int) -> None:
        """Apply the transitions before a moment: who holds tables, and who no longer does."""
        end = max(self._position, int(np.searchsorted(self._moments, moment)))
        for row in range(self._position, end):
            submission = int(self._of[row])
            if self._after[row] in HOLDING:
                self._holding.add(submission)
                continue
            self._holding.discard(submission)
            tables = self._tables.pop(submission, {})
            if submission in self._counted:
                self._counted.discard(submission)
                for group, table in tables.items():
                    self._drop(submission, group, table)
        self._position = end

    def _change(self, row: dict[str, Any], round_: int) -> None:
        submission, group, first, pages = row["submission"], self.group(row["group"]), row["first_slot"], row["pages"]
        tables = self._tables.get(submission)
        if tables is None:
            tables = self._tables[submission] = {} if row["fresh"] else self._before(submission, round_)
        table = tables.get(group)
        if table is None or row["fresh"]:
            if table and submission in self._counted:
                self._drop(submission, group, table)
            table = tables[group] = []
        if first == len(table) and row["length_slots"] == first + len(pages):
            table += pages
            if submission in self._counted:
                self._count(submission, group, pages)
            return
        if submission in self._counted:
            self._drop(submission, group, table)
        table.extend([0] * (first - len(table)))
        table[first : first + len(pages)] = pages
        del table[row["length_slots"] :]
        if submission in self._counted:
            self._count(submission, group, table)

    def _before(self, submission: int, round_: int) -> dict[int, list[int]]:
        """Return the tables that a request had, of which only a later change was met."""
        return {self.group(name): table for name, table in self._written.at(submission, round_ - 1).items()}

    def _count(self, submission: int, group: int, pages: Iterable[int]) -> None:
        for page in pages:
            if page:
                self._holders.setdefault((group, page), set()).add(submission)

    def _drop(self, submission: int, group: int, pages: Iterable[int]) -> None:
        for page in pages:
            holders = self._holders.get((group, page))
            if holders is not None:
                holders.discard(submission)
                if not holders:
                    del self._holders[group, page]
