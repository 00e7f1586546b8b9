"""Where a finding leads: to a round of it, its first request, and the view that says more."""

from __future__ import annotations

from tsviz.replay.survey.ask import Looked
from tsviz.tui.screens.over import Jump

_VIEWS = dict.fromkeys(
    ("device_race", "changed_pages", "broken_rows", "lost_tokens", "early_acknowledgement", "copy_stalls"), "device"
)
"""Where the inspector says more of a finding than why a request waits."""


def jump_to(one: Looked, round_: int, request: str = "") -> Jump:
    """Return the jump to a round of a finding, and to the request that was chosen, or else its first."""
    name = request or (one.requests[0] if one.requests else "")
    return Jump(round_, name, message=one.sentence, part=one.part, view=_VIEWS.get(one.name, "why"))
