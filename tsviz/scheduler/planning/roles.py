"""The three role grammars: phases over one stable candidate order (seed 3, `scheduler-rules.md` 5)."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.scheduler import decisions as d
from tsviz.scheduler.config import Config, Role
from tsviz.scheduler.plan import Row
from tsviz.scheduler.planning.admission import Admission
from tsviz.scheduler.planning.decoding import Decoding
from tsviz.scheduler.planning.outcomes import NoSlot, Outcome
from tsviz.scheduler.planning.readmission import next_readmission
from tsviz.scheduler.planning.retraction import Retraction
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.planning.round import Round
from tsviz.scheduler.planning.standstill import Standstill, standstill
from tsviz.scheduler.planning.verdicts import NO_ROWS, Why
from tsviz.scheduler.request import Request
from tsviz.scheduler.states import PREFILL_DONE, PREFILLING


class Grammar:
    """Builds the rounds of one scheduler."""

    __slots__ = (
        "admission",
        "config",
        "decode_tokens",
        "decoding",
        "log",
        "quiet",
        "retraction",
        "roster",
        "still",
    )

    def __init__(
        self,
        config: Config,
        admission: Admission,
        decoding: Decoding,
        roster: Roster,
        retraction: Retraction,
    ) -> None:
        """Bind the grammar of the config's role."""
        self.config = config
        self.admission = admission
        self.decoding = decoding
        self.roster = roster
        self.retraction = retraction
        self.decode_tokens = config.decode_input_tokens
        self.log: d.Log | None = None
        self.still: Standstill | None = None
        self.quiet: tuple[int, list[Request]] | None = None
        """Attempts and queue of the last pass over newcomers in which nobody was tried anew."""

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
        self._phase("remote_decodes", build)
        build.verdicts.decodes = Why(d.REMOTE_TRANSFER)
        for request in [r for r in self.roster.decoding if r.state == PREFILL_DONE]:
            self._candidate(request)
            outcome = self.decoding.decode(request, build)
            if isinstance(outcome, Row):
                build.push_remote(request, outcome, build.remote_decodes)
            else:
                self._note(request, outcome, build)
        self._local_prefill(build, None)

    def _decode_worker(self, build: Round) -> None:
        """3.2: local recovery alone, else decodes, one remote admission, retraction."""
        roster, admission = self.roster, self.admission
        recovery = roster.prefilling[0] if roster.prefilling else next_readmission(roster, self.log)
        if recovery is not None:
            self._phase("recovery", build)
            self._candidate(recovery)
            alone = Why(d.RECOVERY_ALONE, recovery.request_id)
            build.verdicts.residents = build.verdicts.readmissions = alone
            resident = recovery.state == PREFILLING
            outcome = admission.prefill(recovery, build.budget, build)
            if isinstance(outcome, Row):
                build.push_prefill(recovery, outcome)
                build.verdicts.newcomers = build.verdicts.decodes = alone
                return
            self._note(recovery, outcome, build)
            if resident and isinstance(outcome, d.Refused):
                self._block(recovery, build)
        self._decode_batch(build)
        self._remote_admission(build)
        self.retraction.run(build)

    def _remote_admission(self, build: Round) -> None:
        """At most one prompt a round for the peer to prefill."""
        self._phase("remote_admission", build)
        for request in tuple(self.roster.waiting):
            if request.scheduled_round == build.number:
                continue
            self._candidate(request)
            outcome = self._newcomer(request, request.prefill_size, build)
            if isinstance(outcome, Row):
                build.push_remote(request, outcome, build.remote_prefills)
                build.verdicts.newcomers = Why(d.ONE_REMOTE, request.request_id)
                return
            self._note(request, outcome, build)
            if isinstance(outcome, d.Refused):
                self._block(request, build)

    def _fused(self, build: Round) -> None:
        """3.3: mixed mode decodes first, otherwise prefill has the round to itself when it can use it."""
        roster = self.roster
        readmission = next_readmission(roster, self.log)
        if self.config.enable_mixed_prefill_decode:
            if readmission is not None or roster.prefilling or roster.waiting:
                build.holdback = self.admission.cutter.min_prefill_tokens
            self._decode_batch(build)
            self._local_prefill(build, readmission)
        else:
            self._local_prefill(build, readmission)
            if not build.prefills:
                self._decode_batch(build)
            else:
                build.verdicts.decodes = Why(d.PREFILL_ONLY, build.prefills[0].request_id)
        self.retraction.run(build)

    def _local_prefill(self, build: Round, readmission: Request | None) -> None:
        """Readmission, resident chunks, new prompts; an incomplete prefill holds the line (seed 1.1)."""
        sealed = False
        if readmission is not None:
            self._phase("readmission", build)
            self._candidate(readmission)
            build.verdicts.readmissions = Why(d.SEALED, readmission.request_id)
            outcome = self.admission.prefill(readmission, build.budget, build)
            if isinstance(outcome, Row):
                build.push_prefill(readmission, outcome)
                if readmission.state == PREFILLING:
                    self._hold(readmission, build)
                    return
            else:
                self._note(readmission, outcome, build)
                sealed = isinstance(outcome, d.Refused)
        if not self._resident_chunks(build):
            return
        if sealed and readmission is not None:
            build.verdicts.newcomers = Why(d.SEALED, readmission.request_id)
        else:
            self._new_prompts(build)

    def _resident_chunks(self, build: Round) -> bool:
        """Chunks of resident prefills; False when the line is held or blocked."""
        self._phase("resident_chunks", build)
        for request in tuple(self.roster.prefilling):
            if request.scheduled_round == build.number:
                continue
            if build.full:
                build.verdicts.stop_prefill(build.why_full())
                return False
            self._candidate(request)
            outcome = self.admission.later_chunk(request, build.budget, build)
            if isinstance(outcome, Row):
                build.push_prefill(request, outcome)
                if request.state == PREFILLING:
                    self._hold(request, build)
                    return False
                continue
            self._note(request, outcome, build)
            if isinstance(outcome, d.Refused):
                self._block(request, build)
                build.verdicts.stop_prefill(Why(d.RESIDENT_BLOCKED, request.request_id))
                return False
        return True

    def _new_prompts(self, build: Round) -> None:
        """First chunks in submission order; a refused newcomer does not hold the line."""
        self._phase("new_prompts", build)
        if build.full:
            build.verdicts.newcomers = build.why_full()
            return
        number, log = build.number, self.log
        slots, device = self.roster.slots, self.admission.cache.device
        available, queue, attempts = device.available, self.roster.waiting, self.admission.attempts
        if log is None and self.still is not None and self.still.holds(attempts, queue, build.budget, available):
            # Nearly every round of an overloaded engine: nobody passes, the first is the blocker. Slots that ran
            # out show in the attempts: nothing else takes one.
            self._block(queue[0], build)
            return
        for request in tuple(queue):
            if request.scheduled_round == number:
                continue
            memo = request.memo
            if memo is not None and log is None and build.blocker is not None:
                low, high, blocks, digest, _, cached, on_host = memo
                if (
                    available < blocks
                    and low <= build.budget <= high
                    and digest not in cached
                    and digest not in on_host
                ):
                    continue
            self._candidate(request)
            outcome = self._newcomer(request, build.budget, build)
            available = device.available
            if isinstance(outcome, Row):
                build.push_prefill(request, outcome)
                if request.state == PREFILLING:
                    self._hold(request, build)
                    return
                if build.full:
                    build.verdicts.newcomers = build.why_full()
                    return
                continue
            self._note(request, outcome, build)
            if isinstance(outcome, d.Refused):
                self._block(request, build)
        if log is None and slots and len(queue) > 1 and attempts == self.admission.attempts:
            quiet = (attempts, queue[:])
            if quiet == self.quiet:
                self.still = standstill(attempts, queue)
            self.quiet = quiet

    def _newcomer(self, request: Request, budget: int, build: Round) -> Outcome:
        """The first chunk of a newcomer, unless its remembered refusal repeats."""
        memo = request.memo
        if memo is not None and self.roster.slots and memo.holds(budget, self.admission.cache.device.available):
            return self.admission.refusals.again(request)
        return self.admission.first_chunk(request, budget, build)

    def _decode_batch(self, build: Round) -> None:
        """Decode rows in submission order while the budget leaves the holdback.

        The branch on `slack_tokens` is `Decoding.decode` for a step that touches no page: written out here
        because it is nearly every row of a steady engine. Such a row is a stop, of which nothing is told.
        """
        self._phase("decodes", build)
        number, cost, width, log = build.number, build.decode_cost, self.decode_tokens, self.log
        floor = max(build.holdback + width, 1)
        rows, room = build.decodes, build.max_rows - len(build.prefills)
        budget = build.budget
        for request in self.roster.decoding:
            if budget < floor or len(rows) == room:
                build.verdicts.decodes = self._why_no_decode(budget, len(rows) == room, build)
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
                if log is not None:
                    log.stop += 1
            else:
                self._candidate(request)
                outcome = self.decoding.decode(request, build)
                if isinstance(outcome, d.Refused):
                    self._note(request, outcome, build)
                    self._block(request, build)
                    continue
                row = outcome
            request.scheduled_round = number
            request.in_flight += 1
            budget -= cost
            rows.append(row)
        build.budget = budget

    def _why_no_decode(self, budget: int, batch_full: bool, build: Round) -> Why:
        """Which gate the decode batch met."""
        limit, width = self.config.max_scheduled_tokens, self.decode_tokens
        if batch_full:
            return Why(d.BATCH_FULL)
        if width > limit:
            return Why(d.NEVER, rule="decode_input_tokens > max_scheduled_tokens")
        if budget < max(width, 1):
            return Why(d.BUDGET_SPENT)
        hopeless = build.holdback + width > limit
        return Why(d.HOLDBACK, rule="holdback + decode_input_tokens > max_scheduled_tokens" if hopeless else "")

    # What the observer is told

    def _phase(self, name: str, build: Round) -> None:
        if self.log is not None:
            rows = len(build.prefills) + len(build.decodes)
            self.log.at(d.Phase(name, build.budget, build.holdback, rows))

    def _candidate(self, request: Request) -> None:
        if self.log is not None:
            self.log.at(d.Candidate(request.request_id))

    def _hold(self, request: Request, build: Round) -> None:
        build.verdicts.stop_prefill(Why(d.HEAD_OF_LINE, request.request_id))
        if self.log is not None:
            self.log.tell(d.Hold(request.request_id, request.window_end, request.prefill_size))

    def _block(self, request: Request, build: Round) -> None:
        if build.blocker is None:
            build.blocker = request
            if self.log is not None:
                self.log.tell(d.Blocker(request.request_id))

    def _note(self, request: Request, outcome: Outcome, build: Round) -> None:
        """Note why an attempt gave no row."""
        if self.log is None:
            return
        if isinstance(outcome, d.Refused):
            build.verdicts.note(request, self._why_refused(outcome))
        elif isinstance(outcome, d.Chunk):
            spent = outcome.budget_tokens <= 0
            build.verdicts.note(request, Why(d.BUDGET_SPENT) if spent else Why(d.CHUNK_ZERO, rule=outcome.bound_by))
        elif isinstance(outcome, NoSlot):
            build.verdicts.note(request, Why(d.NO_SLOT) if self.config.max_batch_size else NO_ROWS)

    def _why_refused(self, refused: d.Refused) -> Why:
        """Capacity, or never: the admission alone needs more blocks than there are."""
        device = self.admission.cache.device
        blocks = _blocks_for(refused.need_pages, device.packing)
        if blocks > device.parents:
            return Why(d.NEVER, rule=f"{blocks} blocks needed > {device.parents} blocks in the pool")
        return Why(d.CAPACITY)


def _blocks_for(pages: Sequence[int], packing: Sequence[int]) -> int:
    """LCM blocks that these pages per group fill."""
    return sum(-(-need // k) for need, k in zip(pages, packing, strict=True))
