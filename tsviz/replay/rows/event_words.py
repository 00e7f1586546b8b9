"""What landed between two plans, in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_WORDS = {
    "finish": "{request} finished",
    "abort": "{request} aborted",
    "retract": "{request} retracted by the runtime",
    "bootstrapped": "{request} bootstrapped",
    "failed": "{request}: the transfer failed",
    "succeeded": "{request}: the transfer succeeded",
    "remote_prefill_done": "{request}: the peer's prefill landed",
    "write_back_done": "store {op_id} acknowledged",
    "update_reserve": "{request}: next decode is charged {value} tokens",
}


def event_words(events: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return one line an event (rows of table `events`), in the order in which they were applied."""
    return tuple(_line(event) for event in events)


def _line(event: Mapping[str, Any]) -> str:
    kind = event["kind"]
    if kind == "extend_result":
        count = event["token_count"]
        late = "" if event["cause_round"] is None else f" of round {event['cause_round']}"
        what = "chunk computed" if count == 0 else f"{count} token{'s' if count > 1 else ''}"
        return f"{event['request']}: {what}{late}"
    if kind == "load_back_done":
        return f"load {event['op_id']} {'landed' if event['value'] else 'failed'}"
    return _WORDS[kind].format(**event) if kind in _WORDS else f"{event['request']}: {kind}"
