"""Admitting one request: first chunk, later chunk, decode (seed 1, `scheduler-rules.md` 6.2, 7.2, 7.3).

This layer sees the round only to record pages to zero and load operations; it never composes the batch.
"""

from __future__ import annotations

from tsviz.scheduler.cache.admit import Granted
from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.eviction import Shortage, Supply, fits
from tsviz.scheduler.cache.geometry import FULL
from tsviz.scheduler.cache.index import CHUNK, ENDPOINT, PROMOTED
from tsviz.scheduler.cache.matching import Probe
from tsviz.scheduler.cache.publication import Progress
from tsviz.scheduler.cache.tables import DENSE, Demand, Table, free, reclaimable, releasable_blocks
from tsviz.scheduler.config import INT32_MAX, Config, Role
from tsviz.scheduler.decisions import Admitted, Chunk, Log, Refused, Reserve, TierMatch
from tsviz.scheduler.plan import Row
from tsviz.scheduler.planning.chunks import WHOLE, ChunkCutter
from tsviz.scheduler.planning.demands import NO_GROWTH, landing_demands, prefill_demands
from tsviz.scheduler.planning.memory import Remembered
from tsviz.scheduler.planning.outcomes import NoSlot, Outcome
from tsviz.scheduler.planning.roster import Roster
from tsviz.scheduler.planning.round import Round
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
        "_singles",
        "_windowed",
        "cache",
        "config",
        "cutter",
        "decode_tokens",
        "is_d",
        "is_p",
        "log",
        "roster",
        "rules",
        "streams",
    )

    def __init__(self, config: Config, rules: RuleSet, cache: Cache, roster: Roster) -> None:
        """Bind the layer to the cache and the roster."""
        self.config = config
        self.rules = rules
        self.cache = cache
        self.roster = roster
        self.cutter = ChunkCutter(config)
        self.decode_tokens = config.decode_input_tokens
        self.is_p = config.role is Role.P
        self.is_d = config.role is Role.D
        self.streams = cache.publisher.streaming
        self.log: Log | None = None
        self._windowed = any(group.window_tokens for group in cache.groups)
        self._singles = all(group.packing == 1 for group in cache.groups)

    def prefill(self, request: Request, budget: int, build: Round) -> Outcome:
        """Schedule the next chunk of a request, its first one included."""
        if request.state == PREFILLING:
            return self.later_chunk(request, budget, build)
        return self.first_chunk(request, budget, build)

    def first_chunk(self, request: Request, budget: int, build: Round) -> Outcome:
        """Probe, cut, admit; with storage, again from a shortened hit when the prefetch found no room."""
        if not self.roster.slots:
            return NoSlot(request.request_id)
        cache, size = self.cache, request.prefill_size
        page_tokens = cache.page_tokens
        pages = request.candidate_pages
        chain = request.digests(pages)
        if cache.kv is not None:
            cache.kv.describe(chain, request.tokens, 0, pages)
        remote = self.is_d and request.state == SUBMITTED
        whole = remote and not self.rules.cut_remote_landings
        probe = self._probe(request)
        log = self.log
        if log is not None:
            self._tell_match(request, probe)
        cap = probe.host.common_tokens
        while True:
            probe = probe.shortened(cap - cap % page_tokens)
            hit = probe.hit_tokens
            promotion = 0 if whole else probe.promotion_tokens
            unscheduled = size - hit
            chunk = self.cutter.cut(
                request.request_id, hit, cache.replay_tokens(hit), unscheduled, budget, promotion
            )
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
                refused = self._refuse(request, outcome)
                request.memo = self._remember(request, probe, chunk, refused)
                return refused
            cache.clock = outcome.epoch
            self._tell_admitted(request, outcome)
            if outcome.hit_tokens >= hit:
                break
            cache.transfers.drop_pairs(outcome.pairs)
            free(cache.device, cache.groups, tables)
            cap = outcome.host_tokens
        build.zero(outcome.fresh_pages)
        return self._enter(request, build, tables, outcome, chunk, hit, remote)

    def _probe(self, request: Request) -> Probe:
        cache, size = self.cache, request.prefill_size
        readmitted = request.state == RETRACTED
        pages = max(size - max(self.config.prefix_replay_tokens, 1), 0) // cache.page_tokens
        if self.config.disable_prefix_cache and not readmitted:
            pages = 0
        if self.is_d and not readmitted:
            return cache.probe_decode(request.chain, pages)
        return cache.probe(request.chain, pages)

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
        progress, promotion = self.progress(request, first, self.streams)
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
            return self._refuse(request, outcome)
        self._tell_admitted(request, outcome)
        build.zero(outcome.fresh_pages)
        self._commit(request, progress, promotion)
        self._count_exclusive(request, outcome)
        request.replay_tokens = 0
        return self._scheduled(request, first, chunk.tokens, False)

    def decode(self, request: Request, build: Round) -> Row | Refused:
        """One decode step: in place when nothing completes, grows or expires, else through an admission."""
        cache, tokens = self.cache, request.next_reserve_tokens
        if tokens < 0:
            raise RuntimeError(f"decode reserve of request '{request.request_id}' must be non-negative")
        held = (len(request.tokens), tokens)
        if request.refused_for == held and self._still_short(request):
            return self.refuse_again(request)
        request.settle()
        computed = request.computed_tokens
        leaves_prefill = request.state == PREFILL_DONE
        progress, promotion = self.progress(request, computed, self.streams and leaves_prefill)
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
                request.refused_for = held
                return self._refuse(request, outcome)
            self._tell_admitted(request, outcome)
            build.zero(outcome.fresh_pages)
            self._commit(request, progress, promotion)
            self._count_exclusive(request, outcome)
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

    def _still_short(self, request: Request) -> bool:
        """Whether the refusal of an unchanged decode repeats: nothing of its own can be reclaimed."""
        last, device = request.refusal, self.cache.device
        if last is None or self._windowed or self.cache.kv is not None:
            return False
        return not fits(last.need_pages, device.packing, device.reach_local, device.available)

    def _count_exclusive(self, request: Request, granted: Granted) -> None:
        """Keep the count of blocks that only this request holds, where counting is adding."""
        if self._windowed or not self._singles:
            request.exclusive_at = -1
        elif request.exclusive_at >= 0:
            request.exclusive_blocks += sum([len(pages) for pages in granted.fresh_pages])

    def releasable(self, request: Request) -> int:
        """LCM blocks that would become reclaimable with the request; counted anew only if need be."""
        device = self.cache.device
        if request.exclusive_at != device.sharing:
            request.exclusive_blocks = releasable_blocks(device, self.cache.groups, request.tables)
            request.exclusive_at = device.sharing if self._singles and not self._windowed else -1
        return request.exclusive_blocks

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
            pages = table.pages
            slot = next((s for s in range(table.frontier, len(pages)) if pages[s]), -1)
            if slot >= 0:
                quiet = min(quiet, (slot + 1) * group.granularity_tokens + group.window_tokens - 1)
        request.quiet_until = quiet

    def progress(
        self, request: Request, computed: int, stream: bool, retracts: bool = False
    ) -> tuple[Progress | None, int]:
        """Pages completed since the last admission, and the promotion boundary left after publishing them."""
        page_tokens, promotion = self.cache.page_tokens, request.promotion_tokens
        filled, known = computed // page_tokens, request.hashed_pages
        if filled <= known:
            return None, promotion
        chain = request.digests(filled)
        if self.cache.kv is not None:
            self.cache.kv.describe(chain, request.tokens, known, filled)
        kind = ENDPOINT if computed == request.prefill_size else CHUNK
        if 0 < promotion <= computed:
            if promotion == computed:
                kind = PROMOTED
            promotion = 0
        state_kind = kind
        if kind == CHUNK:
            last = computed if retracts else request.prefill_size
            aligned = last - last % page_tokens
            if aligned > 0 and aligned in request.state_boundaries:
                state_kind = ENDPOINT
        boundaries = tuple(request.state_boundaries)
        return Progress(known, filled, kind, state_kind, boundaries, stream), promotion

    def _refuse(self, request: Request, shortage: Shortage) -> Refused:
        """The refusal as a value; the same object while no number of it changes."""
        refused = Refused(
            request.request_id,
            shortage.need_pages,
            shortage.free.blocks,
            shortage.free.local_pages,
            shortage.reachable.blocks,
            shortage.reachable.local_pages,
        )
        if refused == request.refusal:
            refused = request.refusal
        request.refusal = refused
        if self.log is not None:
            self.log.tell(refused)
        return refused

    def refuse_again(self, request: Request) -> Refused:
        """The remembered refusal of a newcomer without hits, with the supply of now when somebody listens."""
        last = request.refusal
        assert last is not None
        if self.log is None:
            return last
        device = self.cache.device
        free = Supply(device.empty, tuple(device.local))
        return self._refuse(
            request,
            Shortage(last.need_pages, free, Supply(device.available, tuple(device.reach_local))),
        )

    def _remember(self, request: Request, probe: Probe, chunk: Chunk, refused: Refused) -> Remembered | None:
        """What must stay true for the refusal of a first chunk to repeat; None if it is not cheap to see."""
        cache = self.cache
        if cache.kv is not None or cache.shadow is not None or probe.hit_tokens or probe.promotion_tokens:
            return None
        blocks = sum(need for need, k in zip(refused.need_pages, cache.device.packing, strict=True) if k == 1)
        low, high = (chunk.tokens, INT32_MAX) if chunk.bound_by == WHOLE else (chunk.budget_tokens,) * 2
        if not probe.chain:
            return Remembered(low, high, blocks, b"", -1, {}, {})
        first = cache.first_matched(self.is_d and request.state != RETRACTED)
        if first is None:
            return None
        host = cache.host.where[first][0] if cache.host is not None else {}
        return Remembered(low, high, blocks, request.chain[0], first, cache.device.where[first][0], host)

    def _tell_admitted(self, request: Request, granted: Granted) -> None:
        if self.log is None:
            return
        told = Admitted(
            request.request_id,
            granted.epoch,
            granted.device_tokens,
            granted.host_tokens,
            granted.promotion_tokens,
            tuple(len(pages) for pages in granted.fresh_pages),
            len(granted.pairs),
            granted.evicted_pages,
        )
        self.log.tell(told)

    def _tell_match(self, request: Request, probe: Probe) -> None:
        assert self.log is not None
        pages = max(request.prefill_size - max(self.config.prefix_replay_tokens, 1), 0) // request.page_tokens
        for tier, match in (("device", probe.device), ("host", probe.host)):
            if tier == "host" and self.cache.host is None:
                continue
            floor = 0 if tier == "device" else probe.device.common_tokens
            for group, mask in zip(self.cache.groups, match.masks, strict=True):
                told = TierMatch(
                    request.request_id,
                    tier,
                    group.index,
                    pages,
                    match.common_tokens,
                    match.closed_tokens,
                    floor // group.granularity_tokens,
                    mask.length - mask.ones,
                    mask.ones,
                )
                self.log.tell(told)

    def _commit(self, request: Request, progress: Progress | None, promotion: int) -> None:
        if progress is None:
            return
        page_tokens, filled = self.cache.page_tokens, progress.end_page
        request.hashed_pages = filled
        request.promotion_tokens = promotion
        request.state_boundaries = [b for b in request.state_boundaries if b // page_tokens > filled]

    def release(self, request: Request, state: int) -> None:
        """Free the bundle of a page-holding request and move it to a page-less state."""
        free(self.cache.device, self.cache.groups, request.tables)
        self.roster.slots.append(request.slot)
        request.clear_bundle()
        self.roster.move(request, state)
