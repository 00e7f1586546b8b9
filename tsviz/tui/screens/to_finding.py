"""Where a finding leads: to a round of it, its first request, and the view that says more."""

from __future__ import annotations

from tsviz.replay.survey.ask import Looked
from tsviz.tui.screens.over import Jump


def jump_to(one: Looked, round_: int, request: str = "") -> Jump:
    """Return the jump to a round of a finding, and to the request that was chosen, or else its first.

    The inspector says why it waits, or of a real device what that did in the round.
    """
    name = request or (one.requests[0] if one.requests else "")
    return Jump(round_, name, message=one.sentence, part=one.part, view="device" if one.of_device else "why")
