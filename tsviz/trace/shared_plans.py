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

from tsviz.scheduler.binding.plan import ExecutionPlan, core_plan, table_arrays
from tsviz.scheduler.cache.tables import TableView
from tsviz.scheduler.plan import Batch, Row

from .plan_fields import BatchFields, Grown, Pages, PlanFields, Rows, read_plan

Views = tuple[TableView, ...]
_NONE: Rows = np.zeros(0, np.int64)
_VIEWS = Row._fields.index("views")


class SharedPlans:
    """Reads the plans of one scheduler, in the order in which they were made: the twin's so, others as `read_plan`."""

    def __init__(self) -> None:
        """No plan yet."""
        self._rows: tuple[Row, ...] = ()
        self._told: tuple[Any, ...] = ()
        self._fields: BatchFields | None = None
        self._views: dict[int, Views] = {}
        self._groups: tuple[list[str], list[int]] = [], []

    def read(self, plan: Any, *, content: bool) -> PlanFields:
        """Read one `ExecutionPlan`, as `read_plan` does."""
        core = core_plan(plan) if type(plan) is ExecutionPlan else None
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
        if core.zero_pages is None and not core.stores and not core.loads:
            return PlanFields(fields, None, None, {}, [])
        return read_plan(plan, content=content, batch=fields)

    def _batch(self, batch: Batch, *, content: bool) -> BatchFields:
        """Read a batch; of one in which nothing but tables is new, everything else is that of the batch before."""
        rows, extends, known = batch.rows, batch.num_extends, self._fields
        columns = list(zip(*rows, strict=True)) or [()] * len(Row._fields)
        told = (extends, *columns[:_VIEWS], *columns[_VIEWS + 1 :])
        if known is None or told != self._told:
            self._told = told
            self._groups = _ordered(batch.group_ids)
            ids, slots, inputs, prefills, _, begins, replays, _, decode_inputs, candidates = columns
            known = BatchFields(
                list(ids), array("i", slots), array("i", inputs), array("i", prefills), array("i", begins[:extends]),
                array("i", replays[:extends]), list(decode_inputs[extends:]), _TablesOf(batch),
            )  # fmt: skip
            if content:
                known.input_ids = list(chain.from_iterable(row.input_ids() for row in batch.extends))
                known.shifted_input_ids = list(chain.from_iterable(row.shifted_input_ids() for row in batch.extends))
                known.candidates = list(map(list, candidates[extends:]))
        moved, grown = self._moved(rows)
        return BatchFields(
            known.ids, known.slots, known.input_tokens, known.prefill_tokens, known.begins, known.replays,
            known.decode_inputs, _TablesOf(batch), moved=moved, grown=grown, groups=self._groups[0],
            input_ids=known.input_ids, shifted_input_ids=known.shifted_input_ids, candidates=known.candidates,
            digested=known.digested, content_digested=known.content_digested,
        )  # fmt: skip

    def _moved(self, rows: Sequence[Row]) -> tuple[Rows, list[Grown] | None]:
        """Return the rows whose tables are not those last seen in their slots, and how they grew; remember them."""
        views, order = self._views, self._groups[1]
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
                        grown.append(Grown(number, [longer[place] for place in order]))
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


def _ordered(group_ids: Sequence[str]) -> tuple[list[str], list[int]]:
    """Return groups in the order of `block_tables_arrays`, and the place of each among the views of a row."""
    names = sorted(set(group_ids))
    return names, [group_ids.index(name) for name in names]


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
