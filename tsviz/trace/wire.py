"""Entries as bytes, from the recorded process to the one that writes, and back.

Both ends are the same version of tsviz and the pipe between them is nobody else's, so the encoding may be what the
interpreter has: `marshal`, version 2, builtin values only. It is never written to a file and never read from one. What
is copied out of a plan is what the recorder would have read anyway; block tables go over only where they changed.
"""

from __future__ import annotations

import marshal
from array import array
from collections.abc import Mapping, Sequence
from itertools import groupby
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from . import entries as e
from .plan_fields import BatchFields, Pages, PlanFields, Rows, TransferFields, read_plan
from .rounds import Counters

_VERSION = 2
_PLAN, _ADVANCE, _SUBMIT, _FORWARD, _KEYS, _CLEAR, _DRAIN = range(7)


class ExtendResult(NamedTuple):
    """A result as the writer reads it: by the names of the public API."""

    request_id: str
    tokens: Sequence[int]
    spec_candidate_ids: Sequence[int]


READER: e.EventReader = {ExtendResult: lambda v: e.Event(e.EXTEND_RESULT, v.request_id, v.tokens, v.spec_candidate_ids)}
"""What takes the decoded events apart."""


class Encoder:
    """Encodes the entries of one scheduler, in order: it knows the block tables that went over last."""

    def __init__(self, reader: e.EventReader, result: type | None, *, content: bool) -> None:
        """`result`: the class of results; `content`: whether tokens and hashes are recorded in full."""
        self._reader, self._result, self._content = reader, result, content
        self._ids: list[str] = []
        self._slots: array[int] | None = None
        self._tables: dict[str, Pages] = {}

    def encode(self, entry: e.Entry) -> bytes:
        """Return an entry as bytes. Raises ValueError for one that holds something else than the API gives."""
        match entry:
            case e.PlanEntry():
                plan = (
                    None
                    if entry.plan is None
                    else self._dropped()
                    if entry.plan is e.DROPPED
                    else self._plan(entry.plan)
                )
                counters = None if entry.counters is None else tuple(entry.counters)
                plain: Any = (_PLAN, entry.time_ns, entry.duration_ns, plan, entry.waiting_before, counters,
                              _failure(entry.failure))  # fmt: skip
            case e.AdvanceEntry():
                held = None if entry.held is None else dict(entry.held)
                plain = (_ADVANCE, entry.time_ns, entry.duration_ns, self._events(entry.events),
                         _failure(entry.failure), held)  # fmt: skip
            case e.SubmitEntry():
                specs = [(s.request, s.tokens.tobytes(), s.max_new_tokens) for s in entry.specs]
                arrivals = None if entry.arrivals is None else {k: tuple(v) for k, v in entry.arrivals.items()}
                plain = (_SUBMIT, entry.time_ns, entry.duration_ns, specs, arrivals, _failure(entry.failure))
            case e.ForwardEntry():
                plain = (_FORWARD, *entry)
            case e.KeysEntry():
                lists = (list(entry.groups), list(entry.hashes), list(entry.offsets))
                plain = (_KEYS, entry.time_ns, entry.duration_ns, entry.kind, *lists, _failure(entry.failure))
            case e.ClearEntry():
                plain = (_CLEAR, *entry[:4], _failure(entry.failure))
            case e.DrainEntry():
                plain = (_DRAIN, entry.time_ns, entry.duration_ns, self._drained(entry.events), _failure(entry.failure))
            case _:
                raise ValueError(f"{type(entry).__name__}: a device's own measurements are recorded by a BundleWriter")
        return marshal.dumps(plain, _VERSION)

    def _drained(self, events: Sequence[Any]) -> list[Any]:
        if not self._content:
            return [None] * len(events)
        return [
            (v.kind, list(v.block_hashes), v.parent_block_hash, list(v.token_ids), v.block_size)
            if v.kind == "BlockStored" else (v.kind, list(v.block_hashes), None, None, None)
            for v in events
        ]  # fmt: skip

    def _events(self, events: Sequence[Any]) -> list[Any]:
        runs: list[Any] = []
        for kind, group in groupby(events, type):
            run = list(group)
            if kind is self._result:
                runs.append(([v.request_id for v in run], [v.tokens for v in run], [v.spec_candidate_ids for v in run]))
            else:
                read = self._reader
                told = [v if kind is e.Event else read[kind](v) for v in run]
                runs.append([(v[0], v[1], list(v[2]), list(v[3]), *v[4:]) for v in told])
        return runs

    def _plan(self, plan: Any) -> tuple[Any, ...]:
        fields = read_plan(plan, content=self._content)
        batch = None if fields.batch is None else self._batch(fields.batch, self._moved(fields.batch))
        remote = [
            None if one is None else self._batch(one, None) for one in (fields.remote_prefill, fields.remote_decode)
        ]
        zeroed = [(group, _ints(pages)) for group, pages in fields.zeroed.items()]
        transfers = [
            (t.load, t.op_ids, t.group_index, t.src_pages, t.dst_pages, t.hashes, t.offsets, t.flags)
            for t in fields.transfers
        ]
        return batch, remote[0], remote[1], zeroed, transfers

    def _dropped(self) -> bool:
        """Return what stands for a plan that was dropped; of the next one every table is sent."""
        self._ids, self._slots, self._tables = [], None, {}
        return False

    def _moved(self, batch: BatchFields) -> tuple[Rows | None, dict[str, Pages]]:
        """Return which rows have other tables than in the batch before, if it was the same rows, and the tables."""
        tables, before = batch.tables(None), self._tables
        same = not batch.begins and self._slots == batch.slots and self._ids == batch.ids
        # Copies: an array of the package would keep its batch alive, and cold for the scheduler.
        self._ids, self._slots = batch.ids, batch.slots
        self._tables = {group: table.copy() for group, table in tables.items()}
        if not same or any(g not in before or before[g].shape != table.shape for g, table in tables.items()):
            return None, tables
        changed: npt.NDArray[np.bool_] = np.zeros(len(batch.ids), np.bool_)
        for group, table in tables.items():
            changed |= (table != before[group]).any(axis=1)
        return np.flatnonzero(changed), tables

    @staticmethod
    def _batch(batch: BatchFields, known: tuple[Rows | None, dict[str, Pages]] | None) -> tuple[Any, ...]:
        moved, tables = known if known is not None else (None, batch.tables(None))
        sent = [
            (group, table.shape[1], _ints(table if moved is None else table[moved])) for group, table in tables.items()
        ]
        return (
            batch.ids, batch.slots.tobytes(), batch.input_tokens.tobytes(), batch.prefill_tokens.tobytes(),
            batch.begins.tobytes(), batch.replays.tobytes(), batch.decode_inputs,
            None if moved is None else moved.tobytes(), sent, batch.input_ids, batch.shifted_input_ids,
            batch.candidates,
        )  # fmt: skip


def _failure(failure: e.Failure | None) -> tuple[str, str] | None:
    return None if failure is None else (failure.kind, failure.message)


def _ints(values: Any) -> bytes:
    return np.ascontiguousarray(values, np.int32).tobytes()


def decode(data: bytes) -> e.Entry:
    """Return the entry that `Encoder.encode` made bytes of; its plan is a `PlanFields`."""
    kind, *rest = marshal.loads(data)
    return _DECODERS[kind](*rest)  # type: ignore[no-any-return]


def decoded_plan(plan: Any, *, content: bool) -> PlanFields:
    """Return a decoded plan as it is: it was read at the other end (`PlanBook`'s `read`)."""
    del content
    fields: PlanFields = plan
    return fields


def _failed(failure: tuple[str, str] | None) -> e.Failure | None:
    return None if failure is None else e.Failure(*failure)


def _plan(
    time_ns: int, duration_ns: int, plan: Any, waiting: int, counters: Any, failure: tuple[str, str] | None
) -> e.PlanEntry:
    made: Any = None
    if plan is False:
        made = e.DROPPED
    elif plan is not None:
        batch, prefill, decode_, zeroed, transfers = plan
        made = PlanFields(
            None if batch is None else _batch(*batch),
            None if prefill is None else _batch(*prefill),
            None if decode_ is None else _batch(*decode_),
            {group: np.frombuffer(pages, np.int32) for group, pages in zeroed},
            [TransferFields(*transfer) for transfer in transfers],
        )
    told = None if counters is None else Counters(*counters)
    return e.PlanEntry(time_ns, duration_ns, made, waiting, told, _failed(failure))


def _batch(
    ids: list[str], slots: bytes, inputs: bytes, prefills: bytes, begins: bytes, replays: bytes,
    decode_inputs: list[int], moved: bytes | None, sent: list[Any], input_ids: Any, shifted: Any, candidates: Any,
) -> BatchFields:  # fmt: skip
    rows = None if moved is None else np.frombuffer(moved, np.int64)
    tables = {group: np.frombuffer(data, np.int32).reshape(-1, width) for group, width, data in sent}

    def of(wanted: Rows | None) -> dict[str, Pages]:
        if wanted is None or rows is not None:  # rows that moved are all that are asked for, and all that came
            return tables
        return {group: table[wanted] for group, table in tables.items()}

    return BatchFields(
        ids, array("i", slots), array("i", inputs), array("i", prefills), array("i", begins), array("i", replays),
        decode_inputs, of, moved=rows, input_ids=input_ids, shifted_input_ids=shifted, candidates=candidates,
    )  # fmt: skip


def _advance(
    time_ns: int, duration_ns: int, runs: list[Any], failure: tuple[str, str] | None, held: Mapping[str, int] | None
) -> e.AdvanceEntry:
    events: list[Any] = []
    for run in runs:
        if isinstance(run, tuple):
            events += map(ExtendResult._make, zip(*run, strict=True))
        else:
            events += map(e.Event._make, run)
    return e.AdvanceEntry(time_ns, duration_ns, events, _failed(failure), held)


def _submit(
    time_ns: int, duration_ns: int, specs: list[Any], arrivals: Mapping[str, Any] | None,
    failure: tuple[str, str] | None,
) -> e.SubmitEntry:  # fmt: skip
    told = None if arrivals is None else {name: e.Arrival(*arrival) for name, arrival in arrivals.items()}
    made = [e.Spec(request, array("i", tokens), budget) for request, tokens, budget in specs]
    return e.SubmitEntry(time_ns, duration_ns, made, told, _failed(failure))


def _keys(*fields: Any) -> e.KeysEntry:
    return e.KeysEntry._make((*fields[:-1], _failed(fields[-1])))


def _clear(*fields: Any) -> e.ClearEntry:
    return e.ClearEntry._make((*fields[:-1], _failed(fields[-1])))


def _drain(time_ns: int, duration_ns: int, events: list[Any], failure: tuple[str, str] | None) -> e.DrainEntry:
    names = ("kind", "block_hashes", "parent_block_hash", "token_ids", "block_size")
    told = tuple(v and SimpleNamespace(**dict(zip(names, v, strict=True))) for v in events)
    return e.DrainEntry(time_ns, duration_ns, told, _failed(failure))


_DECODERS: dict[int, Any] = {
    _PLAN: _plan, _ADVANCE: _advance, _SUBMIT: _submit, _FORWARD: e.ForwardEntry, _KEYS: _keys, _CLEAR: _clear,
    _DRAIN: _drain,
}  # fmt: skip
