"""The rows of one plan, column by column."""

from __future__ import annotations

from collections.abc import Mapping

from .builder import TableBuilder
from .plan_fields import ON_DEVICE, TransferFields
from .rounds import BatchRecord, RoundRecord


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


def add_plan(tables: Mapping[str, TableBuilder], round_: int, record: RoundRecord) -> None:
    """Append what a plan says to the tables operations, table_changes, zeroed and transfers."""
    content = record.content is not None
    for batch in record.batches:
        if batch.fields.ids:
            _operations(tables["operations"], round_, batch, content=content)
            _changes(tables["table_changes"], round_, batch)
    zeroed = tables["zeroed"].columns
    for group, pages in record.plan.zeroed.items():
        if len(pages):
            zeroed["round"].repeat(round_, len(pages))
            zeroed["group"].repeat_text(group, len(pages))
            zeroed["page"].extend_numpy(pages)
    for transfer in record.plan.transfers:
        _transfer(tables["transfers"], round_, transfer, content=content)


def _operations(table: TableBuilder, round_: int, batch: BatchRecord, *, content: bool) -> None:
    columns, fields = table.columns, batch.fields
    rows, prefills = len(fields.ids), fields.prefills
    decodes = rows - prefills
    columns["round"].repeat(round_, rows)
    columns["row"].extend(range(rows))
    columns["kind"].repeat_text(batch.prefill_kind, prefills)
    columns["kind"].repeat_text(batch.decode_kind, decodes)
    columns["request"].extend_text(fields.ids)
    columns["submission"].extend(batch.submissions)
    columns["slot"].extend(fields.slots)
    columns["begin_tokens"].extend(fields.begins)
    columns["begin_tokens"].repeat(None, decodes)
    columns["input_tokens"].extend(fields.input_tokens)
    columns["replay_tokens"].extend(fields.replays)
    columns["replay_tokens"].repeat(0, decodes)
    columns["prefill_tokens"].extend(fields.prefill_tokens)
    inputs = columns["decode_input_token"]
    inputs.repeat(None, prefills)
    if content and any(value != ON_DEVICE for value in fields.decode_inputs):
        inputs.extend_optional([None if value == ON_DEVICE else value for value in fields.decode_inputs])
    else:
        inputs.repeat(None, decodes)


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
