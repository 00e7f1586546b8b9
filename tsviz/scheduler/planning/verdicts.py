"""One cause for every live request in every round (`debugger.md` 3). Runs only when an observer listens."""

from __future__ import annotations

from typing import Final, NamedTuple

from tsviz.scheduler import decisions as d
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.request import Request
from tsviz.scheduler.states import (
    BOOTSTRAPPING,
    DECODING,
    FINISHED,
    PREFILL_AWAITING_RESULT,
    PREFILL_DONE,
    PREFILLING,
    REMOTE_PREFILLING,
)


class Why(NamedTuple):
    """A cause with what it names."""

    cause: str
    holder_id: str = ""
    rule: str = ""
    op_id: int = -1


NO_ROWS: Final = Why(d.NEVER, rule="max_batch_size = 0")
"""Without a row and a slot in the config nobody is ever scheduled (`scheduler-rules.md` 13.8)."""

_SPENT = Why(d.BUDGET_SPENT)
_SEALED = Why(d.SEALED)


class Verdicts:
    """Causes noted while the phases run, concluded over all live requests at the end of the round."""

    __slots__ = ("decodes", "newcomers", "noted", "readmissions", "residents")

    def __init__(self) -> None:
        """Nothing noted."""
        self.noted: dict[int, Why] = {}
        """By submission order: what a request met when its phase came to it."""
        self.residents = _SPENT
        """Why the resident chunks that were not reached were not."""
        self.newcomers = _SPENT
        """Why the newcomers that were not reached were not."""
        self.readmissions = _SEALED
        """Why the readmissions that were not chosen were not."""
        self.decodes = _SPENT
        """Why the decodes that were not reached were not."""

    def note(self, request: Request, why: Why) -> None:
        """What became of a request; a later note replaces an earlier one."""
        self.noted[request.order] = why

    def stop_prefill(self, why: Why) -> None:
        """The prefill phases end here for everyone behind."""
        self.residents = self.newcomers = why

    def conclude(self, roster: Roster, round_number: int, log: d.Log) -> None:
        """Tell the verdicts that changed."""
        for request in roster.live():
            last = request.verdict
            if request.scheduled_round == round_number:
                if last is None or last.cause != d.SCHEDULED:
                    request.verdict = d.Verdict(request.request_id, d.SCHEDULED, "", "", -1)
                    log.tell(request.verdict)
                continue
            if request.state == FINISHED:
                continue
            verdict = d.Verdict(request.request_id, *self.why(request, roster))
            if verdict != last:
                request.verdict = verdict
                log.tell(verdict)

    def why(self, request: Request, roster: Roster) -> Why:
        """The one cause of a request that has no row."""
        noted = self.noted.get(request.order)
        if noted is not None:
            return noted
        state = request.state
        if state == BOOTSTRAPPING:
            return Why(d.BOOTSTRAP)
        if state == REMOTE_PREFILLING:
            return Why(d.REMOTE_TRANSFER)
        if state == PREFILL_AWAITING_RESULT:
            return Why(d.RESULT)
        if state == PREFILLING:
            return self.residents
        if state in (PREFILL_DONE, DECODING):
            return self.decodes
        return self.readmissions if request.recoverable and request in roster.recoverable else self.newcomers
