"""Plans, cache operations and KV events as plain data (scheduler-rules 1.6, 1.9), every field of them."""

from __future__ import annotations

from typing import Any

import numpy as np

_BATCH_FIELDS = (
    "request_ids",
    "request_pool_indices",
    "input_lengths",
    "prefill_lengths",
    "extend_prefix_lens",
    "extend_replay_lens",
    "decode_input_ids",
    "spec_candidate_ids",
    "input_ids",
    "shifted_input_ids",
)
_COPY_FIELDS = ("op_ids", "group_ids", "src_pages", "dst_pages", "content_hashes", "page_offsets")
_REPR_LIMIT_TOKENS = 256


def describe_arrays(arrays: dict[str, Any]) -> list[tuple[Any, ...]]:
    """An array export in iteration order: (key, dtype, shape, writeable, values).

    An array without elements has nothing to write; the reference leaves its flag set, and nobody can tell.
    """
    return [
        (key, str(array.dtype), list(array.shape), array.size > 0 and array.flags.writeable, array.tolist())
        for key, array in arrays.items()
        if isinstance(array, np.ndarray)
    ]


def describe_batch(batch: Any) -> dict[str, Any]:
    """Every field of a ``Forward.Batch``; its text form too while the inputs are short."""
    described: dict[str, Any] = {"num_extends": batch.num_extends()}
    for name in _BATCH_FIELDS:
        described[name] = getattr(batch, name)
    described["block_tables"] = list(batch.block_tables.items())
    described["block_tables_arrays"] = describe_arrays(batch.block_tables_arrays())
    if len(described["input_ids"]) <= _REPR_LIMIT_TOKENS:
        described["repr"] = repr(batch)
    return described


def describe_operation(operation: Any) -> dict[str, Any]:
    """Every field of a ``Cache.WriteBackOp`` or ``Cache.LoadBackOp``, with its kind."""
    kind = type(operation).__name__
    flag = "source_pinned" if kind == "WriteBackOp" else "prefetch_from_storage"
    described: dict[str, Any] = {"kind": kind}
    for name in (*_COPY_FIELDS, flag):
        described[name] = getattr(operation, name)
    return described


def describe_plan(plan: Any) -> dict[str, Any]:
    """Every field of an ``ExecutionPlan``."""
    return {
        "forward": [describe_batch(batch) for batch in plan.forward],
        "remote_decode": None if plan.remote_decode is None else describe_batch(plan.remote_decode),
        "remote_prefill": None if plan.remote_prefill is None else describe_batch(plan.remote_prefill),
        "pages_to_zero": list(plan.pages_to_zero.items()),
        "pages_to_zero_arrays": describe_arrays(plan.pages_to_zero_arrays()),
        "cache": [describe_operation(operation) for operation in plan.cache],
    }


def describe_kv_event(event: Any) -> dict[str, Any]:
    """Every field of a KV event."""
    if event.kind == "BlockRemoved":
        return {"kind": event.kind, "block_hashes": event.block_hashes}
    return {
        "kind": event.kind,
        "block_hashes": event.block_hashes,
        "parent_block_hash": event.parent_block_hash,
        "token_ids": event.token_ids,
        "block_size": event.block_size,
    }


def describe_state(scheduler: Any, request_ids: list[str], group_ids: list[str]) -> dict[str, Any]:
    """Everything that can be asked of a scheduler without changing it."""
    return {
        "bootstrapping_size": scheduler.bootstrapping_size(),
        "waiting_size": scheduler.waiting_size(),
        "prefilling_size": scheduler.prefilling_size(),
        "remote_prefilling_size": scheduler.remote_prefilling_size(),
        "decoding_size": scheduler.decoding_size(),
        "pd_transfer_size": scheduler.pd_transfer_size(),
        "available_lcm_blocks": scheduler.available_lcm_blocks(),
        "empty_lcm_blocks": scheduler.empty_lcm_blocks(),
        "active_lcm_blocks": scheduler.active_lcm_blocks(),
        "can_clear_cache": scheduler.can_clear_cache(),
        "cache_group_available_pages": [(group, scheduler.cache_group_available_pages(group)) for group in group_ids],
        "request_token_size": [(name, scheduler.request_token_size(name)) for name in request_ids],
        "pd_transfer_pinned": [(name, scheduler.pd_transfer_pinned(name)) for name in request_ids],
        "waiting_prefix_hashes": scheduler.waiting_prefix_hashes(),
    }
