"""Tickets between the device and the host tier: pending stores, store and load operations, acknowledgements.

Implements `cache-rules.md` 8.1 to 8.3. A pinned store owns its device pages until the acknowledgement, a
stream-ordered one does not; both own their host pages. A load owns both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tsviz.scheduler.cache.geometry import STATE, Group
from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.host import take_host
from tsviz.scheduler.cache.index import CHUNK, DeviceTier, HostTier
from tsviz.scheduler.cache.kv_events import KvEvents
from tsviz.scheduler.cache.storage import Shadow, StorageKey
from tsviz.scheduler.decisions import Log
from tsviz.scheduler.decisions import Transfer as Told


class LoadPair(NamedTuple):
    """One page on its way from the host (or, prefetched, from storage) to the device."""

    group: int
    host_page: int
    device_page: int
    digest: Digest
    offset: int
    prefetch: bool


class Transfer(NamedTuple):
    """One page on its way from the device to the host."""

    group: int
    device_page: int
    host_page: int
    digest: Digest
    offset: int


@dataclass(frozen=True, slots=True)
class StoreOp:
    """A store operation; `source_pinned` names its guard."""

    op_id: int
    transfers: tuple[Transfer, ...]
    source_pinned: bool


@dataclass(frozen=True, slots=True)
class LoadOp:
    """A load operation of one first chunk."""

    op_id: int
    pairs: tuple[LoadPair, ...]


class Transfers:
    """Pending stores and operations in flight."""

    __slots__ = (
        "device",
        "groups",
        "host",
        "kv",
        "loads",
        "log",
        "next_op",
        "pending",
        "shadow",
        "stores",
        "storing",
        "tick",
    )

    def __init__(
        self,
        groups: Sequence[Group],
        device: DeviceTier,
        host: HostTier | None,
        shadow: Shadow | None,
        kv: KvEvents | None,
        tick: Callable[[], int],
    ) -> None:
        """No transfer yet. `tick` advances the access clock and returns it."""
        self.groups = tuple(groups)
        self.device = device
        self.host = host
        self.shadow = shadow
        self.kv = kv
        self.tick = tick
        self.pending: list[StorageKey] = []
        self.stores: dict[int, StoreOp] = {}
        self.loads: dict[int, LoadOp] = {}
        self.storing: set[StorageKey] = set()
        self.next_op = 0
        self.log: Log | None = None

    @property
    def pinned_store_in_flight(self) -> bool:
        """Whether an unacknowledged store owns device pages."""
        return any(op.source_pinned for op in self.stores.values())

    def queue_history(self, chain: Sequence[Digest]) -> None:
        """Queue every cached history page of the chain: groups ascending, chain order."""
        for group in self.groups:
            if group.kind == STATE:
                continue
            where = self.device.where[group.index]
            for digest in chain:
                for offset in range(group.per_page):
                    if digest in where[offset]:
                        self.pending.append((group.index, digest, offset))

    def queue_latest_state(self, chain: Sequence[Digest]) -> None:
        """Queue the newest cached checkpoint of the chain for every state group."""
        for group in self.groups:
            if group.kind != STATE:
                continue
            where = self.device.where[group.index]
            slots = ((d, o) for d in reversed(chain) for o in reversed(range(group.per_page)))
            newest = next(((d, o) for d, o in slots if d in where[o]), None)
            if newest is not None:
                self.pending.append((group.index, *newest))

    def start_stores(self, source_pinned: bool) -> StoreOp | None:
        """Drain the pending list into one store operation; None when nothing is left to store."""
        if not self.pending or self.host is None:
            self.pending.clear()
            return None
        device, host = self.device, self.host
        kept: list[tuple[StorageKey, int]] = []
        seen: set[StorageKey] = set()
        for key in self.pending:
            group, digest, offset = key
            page = device.lookup(group, digest, offset)
            if key in seen or key in self.storing or not page or host.lookup(group, digest, offset):
                continue
            seen.add(key)
            device.acquire(group, page)
            kept.append((key, page))
        self.pending.clear()
        if not kept:
            return None
        host_pages = take_host(host, [key[0] for key, _ in kept])
        transfers = []
        for (key, page), host_page in zip(kept, host_pages, strict=True):
            group, digest, offset = key
            if host_page:
                transfers.append(Transfer(group, page, host_page, digest, offset))
                self.storing.add(key)
            if not host_page or not source_pinned:
                device.release(group, page)
        if not transfers:
            return None
        op = StoreOp(self._take_op(), tuple(transfers), source_pinned)
        self.stores[op.op_id] = op
        if self.log is not None:
            self._tell(op, "started")
        return op

    def _tell(self, op: StoreOp | LoadOp, event: str) -> None:
        assert self.log is not None
        if isinstance(op, LoadOp):
            self.log.tell(Told(op.op_id, "load", event, len(op.pairs)))
        else:
            kind = "store_pinned" if op.source_pinned else "store_stream_ordered"
            self.log.tell(Told(op.op_id, kind, event, len(op.transfers)))

    def _take_op(self) -> int:
        op_id = self.next_op
        self.next_op = op_id + 1
        return op_id

    def complete_store(self, op_id: int) -> None:
        """The copy is done: publish the host pages, drop the pins. Unknown ids are ignored."""
        op = self.stores.pop(op_id, None)
        if op is None:
            return
        if self.log is not None:
            self._tell(op, "done")
        owned = [self._publish_host(t.group, t.host_page, t.digest, t.offset) for t in op.transfers]
        assert self.host is not None
        for transfer, page in zip(op.transfers, owned, strict=True):
            self.storing.discard((transfer.group, transfer.digest, transfer.offset))
            self.host.release(transfer.group, page)
            if op.source_pinned:
                self.device.release(transfer.group, transfer.device_page)

    def _publish_host(self, group: int, page: int, digest: Digest, offset: int) -> int:
        """Register a host page the caller owns; returns the page the caller owns afterwards."""
        host = self.host
        assert host is not None
        canonical, _ = host.register(group, page, digest, offset, self.tick(), CHUNK, -1)
        if canonical != page:
            host.acquire(group, canonical)
            host.release(group, page)
        if self.shadow is not None:
            self.shadow.remember((group, digest, offset))
        return canonical

    def start_load(self, pairs: Sequence[LoadPair]) -> LoadOp:
        """One load operation over the pairs; it takes over their references."""
        op = LoadOp(self._take_op(), tuple(pairs))
        self.loads[op.op_id] = op
        if self.kv is not None:
            self.kv.keep(pair.digest for pair in op.pairs)
        if self.log is not None:
            self._tell(op, "started")
        return op

    def complete_load(self, op_id: int, success: bool) -> None:
        """The copy ended: on success publish, always drop the pins. Unknown ids are ignored."""
        op = self.loads.pop(op_id, None)
        if op is None:
            return
        assert self.host is not None
        if self.log is not None:
            self._tell(op, "done" if success else "failed")
        owned: list[tuple[int, int]] = []
        for pair in op.pairs:
            host_page, device_page = pair.host_page, pair.device_page
            if success:
                if pair.prefetch:
                    host_page = self._publish_host(pair.group, host_page, pair.digest, pair.offset)
                if self.shadow is not None:
                    device_page = self._publish_device(pair)
            owned.append((device_page, host_page))
        for pair, (device_page, host_page) in zip(op.pairs, owned, strict=True):
            self.device.release(pair.group, device_page)
            self.host.release(pair.group, host_page)
        if self.kv is not None:
            self.kv.unkeep(pair.digest for pair in op.pairs)

    def _publish_device(self, pair: LoadPair) -> int:
        device = self.device
        canonical, _ = device.register(pair.group, pair.device_page, pair.digest, pair.offset, self.tick(), CHUNK, -1)
        if canonical != pair.device_page:
            device.acquire(pair.group, canonical)
            device.release(pair.group, pair.device_page)
        return canonical

    def drop_pairs(self, pairs: Sequence[LoadPair]) -> None:
        """Undo the references of pairs whose admission was discarded."""
        assert self.host is not None or not pairs
        for pair in pairs:
            self.device.release(pair.group, pair.device_page)
            if self.host is not None:
                self.host.release(pair.group, pair.host_page)
