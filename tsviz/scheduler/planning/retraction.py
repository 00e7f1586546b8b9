"""Retract and grant (seed 2, `scheduler-rules.md` 8)."""

from __future__ import annotations

from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.tables import releasable_blocks
from tsviz.scheduler.cache.transfers import StoreOp
from tsviz.scheduler.config import Config, Role
from tsviz.scheduler.plan import Row
from tsviz.scheduler.planning.admission import Admission
from tsviz.scheduler.planning.outcomes import Refused
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.planning.round import Round
from tsviz.scheduler.request import Request
from tsviz.scheduler.states import DECODING, PREFILL_DONE, RETRACTED, SUBMITTED


class Retraction:
    """Frees the capacity of a victim for the blocker of the round."""

    __slots__ = ("admission", "cache", "config", "epoch", "is_d", "roster", "safe_step_tokens")

    def __init__(self, config: Config, admission: Admission, cache: Cache, roster: Roster) -> None:
        """No request retracted yet; epochs count from 1."""
        self.config = config
        self.admission = admission
        self.cache = cache
        self.roster = roster
        self.is_d = config.role is Role.D
        self.safe_step_tokens = admission.rules.safe_step_tokens
        self.epoch = 0

    def run(self, build: Round) -> None:
        """Retract victims and retry the blocker until it fits, the grammar forbids it or victims run out."""
        blocker = build.blocker
        if blocker is None or build.prefills or build.remote_prefills:
            return
        transfers = self.cache.transfers
        if transfers.loads or transfers.pinned_store_in_flight:
            return
        while True:
            victim = self.choose()
            if victim is None or victim.in_flight:
                return
            self.retract(victim, build)
            if victim is blocker:
                waiting = next((r for r in self.roster.waiting if r is not victim), None)
                if waiting is None:
                    return
                blocker = waiting
            if build.full or not self._joins(blocker, build):
                return
            outcome = self._grant(blocker, build)
            if not isinstance(outcome, Refused):
                return

    def choose(self) -> Request | None:
        """The best victim: an incomplete prefill, largest first; else decode work, most blocks and fewest tokens."""
        safe = self.safe_step_tokens
        prefilling = [r for r in self.roster.prefilling if not r.reserve_covers_generation(safe)]
        if prefilling:
            return max(prefilling, key=lambda r: len(r.tokens))
        decoding = [r for r in self.roster.decoding if not r.reserve_covers_generation(safe)]
        return min(decoding, key=self._rank, default=None)

    def _rank(self, request: Request) -> tuple[int, int, bytes]:
        blocks = releasable_blocks(self.cache.device, self.cache.groups, request.tables)
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
        progress, _ = self.admission.progress(victim, computed, stream=False, retracts=True)
        pages = victim.hashed_pages
        if progress is not None:
            pages = progress.end_page
            for group, table in zip(cache.groups, victim.tables, strict=True):
                cache.publisher.publish(group, table, victim.chain, progress, victim.access_epoch)
        cache.transfers.queue_history(victim.chain[:pages])
        prompt_pages = victim.prefill_size // cache.page_tokens
        cache.transfers.queue_latest_state(victim.chain[: min(pages, prompt_pages)])
        return cache.transfers.start_stores(source_pinned=False)

    def demote(self, victim: Request, recoverable: bool) -> None:
        """Free, rebase the prefill window to all tokens, stamp the retraction."""
        self.epoch += 1
        victim.retraction_epoch = self.epoch
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

    def _grant(self, blocker: Request, build: Round) -> object:
        """Retry the blocker against the freed capacity."""
        if blocker.state in (DECODING, PREFILL_DONE):
            outcome = self.admission.decode(blocker, build)
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
