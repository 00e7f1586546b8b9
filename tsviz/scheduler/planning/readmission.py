"""Which retracted request comes back next (seed 4, `scheduler-rules.md` 9.1)."""

from __future__ import annotations

from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.request import Request


def next_readmission(roster: Roster) -> Request | None:
    """Of the retracted requests with a recoverable snapshot: generated output first, then the oldest epoch."""
    if not roster.recoverable:
        return None
    return min(roster.recoverable, key=lambda r: (not r.resumes_generation, r.retraction_epoch))
