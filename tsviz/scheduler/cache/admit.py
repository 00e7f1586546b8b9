"""One admission: plan, acquire, evict, publish, place (`cache-rules.md` 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsviz.scheduler.cache.eviction import Shortage, plan_eviction
from tsviz.scheduler.cache.geometry import Group
from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.host_hits import HostHits, Source
from tsviz.scheduler.cache.index import DeviceTier, Key
from tsviz.scheduler.cache.matching import Mask, Probe
from tsviz.scheduler.cache.publication import Progress, Publisher
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
from tsviz.scheduler.cache.transfers import LoadPair
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


class Admitter:
    """Grants or refuses what a request asks of every group at once."""

    __slots__ = ("device", "groups", "host_hits", "log", "publisher", "replay_window_tokens")

    def __init__(
        self,
        groups: tuple[Group, ...],
        device: DeviceTier,
        host_hits: HostHits | None,
        publisher: Publisher,
        replay_window_tokens: int,
    ) -> None:
        """`host_hits` is None without a host tier."""
        self.groups = groups
        self.device = device
        self.host_hits = host_hits
        self.publisher = publisher
        self.replay_window_tokens = replay_window_tokens
        self.log: Log | None = None

    def first(
        self,
        tables: Sequence[Table],
        probe: Probe,
        demands: Sequence[Demand],
        next_epoch: int,
        request_id: str,
        kind: str,
    ) -> Granted | Shortage:
        """Grant the demands of a first chunk, claiming the probe's hits, or refuse without any effect."""
        groups, device = self.groups, self.device
        hit = probe.hit_tokens
        if self.replay_window_tokens and hit:
            demands = self._replay_shape(demands, hit)
        needs = [
            blocks_needed(group, table, demand) + mask.ones
            for group, table, demand, mask in zip(groups, tables, demands, probe.host.masks, strict=True)
        ]
        if self.log is not None:
            self.log.at(Attempt(request_id, kind, tuple(needs), hit))
        hits = [(g.index, page) for g, pages in zip(groups, probe.device_pages, strict=True) for page in pages]
        victims = plan_eviction(device, needs, hits, ())
        if isinstance(victims, Shortage):
            return victims
        for index, page in hits:
            device.hit(index, page, next_epoch)
            device.hold(index, page)
        match, sources = probe.host, None
        if self.host_hits is not None:
            sources, match = self.host_hits.acquire(probe, next_epoch)
        if probe.device.common_tokens:
            self._claim(tables, probe)
        self._refuse_survivors(device.evict_unpinned(victims))
        pairs: list[LoadPair] = []
        fresh: list[list[int]] = []
        for group, table, demand in zip(groups, tables, demands, strict=True):
            if sources is not None:
                self._extend(group, table, match.masks[group.index], sources[group.index], pairs)
            fresh.append(grow(device, group, table, demand))
        host_tokens = match.common_tokens if self.host_hits is not None else 0
        return Granted(
            probe.device.common_tokens,
            host_tokens,
            probe.promotion_tokens,
            next_epoch,
            pairs,
            fresh,
            len(victims),
        )

    def more(
        self,
        tables: Sequence[Table],
        demands: Sequence[Demand],
        chain: Sequence[Digest],
        progress: Progress | None,
        computed_tokens: int,
        epoch: int,
        request_id: str,
        kind: str,
    ) -> Granted | Shortage:
        """Grant the demands of a resident request, publishing and reclaiming its progress, or refuse."""
        groups, device, log = self.groups, self.device, self.log
        needs = []
        own: list[tuple[int, int]] = []
        for group, table, demand in zip(groups, tables, demands, strict=True):
            needs.append(blocks_needed(group, table, demand))
            if group.window_tokens:
                own += [(group.index, p) for p in reclaimable(device, group, table, computed_tokens)]
        if log is not None:
            log.at(Attempt(request_id, kind, tuple(needs), 0))
        victims = plan_eviction(device, needs, (), own)
        if isinstance(victims, Shortage):
            return victims
        deferred = device.evict_unpinned(victims) if victims else victims
        for group, table in zip(groups, tables, strict=True):
            if progress is not None:
                self.publisher.publish(group, table, chain, progress, epoch, request_id)
            if group.window_tokens:
                dropped = reclaim(device, group, table, computed_tokens)
                if dropped and log is not None:
                    log.tell(Reclaim(request_id, group.index, dropped))
        if deferred:
            self._refuse_survivors(device.evict_unpinned(deferred))
        fresh: list[list[int]] = []
        for group, table, demand, need in zip(groups, tables, demands, needs, strict=True):
            if need or demand.shape != DENSE:
                fresh.append(grow(device, group, table, demand))
            else:
                table.available -= demand.tokens
                fresh.append([])
        return Granted(0, 0, 0, epoch, [], fresh, len(victims))

    def _refuse_survivors(self, victims: Sequence[Key]) -> None:
        """A victim that could not be evicted must be gone by itself."""
        for key in victims:
            if self.device.refs[key[-2]][key[-1]]:
                raise InvariantError(f"victim survives its admission: group {key[-2]} page {key[-1]}")

    def _replay_shape(self, demands: Sequence[Demand], hit: int) -> list[Demand]:
        """Replayable groups begin at the replay window of a local hit."""
        out = []
        for group, demand in zip(self.groups, demands, strict=True):
            if group.replayable and demand.shape == DENSE:
                first = (hit - min(self.replay_window_tokens, hit)) // group.granularity_tokens
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
        sources: Sequence[Source],
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
