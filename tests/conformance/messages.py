"""The parts of error texts that callers match (scheduler-rules 1.1, 10.1; cache-rules 1.6)."""

from __future__ import annotations

import re

_TRANSITION = re.compile(r"FSM transition invalid: event=tokenspeed::fsm::\w+; state=tokenspeed::fsm::\w+")
_PEER = re.compile(r"PD \w+ received (?:in state \w+|before destination admission; state=\w+)")

FRAGMENTS = (
    "null page and usable capacity",
    "overlap_schedule_depth must be 0 or 1",
    "overlapped decode requires decode_input_tokens > 0",
    "prefix_granularity must be > 0",
    "at least one cache group is required",
    "max_batch_size must be >= 0",
    "decode_input_tokens must be >= 0",
    "max_scheduled_tokens must be > 0",
    "group_id must be non-empty",
    "block_granularity must be > 0",
    "cache_blocks_per_lcm_block must be > 0",
    "shard_count must be positive and divide parent packing",
    "sliding_window_tokens must be > 0 for sliding groups",
    "a State group keeps recurrent-state checkpoints",
    "only a sliding History group can be regenerated",
    "block_granularity must divide the scheduler prefix_granularity",
    "PD cache requires an explicit transfer_policy",
    "transfer_policy does not match its scheduler destination layout",
    "Mamba max_scheduled_tokens must cover one cache block",
    "max_scheduled_tokens must cover the replayable groups'",
    "cannot be combined with snapshot-state groups",
    "total_pages must include the null page",
    "prefix_replay_tokens must be >= 0",
    "L3 storage requires Host L2 cache",
    "PD Finish received while transfer pages are pinned",
    "PD RemotePrefillDoneEvent requires a non-negative bootstrap token",
    "ExtendResultEvent: an intermediate prefill chunk produces no tokens",
    "CapacityModel: max_total_tokens must be >= 0",
    "CapacityModel: max_context_len must be >= 0",
    "Scheduler: request tokens must be non-empty",
    "Scheduler: max_new_tokens must be non-negative",
    "Scheduler: request token limit exceeds int32 range",
    "Scheduler: request token limit exceeds cache capacity",
    "cache progress exceeds completed request pages",
    "unregister_storage_keys requires aligned group/hash/offset lists",
    "register_storage_keys requires aligned group/hash/offset lists",
    "publish window exceeds table size",
)
_NAMED = re.compile(r"Scheduler: (?:duplicate request id|unknown cache group) '[^']*'")


def fragment_of(message: str) -> str:
    """The documented fragment that ``message`` carries, or "" where the text is nobody's contract."""
    for pattern in (_TRANSITION, _PEER, _NAMED):
        found = pattern.search(message)
        if found:
            return found.group()
    return next((fragment for fragment in FRAGMENTS if fragment in message), "")
