"""Reads a plan once: every access of a plan's attribute copies (`executor-rules.md` section 9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from tsviz.engine.binding import LoadBackOp, Plan, WriteBackOp
from tsviz.engine.device import Planned
from tsviz.engine.workloads.model import WorkRequest


def read_plan(plan: Plan, request_of: Callable[[str], WorkRequest]) -> Planned:
    """Return the plan as one frozen value, with the request of each row."""
    stores: WriteBackOp | None = None
    loads: LoadBackOp | None = None
    for op in plan.cache:
        if hasattr(op, "source_pinned"):
            stores = cast(WriteBackOp, op)
        else:
            loads = cast(LoadBackOp, op)
    batches = plan.forward
    batch = batches[0] if batches else None
    request_ids = batch.request_ids if batch is not None else ()
    if batch is None or not request_ids:
        return Planned(
            batch=None,
            request_ids=(),
            requests=(),
            num_extends=0,
            input_lengths=(),
            prefill_lengths=(),
            extend_prefix_lens=(),
            stores=stores,
            loads=loads,
            failed_loads=frozenset(),
            remote_prefill=plan.remote_prefill,
            remote_decode=plan.remote_decode,
        )
    return Planned(
        batch=batch,
        request_ids=request_ids,
        requests=[request_of(request_id) for request_id in request_ids],
        num_extends=batch.num_extends(),
        input_lengths=batch.input_lengths,
        prefill_lengths=batch.prefill_lengths,
        extend_prefix_lens=batch.extend_prefix_lens,
        stores=stores,
        loads=loads,
        failed_loads=frozenset(),
        remote_prefill=plan.remote_prefill,
        remote_decode=plan.remote_decode,
    )
