"""Entries as bytes, for the process that writes; `wire_reader.py` makes entries of them again.

Both ends are the same version of tsviz and the pipe between them is nobody else's, so the encoding may be what the
interpreter has: `marshal`, version 2, builtin values only. It is never written to a file and never read from one.

What is the same as in the forward batch before is not sent, and of block tables only the slots that changed are: both
ends know that batch. All that is done here is done under the interpreter's lock of the recorded program, in code that
its scheduler has just driven out of the caches, so every list is taken once and compared in one go.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt

from . import entries as e
from .plan_fields import BatchFields, Pages, read_batch, read_transfer

VERSION = 2
PLAN, ADVANCE, SUBMIT, FORWARD, KEYS, CLEAR, DRAIN = range(7)
_MOST_CHANGED = 4
"""Where more than one slot in so many changed, a table is sent whole."""


class Encoder:
    """Encodes the entries of one scheduler, in order: it knows the forward batch that went over last."""

    def __init__(self, reader: e.EventReader, result: type | None, *, content: bool) -> None:
        """`result`: the class of results; `content`: whether tokens and hashes are recorded in full."""
        self._reader, self._result, self._content = reader, result, content
        self._fields: list[Any] = []
        self._tables: dict[str, Pages] = {}
        self._encoders: dict[type, Callable[[Any], tuple[Any, ...]]] = {
            e.PlanEntry: self._plan, e.AdvanceEntry: self._advance, e.SubmitEntry: _submit,
            e.ForwardEntry: lambda entry: (FORWARD, *entry), e.KeysEntry: _keys,
            e.ClearEntry: lambda entry: (CLEAR, *entry[:4], _failure(entry.failure)), e.DrainEntry: self._drain,
        }  # fmt: skip

    def encode(self, entry: e.Entry) -> bytes:
        """Return an entry as bytes. Raises ValueError for one that holds something else than the API gives."""
        encode = self._encoders.get(type(entry))
        if encode is None:
            raise ValueError(f"{type(entry).__name__}: a device's own measurements are recorded by a BundleWriter")
        return marshal.dumps(encode(entry), VERSION)

    def _plan(self, entry: e.PlanEntry) -> tuple[Any, ...]:
        plan: Any = entry.plan
        if plan is e.DROPPED:
            plan, self._fields, self._tables = False, [], {}  # of the next one everything is sent
        elif plan is not None:
            plan = self._planned(plan)
        counters = None if entry.counters is None else tuple(entry.counters)
        return (PLAN, entry.time_ns, entry.duration_ns, plan, entry.waiting_before, counters, _failure(entry.failure))

    def _planned(self, plan: Any) -> tuple[Any, ...]:
        forward, prefill, decode, cache = plan.forward, plan.remote_prefill, plan.remote_decode, plan.cache
        content = self._content
        zeroed, transfers = plan.pages_to_zero_arrays(), [read_transfer(op) for op in cache] if cache else ()
        return (
            self._forward(forward[0]) if forward else None,
            None if prefill is None else _remote(read_batch(prefill, content=content)),
            None if decode is None else _remote(read_batch(decode, content=content)),
            [(group, _ints(pages)) for group, pages in zeroed.items()],
            [(t.load, t.op_ids, t.group_index, t.src_pages, t.dst_pages, t.hashes, t.offsets, t.flags)
             for t in transfers],
        )  # fmt: skip

    def _forward(self, batch: Any) -> tuple[Any, Any]:
        """Return the fields of a batch, None for each one that is as before, and its tables, None if all are."""
        fields = [
            batch.request_ids, batch.request_pool_indices, batch.input_lengths, batch.prefill_lengths,
            batch.extend_prefix_lens, batch.extend_replay_lens, batch.decode_input_ids,
        ]  # fmt: skip
        if self._content:
            fields += batch.input_ids, batch.shifted_input_ids, batch.spec_candidate_ids
        before, self._fields = self._fields, fields
        told: list[Any] | None
        if fields == before:
            told = None
        elif before:
            told = [None if now == then else now for now, then in zip(fields, before, strict=True)]
        else:
            told = fields
        return told, self._changed(batch.block_tables_arrays())

    def _changed(self, tables: dict[str, Pages]) -> list[Any] | None:
        """Return by group the width of a table, the flat positions that changed (None: all did) and what stands there.

        Returns None where nothing changed. What is remembered are copies: an array of the package would keep its batch
        alive, and cold for the scheduler.
        """
        known, changed, told = self._tables, len(tables) != len(self._tables), []
        for group, table in tables.items():
            before = known.get(group)
            if before is not None and before.shape == table.shape:
                (where,) = (table != before).ravel().nonzero()
                if len(where) * _MOST_CHANGED <= table.size:
                    if len(where):
                        changed = True
                        pages = table.ravel()[where]
                        before.ravel()[where] = pages
                        told.append((group, table.shape[1], where.astype(np.int32).tobytes(), _ints(pages)))
                    else:
                        told.append((group, table.shape[1], b"", b""))
                    continue
            changed = True
            known[group] = table.copy()
            told.append((group, table.shape[1], None, _ints(table)))
        if len(tables) != len(known):
            self._tables = {group: known[group] for group in tables}
        return told if changed else None

    def _advance(self, entry: e.AdvanceEntry) -> tuple[Any, ...]:
        held = None if entry.held is None else dict(entry.held)
        runs = self._runs(entry.events)
        return (ADVANCE, entry.time_ns, entry.duration_ns, runs, _failure(entry.failure), held)

    def _runs(self, events: Iterable[Any]) -> list[Any]:
        """Return runs of events of one class: results as columns, ids None where they are those of the last batch."""
        runs: list[Any] = []
        for kind, group in groupby(events, type):
            run = list(group)
            if kind is self._result:
                ids: list[str] | None = [v.request_id for v in run]
                if self._fields and ids == self._fields[0]:
                    ids = None
                candidates: list[list[int]] | None = [v.spec_candidate_ids for v in run]
                if not any(candidates):  # type: ignore[arg-type]
                    candidates = None
                runs.append((ids, [v.tokens for v in run], candidates))
            else:
                read = self._reader
                told = [v if kind is e.Event else read[kind](v) for v in run]
                runs.append([(v[0], v[1], list(v[2]), list(v[3]), *v[4:]) for v in told])
        return runs

    def _drain(self, entry: e.DrainEntry) -> tuple[Any, ...]:
        events: list[Any] = [None] * len(entry.events)
        if self._content:
            events = [
                (v.kind, list(v.block_hashes), v.parent_block_hash, list(v.token_ids), v.block_size)
                if v.kind == "BlockStored" else (v.kind, list(v.block_hashes), None, None, None)
                for v in entry.events
            ]  # fmt: skip
        return (DRAIN, entry.time_ns, entry.duration_ns, events, _failure(entry.failure))


def _submit(entry: e.SubmitEntry) -> tuple[Any, ...]:
    specs = [(s.request, s.tokens.tobytes(), s.max_new_tokens) for s in entry.specs]
    arrivals = None if entry.arrivals is None else {k: tuple(v) for k, v in entry.arrivals.items()}
    return (SUBMIT, entry.time_ns, entry.duration_ns, specs, arrivals, _failure(entry.failure))


def _keys(entry: e.KeysEntry) -> tuple[Any, ...]:
    lists = (list(entry.groups), list(entry.hashes), list(entry.offsets))
    return (KEYS, entry.time_ns, entry.duration_ns, entry.kind, *lists, _failure(entry.failure))


def _remote(batch: BatchFields) -> tuple[Any, Any]:
    """Return a batch of a remote stream in full."""
    fields = [
        batch.ids, batch.slots.tolist(), batch.input_tokens.tolist(), batch.prefill_tokens.tolist(),
        batch.begins.tolist(), batch.replays.tolist(), batch.decode_inputs,
        batch.input_ids, batch.shifted_input_ids, batch.candidates,
    ]  # fmt: skip
    return fields, [(group, table.shape[1], None, _ints(table)) for group, table in batch.tables(None).items()]


def _failure(failure: e.Failure | None) -> tuple[str, str] | None:
    return None if failure is None else (failure.kind, failure.message)


def _ints(values: npt.NDArray[Any]) -> bytes:
    return np.ascontiguousarray(values, np.int32).tobytes()
