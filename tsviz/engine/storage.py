"""The loop's part of the storage tier (`executor-rules.md` section 6): the registered keys, and what a miss does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tsviz.engine.binding import LoadBackOp
from tsviz.engine.device import DeviceHandle, Planned
from tsviz.engine.events import Retracted
from tsviz.engine.port import Port, StorageKey
from tsviz.engine.workloads.model import Tokens


@dataclass(frozen=True, slots=True)
class Prefetched:
    """A plan after its pages were fetched: what is left to execute, whom to retract, when the fetch is over.

    `spoilt` are rows' requests whose pages are not there: they fail.
    """

    planned: Planned
    retracts: tuple[Retracted, ...]
    end_ns: int | None
    spoilt: tuple[str, ...] = ()


class StorageKeeper:
    """Keeps the scheduler's view of storage equal to what the probe says."""

    def __init__(self, port: Port, device: DeviceHandle, *, groups: Sequence[str] | None = None) -> None:
        """`groups` are the names of the cache groups, in order, where a miss ends the requests that needed the page.

        So it is on a decode node that computes: behind a Retract the scheduler has a request decode whose prompt nobody
        has computed anew (`scheduler-rules.md` 13.1).
        """
        self._port = port
        self._device = device
        self._groups = groups
        self._registered: set[StorageKey] = set()

    def submitting(self, tokens: Tokens) -> None:
        """Probe a new prompt's pages and register what is there, before it is submitted."""
        self._refresh(self._port.storage_keys_of(tokens))

    def refresh(self) -> None:
        """Probe again for the next admissions: an earlier hit may have disappeared."""
        self._refresh(self._port.storage_keys_waiting())

    def prefetch(self, planned: Planned) -> Prefetched:
        """Fetch what the plan's loads want from storage.

        On any miss the plan keeps its copies, but runs no forward and sends no manifest; all its rows are retracted. Or
        it goes on, and whoever needed the page fails.
        """
        wanted = _wanted(planned.loads) if planned.loads is not None else {}
        if not wanted:
            return Prefetched(planned, (), None)
        fetched = self._device.prefetch_storage([key for keys in wanted.values() for key in keys])
        if not fetched.missing:
            return Prefetched(planned, (), fetched.end_ns)
        gone = sorted(fetched.missing & self._registered)
        if gone:
            self._registered.difference_update(gone)
            self._port.unregister_storage(gone)
        failed = frozenset(op for op, keys in wanted.items() if not fetched.missing.isdisjoint(keys))
        if self._groups is not None:
            spoilt = _who_needs(planned, failed, self._groups)
            return Prefetched(replace(planned, failed_loads=failed), (), fetched.end_ns, spoilt)
        remote = planned.remote_prefill.request_ids if planned.remote_prefill is not None else ()
        left = replace(
            planned,
            batch=None,
            request_ids=(),
            requests=(),
            num_extends=0,
            input_lengths=(),
            prefill_lengths=(),
            extend_prefix_lens=(),
            failed_loads=failed,
            remote_prefill=None,
        )
        return Prefetched(left, tuple(map(Retracted, (*planned.request_ids, *remote))), fetched.end_ns)

    def _refresh(self, keys: Sequence[StorageKey]) -> None:
        if not keys:
            return
        registered = self._registered
        found = dict(zip(keys, self._device.probe_storage(keys), strict=True))
        if new := [key for key, there in found.items() if there and key not in registered]:
            registered.update(new)
            self._port.register_storage(new)
        if lost := [key for key, there in found.items() if not there and key in registered]:
            registered.difference_update(lost)
            self._port.unregister_storage(lost)


def _wanted(loads: LoadBackOp) -> dict[int, list[StorageKey]]:
    """Return, per op id that has any, the keys to fetch from storage."""
    wanted = {}
    columns = (loads.op_ids, loads.prefetch_from_storage, loads.group_ids, loads.content_hashes, loads.page_offsets)
    for op_id, flags, groups, hashes, offsets in zip(*columns, strict=True):
        pages = zip(flags, groups, hashes, offsets, strict=True)
        keys = [StorageKey(group, hash_, offset) for flag, group, hash_, offset in pages if flag]
        if keys:
            wanted[op_id] = keys
    return wanted


def _who_needs(planned: Planned, failed: frozenset[int], groups: Sequence[str]) -> tuple[str, ...]:
    """Return the requests whose rows have a page in their tables that a failed load was to fill."""
    loads, gone = planned.loads, set[tuple[str, int]]()
    assert loads is not None, "a load that failed is one of the plan's"
    for op_id, group_ids, pages in zip(loads.op_ids, loads.group_ids, loads.dst_pages, strict=True):
        if op_id in failed:
            gone.update((groups[group], page) for group, page in zip(group_ids, pages, strict=True))
    spoilt = []
    for batch in (planned.batch, planned.remote_prefill):
        tables = {} if batch is None else batch.block_tables_arrays()
        for row, request_id in enumerate(() if batch is None else batch.request_ids):
            if any((name, page) in gone for name, table in tables.items() for page in table[row].tolist()):
                spoilt.append(request_id)
    return tuple(spoilt)
