"""The rows of plans, column by column."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import chain, groupby
from typing import Any, NamedTuple

import numpy as np

from .builder import TableBuilder
from .plan_fields import ON_DEVICE, TransferFields
from .rounds import BatchRecord, RoundRecord

_made: Any = tuple.__new__
"""Makes a named tuple without the function that its class has for it."""


class _Batch(NamedTuple):
    """What `operations` has of a batch."""

    round: int
    prefill_kind: str
    decode_kind: str
    request: array[int]
    submission: array[int]
    slot: array[int]
    input_tokens: array[int]
    prefill_tokens: array[int]
    begins: array[int]
    replays: array[int]
    decode_inputs: Sequence[int]


def add_round(table: TableBuilder, round_: int, call_seq: int, start_ns: int, record: RoundRecord) -> None:
    """Append the row of a plan to table `rounds`: its size, the counters behind it, and its digests."""
    sizes = dict.fromkeys(("prefill", "decode", "remote_prefill", "remote_decode"), 0)
    for batch in record.batches:
        prefills, rows = batch.fields.prefills, len(batch.fields.ids)
        sizes[batch.prefill_kind] += prefills
        sizes[batch.decode_kind] += rows - prefills
    local = record.plan.batch
    counters = record.counters
    table.add(
        round=round_,
        call_seq=call_seq,
        start_ns=start_ns,
        prefill_rows=sizes["prefill"],
        decode_rows=sizes["decode"],
        remote_prefill_rows=sizes["remote_prefill"],
        remote_decode_rows=sizes["remote_decode"],
        scheduled_tokens=sum(local.input_tokens) if local is not None else 0,
        bootstrapping_requests=counters.bootstrapping,
        waiting_requests=counters.waiting,
        prefilling_requests=counters.prefilling,
        decoding_requests=counters.decoding,
        pd_transfer_requests=counters.pd_transfer,
        retracted_requests=record.retracted,
        empty_pages=counters.empty_pages,
        digest_structural=record.structural,
        digest_content=record.content,
    )


class OperationRows:
    """Rows of table `operations`: batches wait for others, and become columns with them at `settle`."""

    __slots__ = ("_batches", "_content", "_request", "_table")

    def __init__(self, table: TableBuilder, *, content: bool) -> None:
        """`content`: whether tokens that a plan gives to decodes are recorded."""
        self._table, self._content, self._request = table, content, table.columns["request"]
        self._batches: list[_Batch] = []

    def add(self, round_: int, batch: BatchRecord) -> None:
        """Take a batch; nothing else of its plan is kept."""
        fields = batch.fields
        self._batches.append(_made(_Batch, (
            round_, batch.prefill_kind, batch.decode_kind, self._request.coded(fields.ids), batch.submissions,
            fields.slots, fields.input_tokens, fields.prefill_tokens, fields.begins, fields.replays,
            fields.decode_inputs,
        )))  # fmt: skip

    def settle(self) -> None:
        """Make rows of what waits."""
        if not self._batches:
            return
        batches, self._batches, columns = self._batches, [], self._table.columns
        together: Any = _Batch._make(zip(*batches, strict=True))
        rows = list(map(len, together.request))
        columns["round"].extend_numpy(np.repeat(together.round, rows))
        columns["row"].extend_counts([0] * len(rows), rows)
        for name in ("request", "submission", "slot", "input_tokens", "prefill_tokens"):
            columns[name].extend_arrays(getattr(together, name))
        for (prompts, _), alike in groupby(batches, lambda batch: (bool(batch.begins), batch.decode_kind)):
            if prompts:
                for batch in alike:
                    columns["kind"].repeat_text(batch.prefill_kind, len(batch.begins))
                    columns["begin_tokens"].extend(batch.begins)
                    columns["replay_tokens"].extend(batch.replays)
                    columns["decode_input_token"].repeat(None, len(batch.begins))
                    self._decodes(columns, [batch])
            else:
                self._decodes(columns, list(alike))

    def _decodes(self, columns: Mapping[str, Any], batches: Sequence[_Batch]) -> None:
        """Append what decode rows have alone, of batches of one kind."""
        kind, decodes = batches[0].decode_kind, sum(len(batch.request) - len(batch.begins) for batch in batches)
        columns["kind"].repeat_text(kind, decodes)
        columns["begin_tokens"].repeat(None, decodes)
        columns["replay_tokens"].repeat(0, decodes)
        given = [batch.decode_inputs for batch in batches] if self._content else []
        if all(inputs.count(ON_DEVICE) == len(inputs) for inputs in given):
            columns["decode_input_token"].repeat(None, decodes)
        else:
            told = [None if token == ON_DEVICE else token for token in chain.from_iterable(given)]
            columns["decode_input_token"].extend_optional(told)


def add_plan(
    tables: Mapping[str, TableBuilder], round_: int, record: RoundRecord, operations: OperationRows | None = None
) -> None:
    """Append what a plan says to the tables operations, table_changes, zeroed and transfers.

    Its operations wait in `operations`, where that is given.
    """
    content = record.content is not None
    waiting = operations or OperationRows(tables["operations"], content=content)
    for batch in record.batches:
        if batch.fields.ids:
            waiting.add(round_, batch)
            if batch.changes:
                _changes(tables["table_changes"], round_, batch)
    if operations is None:
        waiting.settle()
    zeroed = tables["zeroed"].columns
    for group, pages in record.plan.zeroed.items():
        if len(pages):
            zeroed["round"].repeat(round_, len(pages))
            zeroed["group"].repeat_text(group, len(pages))
            zeroed["page"].extend_numpy(pages)
    for transfer in record.plan.transfers:
        _transfer(tables["transfers"], round_, transfer, content=content)


def _changes(table: TableBuilder, round_: int, batch: BatchRecord) -> None:
    columns, fields = table.columns, batch.fields
    for change in batch.changes:
        runs = len(change.row)
        rows = change.row.tolist()
        columns["round"].repeat(round_, runs)
        columns["group"].repeat_text(change.group, runs)
        columns["request"].extend_text([fields.ids[row] for row in rows])
        columns["submission"].extend([batch.submissions[row] for row in rows])
        columns["fresh"].extend(change.fresh.tolist())
        columns["first_slot"].extend_numpy(change.first)
        columns["pages"].extend_runs(change.offsets, change.pages)
        columns["length_slots"].extend_numpy(change.length)


def _transfer(table: TableBuilder, round_: int, transfer: TransferFields, *, content: bool) -> None:
    columns = table.columns
    for index, op_id in enumerate(transfer.op_ids):
        pages = len(transfer.src_pages[index])
        columns["round"].repeat(round_, pages)
        columns["op_id"].repeat(op_id, pages)
        columns["kind"].repeat_text("load_back" if transfer.load else "write_back", pages)
        columns["source_pinned"].repeat(None if transfer.load else bool(transfer.flags[index]), pages)
        columns["group_index"].extend(transfer.group_index[index])
        columns["src_page"].extend(transfer.src_pages[index])
        columns["dst_page"].extend(transfer.dst_pages[index])
        hashes = transfer.hashes[index]
        if content and hashes:
            columns["content_hash"].extend(hashes)
        else:
            columns["content_hash"].repeat(None, pages)
        columns["page_offset"].extend(transfer.offsets[index] or [0] * pages)
        columns["from_storage"].extend([bool(f) for f in transfer.flags[index]] if transfer.load else [False] * pages)
