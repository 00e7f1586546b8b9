"""Page copies of the simulated device: when they end, and what becomes of their acknowledgements."""

from __future__ import annotations

import heapq

from tsviz.engine.binding import LoadBackOp, WriteBackOp
from tsviz.engine.cost import DeviceCost
from tsviz.engine.device import CacheResult, Planned
from tsviz.engine.faults import AckFaults
from tsviz.engine.port import StorageKey
from tsviz.engine.tier import StorageTier


class CopyEngine:
    """One queue a direction, by the order of `executor-rules.md` section 2."""

    def __init__(self, cost: DeviceCost, faults: AckFaults, tier: StorageTier | None) -> None:
        self._cost = cost
        self._faults = faults
        self._tier = tier
        self._store_free_ns = 0
        self._load_free_ns = 0
        self._due: list[tuple[int, int, CacheResult]] = []
        self._backups: dict[int, list[StorageKey]] = {}

    def launch(self, planned: Planned, ready_ns: int) -> int:
        """Launch a plan's copies behind all forwards so far (`ready_ns`); return when its own forward may start.

        Unpinned stores fence the loads and the forward; pinned ones fence nothing.
        """
        fence_ns = ready_ns
        if planned.stores is not None:
            fence_ns = self._store(planned.stores, ready_ns)
        if planned.loads is not None:
            return self._load(planned.loads, planned.failed_loads, fence_ns)
        return fence_ns

    def poll(self, now_ns: int) -> list[CacheResult]:
        """Return what is acknowledged by now, in order of time, then of op id."""
        due = self._due
        results = []
        while due and due[0][0] <= now_ns:
            result = heapq.heappop(due)[2]
            if self._tier is not None:
                self._tier.put(self._backups.pop(result.op_id, ()))
            results.append(result)
        return results

    def next_ns(self) -> int | None:
        """Return when the next acknowledgement is due."""
        return self._due[0][0] if self._due else None

    def _store(self, stores: WriteBackOp, ready_ns: int) -> int:
        fence_ns = ready_ns
        pages = stores.group_ids
        for i, (op_id, pinned) in enumerate(zip(stores.op_ids, stores.source_pinned, strict=True)):
            end_ns = max(ready_ns, self._store_free_ns) + len(pages[i]) * self._cost.store_page_ns
            self._store_free_ns = end_ns
            if not pinned:
                fence_ns = max(fence_ns, end_ns)
            self._acknowledge(op_id, end_ns, is_store=True, success=True)
        if self._tier is not None:
            columns = zip(stores.op_ids, pages, stores.content_hashes, stores.page_offsets, strict=True)
            for op_id, groups, hashes, offsets in columns:
                self._backups[op_id] = [StorageKey(*key) for key in zip(groups, hashes, offsets, strict=True)]
        return fence_ns

    def _load(self, loads: LoadBackOp, failed: frozenset[int], ready_ns: int) -> int:
        end_ns = ready_ns
        for op_id, pages in zip(loads.op_ids, loads.group_ids, strict=True):
            if op_id in failed:
                self._acknowledge(op_id, ready_ns, is_store=False, success=False)
                continue
            end_ns = max(ready_ns, self._load_free_ns) + len(pages) * self._cost.load_page_ns
            self._load_free_ns = end_ns
            self._acknowledge(op_id, end_ns, is_store=False, success=not self._faults.load_fails(op_id))
        return end_ns

    def _acknowledge(self, op_id: int, end_ns: int, *, is_store: bool, success: bool) -> None:
        if self._faults.is_lost(op_id):
            return
        due_ns = end_ns + self._cost.ack_delay_ns + self._faults.delayed_ops.get(op_id, 0)
        heapq.heappush(self._due, (due_ns, op_id, CacheResult(op_id, is_store, success)))
