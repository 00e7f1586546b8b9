"""The three role grammars: phases over one stable candidate order (seed 3, `scheduler-rules.md` 5)."""

from __future__ import annotations

from tsviz.scheduler.config import Config, Role
from tsviz.scheduler.plan import Row
from tsviz.scheduler.planning.admission import Admission
from tsviz.scheduler.planning.outcomes import Refused
from tsviz.scheduler.planning.readmission import next_readmission
from tsviz.scheduler.planning.retraction import Retraction
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.planning.round import Round
from tsviz.scheduler.request import Request
from tsviz.scheduler.states import PREFILL_DONE, PREFILLING


class Grammar:
    """Builds the rounds of one scheduler."""

    __slots__ = ("admission", "config", "decode_tokens", "retraction", "roster")

    def __init__(self, config: Config, admission: Admission, roster: Roster, retraction: Retraction) -> None:
        """Bind the grammar of the config's role."""
        self.config = config
        self.admission = admission
        self.roster = roster
        self.retraction = retraction
        self.decode_tokens = config.decode_input_tokens

    def build(self, build: Round) -> None:
        """Run the phases of the role."""
        if self.config.role is Role.P:
            self._prefill_worker(build)
        elif self.config.role is Role.D:
            self._decode_worker(build)
        else:
            self._fused(build)

    def _prefill_worker(self, build: Round) -> None:
        """3.1: completed prompts out to the peer, then local prefill. Never retracts."""
        for request in [r for r in self.roster.decoding if r.state == PREFILL_DONE]:
            outcome = self.admission.decode(request, build)
            if isinstance(outcome, Row):
                build.push_remote(request, outcome, build.remote_decodes)
        self._local_prefill(build, None)

    def _decode_worker(self, build: Round) -> None:
        """3.2: local recovery alone, else decodes, one remote admission, retraction."""
        roster, admission = self.roster, self.admission
        recovery = roster.prefilling[0] if roster.prefilling else next_readmission(roster)
        if recovery is not None:
            resident = recovery.state == PREFILLING
            outcome = admission.prefill(recovery, build.budget, build)
            if isinstance(outcome, Row):
                build.push_prefill(recovery, outcome)
                return
            if resident and isinstance(outcome, Refused):
                build.block(recovery)
        self._decode_batch(build)
        for request in tuple(roster.waiting):
            if request.scheduled_round == build.number:
                continue
            outcome = admission.prefill(request, request.prefill_size, build)
            if isinstance(outcome, Row):
                build.push_remote(request, outcome, build.remote_prefills)
                break
            if isinstance(outcome, Refused):
                build.block(request)
        self.retraction.run(build)

    def _fused(self, build: Round) -> None:
        """3.3: mixed mode decodes first, otherwise prefill has the round to itself when it can use it."""
        roster = self.roster
        readmission = next_readmission(roster)
        if self.config.enable_mixed_prefill_decode:
            if readmission is not None or roster.prefilling or roster.waiting:
                build.holdback = self.admission.cutter.min_prefill_tokens
            self._decode_batch(build)
            self._local_prefill(build, readmission)
        else:
            self._local_prefill(build, readmission)
            if not build.prefills:
                self._decode_batch(build)
        self.retraction.run(build)

    def _local_prefill(self, build: Round, readmission: Request | None) -> None:
        """Readmission, resident chunks, new prompts; an incomplete prefill holds the line (seed 1.1)."""
        sealed = False
        if readmission is not None:
            outcome = self.admission.prefill(readmission, build.budget, build)
            if isinstance(outcome, Row):
                build.push_prefill(readmission, outcome)
                if readmission.state == PREFILLING:
                    return
            elif isinstance(outcome, Refused):
                sealed = True
        if not self._resident_chunks(build):
            return
        if not sealed:
            self._new_prompts(build)

    def _resident_chunks(self, build: Round) -> bool:
        """Chunks of resident prefills; False when the line is held or blocked."""
        for request in tuple(self.roster.prefilling):
            if request.scheduled_round == build.number:
                continue
            if build.full:
                return False
            outcome = self.admission.later_chunk(request, build.budget, build)
            if isinstance(outcome, Row):
                build.push_prefill(request, outcome)
                if request.state == PREFILLING:
                    return False
            elif isinstance(outcome, Refused):
                build.block(request)
                return False
        return True

    def _new_prompts(self, build: Round) -> None:
        """First chunks in submission order; a refused newcomer does not hold the line."""
        for request in tuple(self.roster.waiting):
            if request.scheduled_round == build.number:
                continue
            if build.full:
                return
            outcome = self.admission.first_chunk(request, build.budget, build)
            if isinstance(outcome, Row):
                build.push_prefill(request, outcome)
                if request.state == PREFILLING:
                    return
            elif isinstance(outcome, Refused):
                build.block(request)

    def _decode_batch(self, build: Round) -> None:
        """Decode rows in submission order while the budget leaves the holdback.

        The branch on `slack_tokens` is `Admission.decode` for a step that touches no page: written out here because
        it is nearly every row of a steady engine.
        """
        number, cost, width = build.number, build.decode_cost, self.decode_tokens
        floor = max(build.holdback + width, 1)
        rows, room = build.decodes, build.max_rows - len(build.prefills)
        budget = build.budget
        for request in self.roster.decoding:
            if budget < floor or len(rows) == room:
                break
            if request.scheduled_round == number:
                continue
            tokens = request.next_reserve_tokens
            if 0 <= tokens <= request.slack_tokens and len(request.tokens) <= request.quiet_until:
                request.slack_tokens -= tokens
                request.debt_tokens += tokens
                request.next_reserve_tokens = width
                row = request.decode_row
                assert row is not None
            else:
                outcome = self.admission.decode(request, build)
                if isinstance(outcome, Refused):
                    build.block(request)
                    continue
                row = outcome
            request.scheduled_round = number
            request.in_flight += 1
            budget -= cost
            rows.append(row)
        build.budget = budget
