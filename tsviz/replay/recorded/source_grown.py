"""Where the recorded view of a part reads that was put together as it grew: `Growth`, and the hot tables by group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.rows.lifetimes import Longs, column
from tsviz.trace.catalogue import CALLS
from tsviz.trace.grouped import grouped
from tsviz.trace.grown import GrownTables
from tsviz.trace.reader import Part
from tsviz.trace.tables import RECORDED

from . import bases_tables as t
from .by_rounds import RawRows
from .growth import Grown
from .life_of import has_many_rows
from .retractions import Settled, absences
from .snapshot import BlockTable
from .states import Absences
from .tables_by_request import TablesByRequest


class FollowedTables(RawRows):
    """A part as it was at one commit, of which nothing is read whole that grows with its rows."""

    def __init__(self, part: Part, store: GrownTables, grown: Grown, before: Settled) -> None:
        """`grown` is what was put together of the rows in `store`; `before`, what was settled of retractions when there
        were fewer. Raises `TraceError`.
        """
        super().__init__(part, store, grown.rounds["round"])
        self.large = has_many_rows(part)
        self._grown, self.life = grown, grown.life
        if part.level == CALLS:
            self.life.accepted = np.zeros_like(self.life.accepted)
        names = [c.name for c in t.REQUEST_TABLES.columns]
        self._changes = grouped(store, RECORDED["table_changes"], names)
        self.by_request = TablesByRequest(part.config, self.changes)
        self.absent, self.settled = self._absent(before)

    def _absent(self, before: Settled) -> tuple[Absences, Settled]:
        """Return which retraction took which request, and what of that stays."""
        numbers, counts = self._grown.rounds["round"], self._grown.rounds["retracted_requests"]
        some = np.flatnonzero(counts)
        retracted = dict(zip(numbers[some].tolist(), counts[some].tolist(), strict=True))
        held = self._grown.held
        found, settled = absences(self.life, retracted, held.totals, held.shared_at, before)
        return Absences(found), settled

    def of_rounds(self, name: str) -> npt.NDArray[Any]:
        """Return a column of table `rounds`."""
        return self._grown.rounds[name] if name in self._grown.rounds else super().of_rounds(name)

    def replayed(self) -> Longs:
        """Return the rounds with re-fed rows."""
        return self._grown.replayed

    def operations(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the columns `op_id` and `round` of table `transfers`, each operation once."""
        return self._grown.operations

    def acknowledged(self, op_id: int) -> int | None:
        """Return the round in which an operation was acknowledged."""
        return self._grown.acknowledgements.round_of(op_id)

    def held(self, submissions: Longs, number: int) -> Sequence[tuple[int, ...]]:
        """Return how many pages stand in the tables of requests behind a plan, by group of the config."""
        return self._grown.held.at(submissions, number)

    def tables(self, submission: int, number: int, zeroed: dict[str, frozenset[int]]) -> tuple[BlockTable, ...]:
        """Return the tables of a request behind a plan."""
        return self.by_request.tables(submission, number, zeroed)

    def changes(self, first: int, last: int) -> Any:
        """Return the table changes of the submissions from the first to the last, request by request."""
        life = self.life
        since, until = int(life.submitted[first]), int(life.end_round[first : last + 1].max())
        rows = self._changes.between(since, until)
        submission = column(rows, "submission")
        mine = np.flatnonzero((submission >= first) & (submission <= last))
        mine = mine[np.argsort(submission[mine], kind="stable")]
        return rows.take(pa.array(mine)).unify_dictionaries().combine_chunks()
