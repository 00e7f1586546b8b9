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
    """A plan after its pages were fetched: what is left to execute, whom to retract, when the fetch is over."""

    planned: Planned
    retracts: tuple[Retracted, ...]
    end_ns: int | None


class StorageKeeper:
    """Keeps the scheduler's view of storage equal to what the probe says."""

    def __init__(self, port: Port, device: DeviceHandle) -> None:
        self._port = port
        self._device = device
        self._registered: set[StorageKey] = set()

    def submitting(self, tokens: Tokens) -> None:
        """Probe a new prompt's pages and register what is there, before it is submitted.

        Also what was registered before: the scheduler remembers as many keys as the host has pages, and forgets the
        oldest.
        """
        self._refresh(self._port.storage_keys_of(tokens), again=True)

    def refresh(self) -> None:
        """Probe again for the next admissions: an earlier hit may have disappeared."""
        self._refresh(self._port.storage_keys_waiting())

    def prefetch(self, planned: Planned) -> Prefetched:
        """Fetch what the plan's loads want from storage.

        On any miss the plan keeps its copies, but runs no forward and sends no manifest; all its rows are retracted.
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
            failed_loads=frozenset(op for op, keys in wanted.items() if not fetched.missing.isdisjoint(keys)),
            remote_prefill=None,
        )
        return Prefetched(left, tuple(map(Retracted, (*planned.request_ids, *remote))), fetched.end_ns)

    def _refresh(self, keys: Sequence[StorageKey], *, again: bool = False) -> None:
        if not keys:
            return
        registered = self._registered
        found = dict(zip(keys, self._device.probe_storage(keys), strict=True))
        if new := [key for key, there in found.items() if there and (again or key not in registered)]:
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
