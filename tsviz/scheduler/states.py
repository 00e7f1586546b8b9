"""The states of a request (`scheduler-rules.md` 4) as small integers, and their names in error texts."""

from __future__ import annotations

from typing import Final

BOOTSTRAPPING: Final = 0
SUBMITTED: Final = 1
PREFILLING: Final = 2
REMOTE_PREFILLING: Final = 3
PREFILL_AWAITING_RESULT: Final = 4
PREFILL_DONE: Final = 5
DECODING: Final = 6
RETRACTED: Final = 7
FINISHED: Final = 8

STATE_NAMES: Final = (
    "Bootstrapping",
    "Submitted",
    "Prefilling",
    "RemotePrefilling",
    "PrefillAwaitingResult",
    "PrefillDone",
    "Decoding",
    "Retracted",
    "Finished",
)


def holds_pages(state: int) -> bool:
    """Whether a request in this state owns block tables and a slot."""
    return PREFILLING <= state <= DECODING


def illegal(event: str, state: int) -> RuntimeError:
    """The error of an event that a state does not accept."""
    return RuntimeError(
        f"FSM transition invalid: event=tokenspeed::fsm::{event}; state=tokenspeed::fsm::{STATE_NAMES[state]}"
    )
