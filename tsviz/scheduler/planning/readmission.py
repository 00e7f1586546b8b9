"""Which retracted request comes back next (seed 4, `scheduler-rules.md` 9.1)."""

from __future__ import annotations

from tsviz.scheduler.decisions import Log, Readmission
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.request import Request


def _rank(request: Request) -> tuple[bool, int]:
    return (not request.resumes_generation, request.retraction_epoch)


def next_readmission(roster: Roster, log: Log | None = None) -> Request | None:
    """Of the requests retracted with a snapshot: generated output first, then the oldest epoch."""
    if not roster.recoverable:
        return None
    if log is not None:
        for rank, request in enumerate(sorted(roster.recoverable, key=_rank)):
            told = Readmission(request.request_id, rank, request.resumes_generation, request.retraction_epoch)
            log.tell(told)
    return min(roster.recoverable, key=_rank)
