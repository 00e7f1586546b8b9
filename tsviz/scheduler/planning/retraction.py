"""Retract and grant (seed 2, `scheduler-rules.md` 8)."""

from __future__ import annotations

from tsviz.scheduler import decisions as d
from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.transfers import StoreOp
from tsviz.scheduler.config import Config, Role
from tsviz.scheduler.plan import Row
from tsviz.scheduler.planning.admission import Admission
from tsviz.scheduler.planning.decoding import Decoding
from tsviz.scheduler.planning.outcomes import Outcome
from tsviz.scheduler.planning.progress import derive_progress
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.planning.round import Round
from tsviz.scheduler.planning.verdicts import Why
from tsviz.scheduler.request import Request
from tsviz.scheduler.states import DECODING, PREFILL_DONE, RETRACTED, SUBMITTED


class Retraction:
    """Frees the capacity of a victim for the blocker of the round."""

    __slots__ = (
        "admission",
        "cache",
        "config",
        "decoding",
        "epoch",
        "is_d",
        "log",
        "roster",
        "safe_step_tokens",
    )

    def __init__(self, config: Config, admission: Admission, decoding: Decoding, cache: Cache, roster: Roster) -> None:
        """No request retracted yet; epochs count from 1."""
        self.config = config
        self.admission = admission
        self.decoding = decoding
        self.cache = cache
        self.roster = roster
        self.is_d = config.role is Role.D
        self.safe_step_tokens = admission.rules.safe_step_tokens
        self.epoch = 0
        self.log: d.Log | None = None

    def run(self, build: Round) -> None:
        """Retract victims and retry the blocker until it fits, the grammar forbids it or victims run out."""
        blocker = build.blocker
        if blocker is None or build.prefills or build.remote_prefills:
            return
        log = self.log
        if log is not None:
            rows = len(build.prefills) + len(build.decodes)
            log.at(d.Phase("retraction", build.budget, build.holdback, rows))
        if self._deferred(blocker, build):
            return
        while True:
            victim = self.choose()
            if log is not None:
                self._tell_iteration(log, blocker, victim, build)
            if victim is None or victim.in_flight:
                return
            self.retract(victim, build)
            build.verdicts.note(victim, Why(d.RETRACTED, blocker.request_id))
            if victim is blocker:
                waiting = next((r for r in self.roster.waiting if r is not victim), None)
                if waiting is None:
                    self._tell_grant(blocker, "nobody_waits")
                    return
                blocker = waiting
            if build.full:
                self._tell_grant(blocker, "batch_full")
                build.verdicts.note(blocker, build.why_full())
                return
            if not self._joins(blocker, build):
                self._tell_grant(blocker, "cannot_join")
                build.verdicts.note(blocker, Why(d.CANNOT_JOIN))
                return
            outcome = self._grant(blocker, build)
            if not isinstance(outcome, d.Refused):
                self._tell_grant(blocker, "granted" if isinstance(outcome, Row) else "not_now")
                return
            self._tell_grant(blocker, "capacity")

    def _deferred(self, blocker: Request, build: Round) -> bool:
        """Whether a load or a pinned store in flight defers all retraction."""
        transfers = self.cache.transfers
        if not transfers.loads and not transfers.pinned_store_in_flight:
            return False
        if self.log is not None:
            pinned = [op.op_id for op in transfers.stores.values() if op.source_pinned]
            op_id = min([*transfers.loads, *pinned])
            self.log.at(d.Iteration(blocker.request_id, "", d.DEFERRED, op_id))
            build.verdicts.note(blocker, Why(d.DEFERRED, op_id=op_id))
        return True

    def _tell_iteration(self, log: d.Log, blocker: Request, victim: Request | None, build: Round) -> None:
        """The iteration, its verdict on the blocker, and every candidate with its rank or exemption."""
        if victim is None:
            outcome, name = d.NOTHING_RETRACTABLE, ""
            build.verdicts.note(blocker, Why(outcome))
        else:
            outcome, name = d.NOT_QUIESCENT if victim.in_flight else d.RETRACTED, victim.request_id
            if victim.in_flight:
                build.verdicts.note(blocker, Why(outcome, name))
        log.at(d.Iteration(blocker.request_id, name, outcome, -1))
        safe = self.safe_step_tokens
        rank = 0
        for tier, requests, key in (
            ("prefill", self.roster.prefilling, lambda r: (-len(r.tokens), r.order)),
            ("decode", self.roster.decoding, self._rank),
        ):
            for request in sorted(requests, key=key):
                exempt = request.reserve_covers_generation(safe)
                blocks = -self._rank(request)[0] if tier == "decode" else 0
                told = d.Victim(
                    request.request_id,
                    tier,
                    -1 if exempt else rank,
                    blocks,
                    len(request.tokens),
                    request.in_flight,
                    exempt,
                )
                log.tell(told)
                rank += not exempt

    def _tell_grant(self, request: Request, outcome: str) -> None:
        if self.log is not None:
            self.log.at(d.Grant(request.request_id, outcome))

    def choose(self) -> Request | None:
        """An incomplete prefill, largest first; else decode work, most blocks and fewest tokens."""
        safe = self.safe_step_tokens
        prefilling = [r for r in self.roster.prefilling if not r.reserve_covers_generation(safe)]
        if prefilling:
            return max(prefilling, key=lambda r: len(r.tokens))
        decoding = [r for r in self.roster.decoding if not r.reserve_covers_generation(safe)]
        return min(decoding, key=self._rank, default=None)

    def _rank(self, request: Request) -> tuple[int, int, bytes]:
        blocks = self.decoding.releasable.of(request)
        return (-blocks, len(request.tokens), request.request_id.encode("utf-8", "surrogatepass"))

    def retract(self, victim: Request, build: Round) -> None:
        """Take the victim's pages; with a host cache its snapshot leaves first, ordered by the stream."""
        cache = self.cache
        victim.retractions += 1
        if cache.host is not None:
            op = self._snapshot(victim)
            if op is not None:
                build.stores.append(op)
        self.demote(victim, recoverable=cache.host is not None or self.is_d)

    def _snapshot(self, victim: Request) -> StoreOp | None:
        cache = self.cache
        computed = victim.computed_tokens
        progress, _ = derive_progress(cache, victim, computed, stream=False, retracts=True)
        pages = victim.hashed_pages
        if progress is not None:
            pages = progress.end_page
            for group, table in zip(cache.groups, victim.tables, strict=True):
                cache.publisher.publish(group, table, victim.chain, progress, victim.access_epoch, victim.request_id)
        cache.transfers.queue_history(victim.chain[:pages])
        prompt_pages = victim.prefill_size // cache.page_tokens
        cache.transfers.queue_latest_state(victim.chain[: min(pages, prompt_pages)])
        return cache.transfers.start_stores(source_pinned=False)

    def demote(self, victim: Request, recoverable: bool) -> None:
        """Free, rebase the prefill window to all tokens, stamp the retraction."""
        self.epoch += 1
        victim.retraction_epoch = self.epoch
        victim.refusal = victim.memo = None
        victim.recoverable = recoverable
        victim.resumes_generation = victim.generated_tokens > 0
        self.admission.release(victim, RETRACTED)
        victim.prefill_size = len(victim.tokens)

    def _joins(self, blocker: Request, build: Round) -> bool:
        """Whether the grant can be part of this round's batch."""
        if blocker.state in (DECODING, PREFILL_DONE):
            return True
        if self.is_d and blocker.state in (SUBMITTED, RETRACTED):
            return True
        return not build.decodes or (not self.is_d and self.config.enable_mixed_prefill_decode)

    def _grant(self, blocker: Request, build: Round) -> Outcome:
        """Retry the blocker against the freed capacity."""
        if blocker.state in (DECODING, PREFILL_DONE):
            outcome = self.decoding.decode(blocker, build)
            if isinstance(outcome, Row):
                build.push_decode(blocker, outcome)
            return outcome
        remote = self.is_d and blocker.state in (SUBMITTED, RETRACTED)
        budget = blocker.prefill_size if remote else build.budget
        attempt = self.admission.prefill(blocker, budget, build)
        if isinstance(attempt, Row):
            if remote:
                build.push_remote(blocker, attempt, build.remote_prefills)
            else:
                build.push_prefill(blocker, attempt)
        return attempt
