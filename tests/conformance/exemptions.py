"""Events at which the reference is at fault, recognised before anything is compared.

The list is closed: scheduler-rules 13 items 2, 5 and 9, and cache-rules 12. Each entry names one event of
one lifetime, never a configuration. After an exempt event the lifetime goes on as long as both modules
still answer alike, and ends where they part, since their page choices differ from there on.
"""

from __future__ import annotations

from typing import Any

from tests.conformance.calls import Call, Outcome
from tests.conformance.tracker import Tracker

TRUNCATED_LANDING = "scheduler-rules 13.2: a remote landing cut at the promotion boundary"
OUTGROWN_TABLE = "scheduler-rules 13.9: more tokens landed than the decodes charged"
VANISHED_KEY = "cache-rules 12: a probed host entry evicted in the same acquisition, its key gone"
HOPELESS_SUFFIX = "cache-rules 2.3: a landing cut where its sparse suffix would start beyond the cut"
PROCESS_ABORT = "scheduler-rules 13.5, cache-rules 12: a KV event without a descriptor aborts the process"


def exempt(call: Call, outcome: Outcome, config: dict[str, Any], tracker: Tracker) -> str | None:
    """The listed fault that the reference's outcome of ``call`` shows, or None.

    ``tracker`` is in its state before the call was answered.
    """
    if outcome[0] == "error":
        return _of_error(outcome, config)
    if call[0] == "plan" and config["role"] == "D":
        batch = outcome[1]["remote_prefill"]
        if batch is not None and _truncated(batch, tracker):
            return TRUNCATED_LANDING
    return None


def _of_error(outcome: Outcome, config: dict[str, Any]) -> str | None:
    if outcome[1] != "RuntimeError":
        return None
    message = outcome[3]
    if message.startswith("publish window exceeds table size"):
        return OUTGROWN_TABLE
    if message.startswith("materialized suffix starts beyond the requested extent") and config["role"] == "D":
        return HOPELESS_SUFFIX
    if message.startswith("Host probe hit without a Host or L3 entry"):
        return VANISHED_KEY
    return None


def _truncated(batch: dict[str, Any], tracker: Tracker) -> bool:
    return any(
        batch["extend_prefix_lens"][index] + batch["input_lengths"][index] < batch["prefill_lengths"][index]
        and not tracker.live[request_id].runtime_retracted
        for index, request_id in enumerate(batch["request_ids"])
    )


def may_abort(call: Call, config: dict[str, Any]) -> bool:
    """Whether an abort of the reference at this call is a listed one: events on, and a publication by a
    plan's capacity retraction, by a load-back that came from storage, or by a plan or a finish that reaches back over
    a page which is still being fetched from storage (`docs/conformance.md` 1.2 to 1.4)."""
    if not config["enable_kv_cache_events"]:
        return False
    if call[0] == "plan":
        tiers = bool(config.get("num_host_pages", 0) > 1)
        return tiers and (config["role"] != "P" or bool(config.get("enable_l3_storage")))
    published = call[0] == "advance" and any(
        event[0] == "Finish" or (event[0] == "LoadBackDoneEvent" and event[2]) for event in call[1]
    )
    return published and bool(config.get("enable_l3_storage"))
