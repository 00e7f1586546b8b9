"""The writing process's end of the wire: bytes that `wire.py` made become entries again."""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

from . import entries as e
from . import wire
from .plan_fields import BatchFields, Pages, PlanFields, Rows, TransferFields
from .rounds import Counters

_ARRAYS = slice(1, 6)
"""The fields of a batch that are numbers, of which arrays are made."""
_STRUCTURAL = slice(1, 7)
"""The fields whose section of the structural digest depends on nothing else."""
_DECODE_INPUTS = 6


READER: e.EventReader = {}
"""What takes the decoded events apart: they are so already."""


def decoded_plan(plan: Any, *, content: bool) -> PlanFields:
    """Return a decoded plan as it is: it was read at the other end (`PlanBook`'s `read`)."""
    del content
    fields: PlanFields = plan
    return fields


class Decoder:
    """Makes the entries of one scheduler of what its `Encoder` made bytes of, in order."""

    def __init__(self) -> None:
        self._fields: list[Any] = []
        self._digested: list[bytes] = []
        self._content_digested: list[bytes] = []
        self._tables: dict[str, Pages] = {}
        self._shared: set[str] = set()
        """Groups whose table a plan that may still wait refers to: it is not changed in place."""
        self._same = False
        """Whether the next batch, if it has the same rows, has their tables by difference too."""
        self._decoders: dict[int, Any] = {
            wire.PLAN: self._plan, wire.ADVANCE: self._advance, wire.SUBMIT: self._submit,
            wire.FORWARD: e.ForwardEntry, wire.KEYS: _keys, wire.CLEAR: _clear, wire.DRAIN: _drain,
        }  # fmt: skip

    def decode(self, data: bytes) -> e.Entry:
        """Return the entry; its plan is a `PlanFields`."""
        kind, *rest = marshal.loads(data)
        return self._decoders[kind](*rest)  # type: ignore[no-any-return]

    def _plan(
        self, time_ns: int, duration_ns: int, plan: Any, waiting: int, counters: Any, failure: tuple[str, str] | None
    ) -> e.PlanEntry:
        made: Any = None
        if plan is False:
            made, self._fields, self._tables, self._shared, self._same = e.DROPPED, [], {}, set(), False
        elif plan is not None:
            forward, prefill, decode, zeroed, transfers = plan
            made = PlanFields(
                None if forward is None else self._forward(*forward),
                None if prefill is None else _remote(*prefill),
                None if decode is None else _remote(*decode),
                {group: np.frombuffer(pages, np.int32) for group, pages in zeroed},
                [TransferFields(*transfer) for transfer in transfers],
            )
        told = None if counters is None else Counters(*counters)
        return e.PlanEntry(time_ns, duration_ns, made, waiting, told, _failed(failure))

    def _forward(self, told: list[Any] | None, tables: list[Any] | None) -> BatchFields:
        before = self._fields
        if told is None:
            fields, digested, content = before, self._digested, self._content_digested
        else:
            told[_ARRAYS] = [values if values is None else array("i", values) for values in told[_ARRAYS]]
            fields = [then if now is None else now for now, then in zip(told, before or told, strict=True)]
            digested = self._digested if before and told[_STRUCTURAL].count(None) == 6 else []
            content = self._content_digested if before and not any(now is not None for now in _contents(told)) else []
        same = self._same and (told is None or (told[0] is None and told[1] is None)) and not fields[4]
        self._fields, self._digested, self._content_digested, self._same = fields, digested, content, True
        moved = self._moved(tables, len(fields[0]), same=same)
        return _fields(fields, moved, self._of(moved), digested, content)

    def _moved(self, tables: list[Any] | None, rows: int, *, same: bool) -> Rows | None:
        """Take the changes over; return the rows that have other tables than before, None where any may have."""
        if tables is None:
            return np.zeros(0, np.int64) if same else None
        moved: Rows | None = np.zeros(0, np.int64)
        for group, width, where, pages in tables:
            given = np.frombuffer(pages, np.int32)
            if where is None:
                self._tables[group], moved = given.reshape(rows, width), None
                self._shared.add(group)
            elif where:
                if group in self._shared:
                    self._tables[group] = self._tables[group].copy()
                    self._shared.remove(group)
                positions = np.frombuffer(where, np.int32)
                self._tables[group].ravel()[positions] = given
                if moved is not None:
                    moved = np.union1d(moved, positions // width)
        self._tables = {group: self._tables[group] for group, *_ in tables}
        return moved if same else None

    def _of(self, moved: Rows | None) -> Any:
        if moved is None:
            whole = dict(self._tables)
            self._shared.update(whole)
            return lambda rows: whole if rows is None else {group: table[rows] for group, table in whole.items()}
        those = {group: table[moved] for group, table in self._tables.items()}
        return lambda _: those  # rows that moved are all that are asked for

    def _advance(
        self, time_ns: int, duration_ns: int, runs: list[Any], failure: tuple[str, str] | None,
        held: Mapping[str, int] | None,
    ) -> e.AdvanceEntry:  # fmt: skip
        told: list[e.Results | list[e.Event]] = []
        for run in runs:
            if isinstance(run, tuple):
                ids, tokens, candidates = run
                told.append(e.Results(ids or self._fields[0], tokens, candidates))
            else:
                told.append([e.Event._make(event) for event in run])
        return e.AdvanceEntry(time_ns, duration_ns, e.Runs(told), _failed(failure), held)

    def _submit(
        self, time_ns: int, duration_ns: int, specs: list[Any], arrivals: Mapping[str, Any] | None,
        failure: tuple[str, str] | None,
    ) -> e.SubmitEntry:  # fmt: skip
        told = None if arrivals is None else {name: e.Arrival(*arrival) for name, arrival in arrivals.items()}
        made = [e.Spec(request, array("i", tokens), budget) for request, tokens, budget in specs]
        if self._fields and not {spec.request for spec in made}.isdisjoint(self._fields[0]):
            self._same = False  # an id that names another request now: its tables start anew
        return e.SubmitEntry(time_ns, duration_ns, made, told, _failed(failure))


def _contents(told: list[Any]) -> list[Any]:
    """Return the fields that the content digest is made of."""
    return [told[0], *told[_DECODE_INPUTS:]]


def _fields(
    fields: list[Any], moved: Rows | None, tables: Any, digested: list[bytes], content_digested: list[bytes]
) -> BatchFields:
    ids, slots, inputs, prefills, begins, replays, decode_inputs, *content = fields
    input_ids, shifted, candidates = content or (None, None, None)
    return BatchFields(
        ids, slots, inputs, prefills, begins, replays, decode_inputs, tables, moved=moved, input_ids=input_ids,
        shifted_input_ids=shifted, candidates=candidates, digested=digested, content_digested=content_digested,
    )  # fmt: skip


def _remote(fields: list[Any], tables: list[Any]) -> BatchFields:
    fields[_ARRAYS] = [array("i", values) for values in fields[_ARRAYS]]
    whole = {group: np.frombuffer(data, np.int32).reshape(-1, width) for group, width, _, data in tables}

    def of(rows: Rows | None) -> dict[str, Pages]:
        return whole if rows is None else {group: table[rows] for group, table in whole.items()}

    return _fields(fields, None, of, [], [])


def _failed(failure: tuple[str, str] | None) -> e.Failure | None:
    return None if failure is None else e.Failure(*failure)


def _keys(*fields: Any) -> e.KeysEntry:
    return e.KeysEntry._make((*fields[:-1], _failed(fields[-1])))


def _clear(*fields: Any) -> e.ClearEntry:
    return e.ClearEntry._make((*fields[:-1], _failed(fields[-1])))


def _drain(time_ns: int, duration_ns: int, events: list[Any], failure: tuple[str, str] | None) -> e.DrainEntry:
    names = ("kind", "block_hashes", "parent_block_hash", "token_ids", "block_size")
    told = tuple(v and SimpleNamespace(**dict(zip(names, v, strict=True))) for v in events)
    return e.DrainEntry(time_ns, duration_ns, told, _failed(failure))
