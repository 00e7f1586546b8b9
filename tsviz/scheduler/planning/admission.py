"""Admitting a prefill: first chunk, later chunk (seed 1, `scheduler-rules.md` 6.2, 7.2).

This layer sees the round only to record pages to zero and load operations; it never composes the batch.
"""

from __future__ import annotations

from tsviz.scheduler.cache.admit import Granted
from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.eviction import Shortage
from tsviz.scheduler.cache.matching import Probe
from tsviz.scheduler.cache.tables import Table, free
from tsviz.scheduler.config import Config, Role
from tsviz.scheduler.decisions import Chunk, Log, Reserve
from tsviz.scheduler.plan import Row
from tsviz.scheduler.planning.chunks import ChunkCutter
from tsviz.scheduler.planning.demands import NO_GROWTH, landing_demands, prefill_demands
from tsviz.scheduler.planning.outcomes import NoSlot, Outcome
from tsviz.scheduler.planning.progress import commit_progress, derive_progress
from tsviz.scheduler.planning.refusals import Refusals
from tsviz.scheduler.planning.releasable import Releasable
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.planning.round import Round
from tsviz.scheduler.planning.telling import tell_admitted, tell_match
from tsviz.scheduler.request import Request
from tsviz.scheduler.rules import RuleSet
from tsviz.scheduler.states import (
    PREFILL_AWAITING_RESULT,
    PREFILL_DONE,
    PREFILLING,
    REMOTE_PREFILLING,
    RETRACTED,
    SUBMITTED,
)


class Admission:
    """The per-request admission layer of one scheduler."""

    __slots__ = (
        "attempts",
        "cache",
        "config",
        "cutter",
        "decode_tokens",
        "is_d",
        "is_p",
        "log",
        "refusals",
        "releasable",
        "roster",
        "rules",
        "streams",
    )

    def __init__(
        self,
        config: Config,
        rules: RuleSet,
        cache: Cache,
        roster: Roster,
        refusals: Refusals,
        releasable: Releasable,
    ) -> None:
        """Bind the layer to the cache and the roster."""
        self.refusals = refusals
        self.releasable = releasable
        self.config = config
        self.rules = rules
        self.cache = cache
        self.roster = roster
        self.cutter = ChunkCutter(config)
        self.decode_tokens = config.decode_input_tokens
        self.is_p = config.role is Role.P
        self.is_d = config.role is Role.D
        self.streams = cache.publisher.streaming
        self.attempts = 0
        """How often a first chunk was tried: remembered refusals change with nothing else."""
        self.log: Log | None = None

    def prefill(self, request: Request, budget: int, build: Round) -> Outcome:
        """Schedule the next chunk of a request, its first one included."""
        if request.state == PREFILLING:
            return self.later_chunk(request, budget, build)
        return self.first_chunk(request, budget, build)

    def first_chunk(self, request: Request, budget: int, build: Round) -> Outcome:
        """Probe, cut, admit; with storage, again from a shortened hit when the prefetch found no room."""
        if not self.roster.slots:
            return NoSlot(request.request_id)
        self.attempts += 1
        cache, size = self.cache, request.prefill_size
        page_tokens = cache.page_tokens
        pages = request.candidate_pages
        chain = request.digests(pages)
        if cache.kv is not None:
            cache.kv.describe(chain, request.tokens, 0, pages)
        remote = self.is_d and request.state == SUBMITTED
        whole = remote and not self.rules.cut_remote_landings
        pages = self._probe_pages(request)
        probe = self._probe(request, pages)
        log = self.log
        if log is not None:
            tell_match(log, cache, request, probe, pages)
        cap = probe.host.common_tokens
        while True:
            probe = probe.shortened(cap - cap % page_tokens)
            hit = probe.hit_tokens
            promotion = 0 if whole else probe.promotion_tokens
            unscheduled = size - hit
            chunk = self.cutter.cut(request.request_id, hit, cache.replay_tokens(hit), unscheduled, budget, promotion)
            if log is not None:
                log.tell(chunk)
            if not chunk.tokens:
                return chunk
            reserve = self._first_reserve(request, chunk, remote)
            if log is not None:
                log.tell(reserve)
            if remote:
                demands = landing_demands(cache.groups, reserve, hit, size, chunk.tokens)
            else:
                demands = prefill_demands(cache.groups, reserve, hit, chunk.tokens, page_tokens)
            tables = cache.new_tables()
            kind = "remote_landing" if remote else "first_chunk"
            outcome = cache.admitter.first(tables, probe, demands, cache.clock + 1, request.request_id, kind)
            if isinstance(outcome, Shortage):
                refused = self.refusals.refuse(request, outcome)
                decode_probe = self.is_d and request.state != RETRACTED
                request.memo = self.refusals.remember(request, probe, chunk, refused, decode_probe)
                return refused
            cache.clock = outcome.epoch
            if log is not None:
                tell_admitted(log, request, outcome)
            if outcome.hit_tokens >= hit:
                break
            cache.transfers.drop_pairs(outcome.pairs)
            free(cache.device, cache.groups, tables)
            cap = outcome.host_tokens
        build.zero(outcome.fresh_pages)
        return self._enter(request, build, tables, outcome, chunk, hit, remote)

    def _probe_pages(self, request: Request) -> int:
        """Prefix pages that may hit: the tail that must be computed anew is left out."""
        if self.config.disable_prefix_cache and request.state != RETRACTED:
            return 0
        tail = max(self.config.prefix_replay_tokens, 1)
        return max(request.prefill_size - tail, 0) // self.cache.page_tokens

    def _probe(self, request: Request, pages: int) -> Probe:
        if self.is_d and request.state != RETRACTED:
            return self.cache.probe_decode(request.chain, pages)
        return self.cache.probe(request.chain, pages)

    def _first_reserve(self, request: Request, chunk: Chunk, remote: bool) -> Reserve:
        rest = chunk.unscheduled_tokens - chunk.tokens
        head = 0 if self.is_p else request.headroom_tokens(self.rules.safe_step_tokens)
        return Reserve(
            request_id=request.request_id,
            decode_tokens=0 if rest else self.decode_tokens,
            rest_of_prompt_tokens=rest,
            headroom_tokens=head,
            growth_tokens=self.decode_tokens if not self.is_p and (remote or not rest) else NO_GROWTH,
        )

    def _enter(
        self,
        request: Request,
        build: Round,
        tables: list[Table],
        admitted: Granted,
        chunk: Chunk,
        hit: int,
        remote: bool,
    ) -> Row:
        """Give the request its bundle, publish the host extension, start the load."""
        cache, roster = self.cache, self.roster
        first_page, end_page = admitted.device_tokens // cache.page_tokens, hit // cache.page_tokens
        prefetched = {pair.digest for pair in admitted.pairs if pair.prefetch}
        for page in range(first_page, end_page):
            if request.chain[page] not in prefetched:
                cache.publisher.publish_loaded_page(cache.groups, tables, request.chain, page, admitted.epoch)
        if admitted.pairs:
            build.loads.append(cache.transfers.start_load(admitted.pairs))
        request.refusal = request.memo = None
        request.tables = tables
        request.slot = roster.slots.popleft()
        request.in_flight = 0
        request.hashed_pages = end_page
        request.access_epoch = admitted.epoch
        request.promotion_tokens = admitted.promotion_tokens
        request.state_boundaries = []
        request.replay_tokens = 0 if remote else cache.replay_tokens(hit)
        return self._scheduled(request, hit, chunk.tokens, remote)

    def _scheduled(self, request: Request, begin: int, tokens: int, remote: bool) -> Row:
        """Record the window and its checkpoint, move to the successor state, make the row."""
        end = begin + tokens
        page_tokens = self.cache.page_tokens
        if not remote or end % page_tokens == 0:
            boundary = end - end % page_tokens
            known = request.state_boundaries
            if boundary // page_tokens > request.hashed_pages and (not known or boundary > known[-1]):
                known.append(boundary)
        completes = end == request.prefill_size
        request.window_end = end
        request.next_reserve_tokens = self.decode_tokens if completes else 0
        if remote:
            state = REMOTE_PREFILLING
        elif not completes:
            state = PREFILLING
        else:
            state = PREFILL_AWAITING_RESULT if self.is_p else PREFILL_DONE
        if state != request.state:
            self.roster.move(request, state)
        replay = request.replay_tokens
        return Row(
            request.request_id,
            request.slot,
            tokens + replay,
            request.prefill_size,
            request.refresh_views(),
            begin - replay,
            replay,
            request.tokens,
            -1,
            (),
        )

    def later_chunk(self, request: Request, budget: int, build: Round) -> Outcome:
        """Admit the next chunk of a resident prefill together with its progress."""
        cache, first = self.cache, request.window_end
        chunk = self.cutter.cut(
            request.request_id, first, 0, request.prefill_size - first, budget, request.promotion_tokens
        )
        log = self.log
        if log is not None:
            log.tell(chunk)
        if not chunk.tokens:
            return chunk
        completes = chunk.tokens == chunk.unscheduled_tokens
        decode = self.decode_tokens if completes else 0
        growth = self.decode_tokens if completes and not self.is_p else NO_GROWTH
        reserve = Reserve(request.request_id, decode, 0, 0, growth)
        if log is not None:
            log.tell(reserve)
        demands = prefill_demands(cache.groups, reserve, first, chunk.tokens, cache.page_tokens)
        progress, promotion = derive_progress(cache, request, first, self.streams)
        outcome = cache.admitter.more(
            request.tables,
            demands,
            request.chain,
            progress,
            first,
            request.access_epoch,
            request.request_id,
            "later_chunk",
        )
        if isinstance(outcome, Shortage):
            return self.refusals.refuse(request, outcome)
        if log is not None:
            tell_admitted(log, request, outcome)
        build.zero(outcome.fresh_pages)
        commit_progress(cache, request, progress, promotion)
        self.releasable.grew(request, outcome)
        request.replay_tokens = 0
        return self._scheduled(request, first, chunk.tokens, False)

    def release(self, request: Request, state: int) -> None:
        """Free the bundle of a page-holding request and move it to a page-less state."""
        free(self.cache.device, self.cache.groups, request.tables)
        self.roster.slots.append(request.slot)
        request.clear_bundle()
        self.roster.move(request, state)
