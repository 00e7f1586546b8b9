"""Reading plans of the twin: rows and tables that a plan shares with the one before it are not read again.

A plan of the twin costs a tuple a row that changed (`scheduler/plan.py`), and the pages of a table are only ever
appended to. So the same row object, or the same pages at the same length, say that nothing changed: what the public
API would have to spell out and compare for every row of every round (performance.md, P3).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from operator import is_
from typing import Any

import numpy as np

from tsviz.scheduler.binding.plan import core_plan, table_arrays
from tsviz.scheduler.cache.tables import TableView
from tsviz.scheduler.plan import Batch, Row
from tsviz.trace.plan_fields import BatchFields, Grown, Pages, PlanFields, Rows, read_plan

Views = tuple[TableView, ...]
_NONE: Rows = np.zeros(0, np.int64)


class SharedPlans:
    """Reads the plans of one scheduler of the twin, in the order in which they were made."""

    def __init__(self) -> None:
        """No plan yet."""
        self._rows: tuple[Row, ...] = ()
        self._fields: BatchFields | None = None
        self._views: dict[int, Views] = {}

    def read(self, plan: Any, *, content: bool) -> PlanFields:
        """Read one `ExecutionPlan`, as `read_plan` does."""
        core = core_plan(plan)
        if core is None or core.remote_prefill is not None or core.remote_decode is not None:
            # Rows for another engine sit in slots too: what was seen of the tables there is no longer the last.
            self._rows, self._fields, self._views = (), None, {}
            return read_plan(plan, content=content)
        rows, fields = core.batch.rows, self._fields
        if fields is not None and len(rows) == len(self._rows) and all(map(is_, rows, self._rows)):
            fields.moved, fields.grown = _NONE, []
        else:
            fields = self._fields = self._batch(core.batch, content=content)
            self._rows = rows
        return read_plan(plan, content=content, batch=fields)

    def _batch(self, batch: Batch, *, content: bool) -> BatchFields:
        rows, extends, decodes = batch.rows, batch.extends, batch.decodes
        moved, grown = self._moved(rows)
        fields = BatchFields(
            [row.request_id for row in rows],
            array("i", [row.slot for row in rows]),
            array("i", [row.input_length for row in rows]),
            array("i", [row.prefill_length for row in rows]),
            array("i", [row.prefix_tokens for row in extends]),
            array("i", [row.replay_tokens for row in extends]),
            [row.decode_input_id for row in decodes],
            _TablesOf(batch),
            moved=moved,
            grown=grown,
            groups=batch.group_ids,
        )
        if content:
            fields.input_ids = list(chain.from_iterable(row.input_ids() for row in extends))
            fields.shifted_input_ids = list(chain.from_iterable(row.shifted_input_ids() for row in extends))
            fields.candidates = [list(row.spec_candidates) for row in decodes]
        return fields

    def _moved(self, rows: Sequence[Row]) -> tuple[Rows, list[Grown] | None]:
        """Return the rows whose tables are not those last seen in their slots, and how they grew; remember them."""
        views = self._views
        moved: list[int] = []
        grown: list[Grown] | None = []
        for number, row in enumerate(rows):
            known, now = views.get(row.slot), row.views
            if known is not now:
                views[row.slot] = now
                if known is not None and (longer := _longer(known, now)) is not None:
                    if all(start == end for _, start, end in longer):
                        continue
                    if grown is not None:
                        grown.append(Grown(number, longer))
                else:
                    grown = None
                moved.append(number)
        return np.array(moved, np.int64), grown


def _longer(known: Views, views: Views) -> list[tuple[array[int], int, int]] | None:
    """Return the pages of each table with their numbers then and now; None where it is not the same table or longer.

    The same are the pages themselves, not equal ones: a request may get its own again.
    """
    found = []
    for (before, start, holes), (pages, end, frontier) in zip(known, views, strict=True):
        if before is not pages or holes != frontier or end < start:
            return None
        found.append((pages, start, end))
    return found


class _TablesOf:
    """Block tables of some rows of a batch."""

    __slots__ = ("_batch",)

    def __init__(self, batch: Batch) -> None:
        self._batch = batch

    def __call__(self, rows: Rows | None) -> dict[str, Pages]:
        batch = self._batch
        if rows is not None:
            chosen = rows.tolist()
            batch = Batch(tuple(batch.rows[row] for row in chosen), 0, batch.group_ids)
        return table_arrays(batch)
