"""Which event of an advance call made it raise, as far as its exception tells.

Events are applied strictly in order and an exception stops the call (scheduler-rules.md, section 10.2): those before
stay applied. The exception does not name the event, but its text names the kind.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from . import entries as e

_KINDS = (
    (e.EXTEND_RESULT, ("ExtendResult", "intermediate prefill chunk")),
    (e.SUCCEEDED, ("SucceededEvent",)),
    (e.REMOTE_PREFILL_DONE, ("RemotePrefillDone",)),
    (e.UPDATE_RESERVE, ("UpdateReserveNumTokens",)),
    (e.RETRACT, ("RetractEvent",)),
    (e.FINISH, ("FinishEvent", "PD Finish", "cache progress", "publish window")),
)
_WITHOUT_ROW = ("::Submitted", "::Bootstrapping", "state=Submitted", "state=Bootstrapping")


def refused_at(events: Sequence[e.Event], failure: e.Failure, landed: Collection[int], ran: Sequence[bool]) -> int:
    """Return the position of the event at which the call raised.

    `landed`: positions of events whose tokens the request is known to have taken; `ran`: per event, whether its request
    ever had a row. Everything up to the last that landed was applied; behind it the first event is taken that has the
    kind which the message names, and a request that can be in the state which it names.
    """
    behind = max(landed, default=-1) + 1
    message = failure.message
    kinds = {kind for kind, fragments in _KINDS if any(fragment in message for fragment in fragments)}
    fits = [i for i in range(behind, len(events)) if events[i].kind in kinds]
    if "state=" in message:
        without_row = any(state in message for state in _WITHOUT_ROW)
        fits = [i for i in fits if ran[i] != without_row] or fits
    return fits[0] if fits else behind
