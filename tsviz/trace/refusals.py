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


def refused_at(events: Sequence[e.Event], failure: e.Failure, landed: Collection[int]) -> int:
    """Return the position of the event at which the call raised.

    `landed`: positions of events whose tokens the request is known to have taken. Everything up to the last of them was
    applied; behind it the first event of the kind that the message names is taken.
    """
    behind = max(landed, default=-1) + 1
    for kind, fragments in _KINDS:
        if any(fragment in failure.message for fragment in fragments):
            return next((i for i in range(behind, len(events)) if events[i].kind == kind), behind)
    return behind
