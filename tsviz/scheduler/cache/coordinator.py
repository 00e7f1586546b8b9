"""The cache as the planner sees it: probe, admit, publish, release (`cache-rules.md` 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsviz.scheduler.cache.eviction import Shortage, plan_eviction
from tsviz.scheduler.cache.geometry import FULL, STATE, Group, groups_of
from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.host import take_host
from tsviz.scheduler.cache.index import DeviceTier, HostTier
from tsviz.scheduler.cache.kv_events import KvEvents
from tsviz.scheduler.cache.matching import (
    NO_MASK,
    Lookup,
    Mask,
    Match,
    Probe,
    converge,
    hit_pages,
    match_order,
)
from tsviz.scheduler.cache.publication import Progress, Publisher
from tsviz.scheduler.cache.storage import Shadow
from tsviz.scheduler.cache.tables import (
    DENSE,
    SPARSE,
    Demand,
    Table,
    blocks_needed,
    grow,
    place,
    reclaim,
    reclaimable,
)
from tsviz.scheduler.cache.transfers import LoadPair, Transfers
from tsviz.scheduler.config import INT32_MAX, Config, Role
from tsviz.scheduler.decisions import Attempt, Log, Reclaim
from tsviz.scheduler.errors import InvariantError


@dataclass(slots=True)
class Granted:
    """What a successful admission gave."""

    device_tokens: int
    host_tokens: int
    promotion_tokens: int
    epoch: int
    pairs: list[LoadPair]
    fresh_pages: list[list[int]]
    """Per group the pages that must be zeroed, in acquisition order."""
    evicted_pages: int

    @property
    def hit_tokens(self) -> int:
        """Length of the hit that was really acquired."""
        return max(self.device_tokens, self.host_tokens)


class Cache:
    """Both tiers, the index, the tickets and the rules of one admission."""

    def __init__(self, config: Config) -> None:
        """Pools and indexes of a validated config. Raises RuntimeError when page ids exceed int32."""
        self.groups = groups_of(config)
        self.page_tokens = config.prefix_granularity
        host_parents = config.num_host_pages - 1 if config.has_host_cache else 0
        for group in self.groups:
            if max(config.num_device_pages - 1, host_parents) * group.packing > INT32_MAX:
                raise RuntimeError("block pool exceeds int32 page ids")
        self.device = DeviceTier(self.groups, config.num_device_pages - 1)
        self.host = HostTier(self.groups, host_parents) if host_parents else None
        self.shadow: Shadow | None = None
        if config.enable_l3_storage:
            self.shadow = Shadow(max(1, sum(host_parents * g.packing for g in self.groups)))
        self.kv: KvEvents | None = None
        if config.enable_kv_cache_events:
            complete_at = sum(g.per_page for g in self.groups if not g.replayable)
            self.kv = KvEvents(self.page_tokens, complete_at)
            self.device.on_change = self.kv.changed
        self.clock = 0
        self.log: Log | None = None
        self.transfers = Transfers(self.groups, self.device, self.host, self.shadow, self.kv, self._tick)
        streaming = self.host is not None and config.role is not Role.D
        self.publisher = Publisher(self.device, self.page_tokens, self.transfers.pending, streaming)
        self.replay_window_tokens = config.replay_window_tokens
        self._order = match_order(self.groups)
        self._decode_order = match_order(self.groups, ignore_state=True)
        self._no_masks: tuple[Mask, ...] = (NO_MASK,) * len(self.groups)
        self.empty_probe = Probe(
            (), Match(0, 0, self._no_masks), Match(0, 0, self._no_masks), ((),) * len(self.groups)
        )

    def listen(self, log: Log) -> None:
        """Tell the log what the cache decides."""
        self.log = log
        self.device.log = log
        self.publisher.log = log
        self.transfers.log = log
        if self.host is not None:
            self.host.log = log

    def _tick(self) -> int:
        self.clock += 1
        return self.clock

    def first_matched(self, decode_probe: bool) -> int | None:
        """The full-history group that a probe matches first: its miss ends the match. None without one."""
        order = self._decode_order if decode_probe else self._order
        return order[0].index if order and order[0].kind == FULL else None

    def replay_tokens(self, hit_tokens: int) -> int:
        """Prompt tokens fed again after a local hit of this length."""
        return min(self.replay_window_tokens, hit_tokens)

    def new_tables(self) -> list[Table]:
        """Empty tables of a request."""
        return [Table() for _ in self.groups]

    def probe(self, chain: Sequence[Digest], pages: int) -> Probe:
        """Match the first `pages` of the chain on the device, then on the host from there."""
        if not pages:
            return self.empty_probe
        size, groups = self.page_tokens, self.groups
        device = converge(Lookup(self.device, chain, None), groups, self._order, size, 0, pages)
        host = self.empty_probe.host
        if self.host is not None:
            shadow = self.shadow.keys if self.shadow is not None else None
            host = converge(
                Lookup(self.host, chain, shadow), groups, self._order, size, device.common_tokens, pages
            )
        return Probe(chain, device, host, hit_pages(self.device, groups, device, chain))

    def probe_decode(self, chain: Sequence[Digest], pages: int) -> Probe:
        """Match for a remote landing: device only; state groups follow with holes."""
        if not pages:
            return self.empty_probe
        lookup = Lookup(self.device, chain, None)
        match = converge(lookup, self.groups, self._decode_order, self.page_tokens, 0, pages)
        masks = tuple(
            Mask(match.common_tokens // group.granularity_tokens, 0) if group.kind == STATE else mask
            for group, mask in zip(self.groups, match.masks, strict=True)
        )
        match = match._replace(masks=masks)
        return Probe(chain, match, self.empty_probe.host, hit_pages(self.device, self.groups, match, chain))

    def admit(
        self,
        tables: Sequence[Table],
        probe: Probe,
        demands: Sequence[Demand],
        chain: Sequence[Digest],
        progress: Progress | None,
        computed_tokens: int | None,
        epoch: int | None,
        request_id: str,
        kind: str,
    ) -> Granted | Shortage:
        """Grant the demands or refuse without any effect.

        `computed_tokens` None marks a first admission: nothing is reclaimed and a new epoch is issued.
        """
        groups, device = self.groups, self.device
        hit = probe.hit_tokens
        if self.replay_window_tokens and hit:
            demands = self._replay_shape(demands, hit)
        needs = [
            blocks_needed(group, table, demand) + mask.ones
            for group, table, demand, mask in zip(groups, tables, demands, probe.host.masks, strict=True)
        ]
        log = self.log
        if log is not None:
            log.at(Attempt(request_id, kind, tuple(needs), hit))
        own: list[tuple[int, int]] = []
        if computed_tokens is not None:
            for group, table in zip(groups, tables, strict=True):
                if group.window_tokens:
                    own += [(group.index, p) for p in reclaimable(device, group, table, computed_tokens)]
        hits = [
            (g.index, page) for g, pages in zip(groups, probe.device_pages, strict=True) for page in pages
        ]
        victims = plan_eviction(device, needs, hits, own)
        if isinstance(victims, Shortage):
            return victims
        if epoch is None:
            epoch = self._tick()
        promotion = probe.promotion_tokens
        for index, page in hits:
            device.hit(index, page, epoch)
            device.hold(index, page)
        sources, host = self._acquire_host(probe, epoch)
        if probe.device.common_tokens:
            self._claim(tables, probe)
        deferred = []
        for key in victims:
            if device.is_unpinned(key[-2], key[-1]):
                device.evict(key[-2], key[-1])
            else:
                deferred.append(key)
        if computed_tokens is not None:
            for group, table in zip(groups, tables, strict=True):
                if progress is not None:
                    self.publisher.publish(group, table, chain, progress, epoch, request_id)
                if group.window_tokens:
                    dropped = reclaim(device, group, table, computed_tokens)
                    if dropped and log is not None:
                        log.tell(Reclaim(request_id, group.index, dropped))
        for key in deferred:
            group_index, page = key[-2], key[-1]
            if device.is_unpinned(group_index, page):
                device.evict(group_index, page)
            elif page < len(device.refs[group_index]) and device.refs[group_index][page]:
                raise InvariantError(f"victim survives its admission: group {group_index} page {page}")
        pairs: list[LoadPair] = []
        fresh: list[list[int]] = []
        for group, table, demand in zip(groups, tables, demands, strict=True):
            self._extend(group, table, host.masks[group.index], sources[group.index], pairs)
            fresh.append(grow(device, group, table, demand))
        host_tokens = host.common_tokens if self.host is not None else 0
        return Granted(probe.device.common_tokens, host_tokens, promotion, epoch, pairs, fresh, len(victims))

    def _replay_shape(self, demands: Sequence[Demand], hit: int) -> list[Demand]:
        """Replayable groups begin at the replay window of a local hit."""
        out = []
        for group, demand in zip(self.groups, demands, strict=True):
            if group.replayable and demand.shape == DENSE:
                first = (hit - self.replay_tokens(hit)) // group.granularity_tokens
                demand = Demand(SPARSE, hit + demand.tokens, first, demand.reserve_tokens)
            out.append(demand)
        return out

    def _claim(self, tables: Sequence[Table], probe: Probe) -> None:
        for table, mask, pages in zip(tables, probe.device.masks, probe.device_pages, strict=True):
            holes = mask.length - mask.ones
            table.pages.extend([0] * holes)
            table.pages.extend(pages)
            table.frontier = holes

    def _extend(
        self,
        group: Group,
        table: Table,
        mask: Mask,
        sources: Sequence[tuple[int, Digest, int, bool]],
        pairs: list[LoadPair],
    ) -> None:
        """Append the host extension of one group: device children that the loads will fill."""
        if not mask.length:
            return
        pages = place(self.device, group, table, mask.ones)
        table.pages.extend([0] * (mask.length - mask.ones))
        table.pages.extend(pages)
        for page, (host_page, digest, offset, prefetch) in zip(pages, sources, strict=True):
            self.device.acquire(group.index, page)
            pairs.append(LoadPair(group.index, host_page, page, digest, offset, prefetch))

    def _host_slots(self, probe: Probe, match: Match) -> list[list[tuple[int, Digest, int]]]:
        """Per group (slot, digest, offset) of the ones of a host match."""
        out = []
        for group, mask in zip(self.groups, match.masks, strict=True):
            begin = probe.device.common_tokens // group.granularity_tokens
            slots = range(begin + mask.length - mask.ones, begin + mask.length)
            out.append([(s, probe.chain[s // group.per_page], s % group.per_page) for s in slots])
        return out

    def _acquire_host(
        self, probe: Probe, epoch: int
    ) -> tuple[list[list[tuple[int, Digest, int, bool]]], Match]:
        """Own a host page for every host hit; with storage, shorten until the prefetches find room."""
        none: list[list[tuple[int, Digest, int, bool]]] = [[] for _ in self.groups]
        tier = self.host
        if tier is None:
            return none, probe.host
        if self.shadow is None:
            for index, slots in enumerate(self._host_slots(probe, probe.host)):
                for _, digest, offset in slots:
                    page = tier.lookup(index, digest, offset)
                    tier.hit(index, page, epoch)
                    none[index].append((page, digest, offset, False))
            return none, probe.host
        size, floor = self.page_tokens, probe.device.common_tokens
        current = probe.host.common_tokens
        lookup = Lookup(tier, probe.chain, self.shadow.keys)
        while True:
            match = converge(lookup, self.groups, self._order, size, floor, max(current, floor) // size)
            taken, short = self._try_host(tier, self._host_slots(probe, match), epoch)
            if short is None:
                return taken, match
            for index, sources in enumerate(taken):
                for page, _, _, _ in sources:
                    tier.release(index, page)
            shorter = short - short % size
            if shorter >= match.common_tokens:
                shorter = match.common_tokens - size
            current = max(shorter, floor)
            current -= current % size

    def _try_host(
        self, tier: HostTier, slots: list[list[tuple[int, Digest, int]]], epoch: int
    ) -> tuple[list[list[tuple[int, Digest, int, bool]]], int | None]:
        """One attempt; also the lowest token position for which no host page could be had, or None."""
        taken: list[list[tuple[int, Digest, int, bool]]] = [[] for _ in self.groups]
        short: int | None = None
        for group, wanted in zip(self.groups, slots, strict=True):
            for slot, digest, offset in wanted:
                page = tier.lookup(group.index, digest, offset)
                cached = bool(page)
                if cached:
                    tier.hit(group.index, page, epoch)
                elif self.shadow is not None and (group.index, digest, offset) in self.shadow.keys:
                    page = take_host(tier, [group.index])[0]
                if not page:
                    position = slot * group.granularity_tokens
                    short = position if short is None else min(short, position)
                    break
                taken[group.index].append((page, digest, offset, not cached))
        return taken, short
