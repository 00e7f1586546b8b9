"""One decode step of a request (seed 1, `scheduler-rules.md` 7.3)."""

from __future__ import annotations

from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.eviction import Shortage
from tsviz.scheduler.cache.geometry import FULL
from tsviz.scheduler.cache.tables import DENSE, Demand, reclaimable
from tsviz.scheduler.config import Config, Role
from tsviz.scheduler.decisions import Log, Refused
from tsviz.scheduler.plan import Row
from tsviz.scheduler.planning.progress import commit_progress, derive_progress
from tsviz.scheduler.planning.refusals import Refusals
from tsviz.scheduler.planning.releasable import Releasable
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.planning.round import Round
from tsviz.scheduler.planning.telling import tell_admitted
from tsviz.scheduler.request import Request
from tsviz.scheduler.states import PREFILL_DONE


class Decoding:
    """Schedules decode steps."""

    __slots__ = (
        "cache",
        "decode_tokens",
        "is_d",
        "is_p",
        "log",
        "refusals",
        "releasable",
        "roster",
        "streams",
    )

    def __init__(
        self, config: Config, cache: Cache, roster: Roster, refusals: Refusals, releasable: Releasable
    ) -> None:
        """Bind to the cache and the roster."""
        self.cache = cache
        self.roster = roster
        self.refusals = refusals
        self.releasable = releasable
        self.decode_tokens = config.decode_input_tokens
        self.is_p = config.role is Role.P
        self.is_d = config.role is Role.D
        self.streams = cache.publisher.streaming
        self.log: Log | None = None

    def decode(self, request: Request, build: Round) -> Row | Refused:
        """One decode step: in place when nothing completes, grows or expires, else through an admission."""
        cache, tokens = self.cache, request.next_reserve_tokens
        if tokens < 0:
            raise RuntimeError(f"decode reserve of request '{request.request_id}' must be non-negative")
        request.settle()
        computed = request.computed_tokens
        leaves_prefill = request.state == PREFILL_DONE
        progress, promotion = derive_progress(cache, request, computed, self.streams and leaves_prefill)
        if progress is None and self._can_consume(request, tokens, computed):
            for table in request.tables:
                table.available -= tokens
        else:
            demands = [Demand(DENSE, tokens, 0, 0)] * len(cache.groups)
            outcome = cache.admitter.more(
                request.tables,
                demands,
                request.chain,
                progress,
                computed,
                request.access_epoch,
                request.request_id,
                "decode",
            )
            if isinstance(outcome, Shortage):
                return self.refusals.refuse(request, outcome)
            if self.log is not None:
                tell_admitted(self.log, request, outcome)
            build.zero(outcome.fresh_pages)
            commit_progress(cache, request, progress, promotion)
            self.releasable.grew(request, outcome)
            request.refresh_views()
            request.decode_row = None
        request.next_reserve_tokens = self.decode_tokens
        self._foresee(request)
        row = request.decode_row
        if row is None:
            row = Row(
                request.request_id,
                request.slot,
                self.decode_tokens,
                request.prefill_size,
                request.views,
                0,
                0,
                None,
                -1,
                (),
            )
            request.decode_row = row
        if not leaves_prefill:
            return row
        self.roster.first_decode(request)
        if not self.is_p and not self.is_d:
            return row
        candidates: tuple[int, ...] = ()
        if self.is_p:
            candidates, request.spec_candidates = request.spec_candidates, ()
        return row._replace(decode_input_id=request.tokens[-1], spec_candidates=candidates)

    def _can_consume(self, request: Request, tokens: int, computed: int) -> bool:
        device = self.cache.device
        for group, table in zip(self.cache.groups, request.tables, strict=True):
            if table.available < tokens:
                return False
            if group.kind != FULL and reclaimable(device, group, table, computed):
                return False
        return True

    def _foresee(self, request: Request) -> None:
        """How many tokens, and up to which computed count, decodes stay in place."""
        request.slack_tokens = min([table.available for table in request.tables])
        quiet = (request.hashed_pages + 1) * self.cache.page_tokens
        for group, table in zip(self.cache.groups, request.tables, strict=True):
            if group.kind == FULL:
                continue
            pages, slot = table.pages, table.frontier
            end = len(pages)
            while slot < end and not pages[slot]:
                slot += 1
            if slot < end:
                quiet = min(quiet, (slot + 1) * group.granularity_tokens + group.window_tokens - 1)
        request.quiet_until = quiet
