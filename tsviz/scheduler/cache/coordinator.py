"""The cache of one scheduler: both tiers, what connects them, and the probes (`cache-rules.md` 4)."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.scheduler.cache.admit import Admitter
from tsviz.scheduler.cache.geometry import FULL, STATE, groups_of
from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.host_hits import HostHits
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
from tsviz.scheduler.cache.publication import Publisher
from tsviz.scheduler.cache.storage import Shadow
from tsviz.scheduler.cache.tables import Table
from tsviz.scheduler.cache.transfers import Transfers
from tsviz.scheduler.config import INT32_MAX, Config, Role
from tsviz.scheduler.decisions import Log


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
        self.transfers = Transfers(self.groups, self.device, self.host, self.shadow, self.kv, self.tick)
        streaming = self.host is not None and config.role is not Role.D
        self.publisher = Publisher(self.device, self.page_tokens, self.transfers.pending, streaming)
        self.replay_window_tokens = config.replay_window_tokens
        self._order = match_order(self.groups)
        host_hits = None
        if self.host is not None:
            host_hits = HostHits(self.groups, self._order, self.page_tokens, self.host, self.shadow)
        self.admitter = Admitter(self.groups, self.device, host_hits, self.publisher, self.replay_window_tokens)
        self._decode_order = match_order(self.groups, ignore_state=True)
        self._no_masks: tuple[Mask, ...] = (NO_MASK,) * len(self.groups)
        self.empty_probe = Probe((), Match(0, 0, self._no_masks), Match(0, 0, self._no_masks), ((),) * len(self.groups))

    def listen(self, log: Log) -> None:
        """Tell the log what the cache decides."""
        self.admitter.log = log
        self.device.log = log
        self.publisher.log = log
        self.transfers.log = log
        if self.host is not None:
            self.host.log = log

    def tick(self) -> int:
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
            host = converge(Lookup(self.host, chain, shadow), groups, self._order, size, device.common_tokens, pages)
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
