"""The storage tier behind the host pool: fetches before a load, puts behind a store (`executor-rules.md` section 6)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch

from tsviz.engine.device import Fetched
from tsviz.engine.port import StorageKey
from tsviz.executor.arena import HostPool
from tsviz.executor.crcs import HOST, STORAGE, Block, Copied, Watched, unsummed
from tsviz.executor.layout import GroupLayout
from tsviz.executor.opqueue import OpQueue
from tsviz.executor.ops import Kind, Stream
from tsviz.executor.order import merged
from tsviz.executor.store import PageStore, StoredPage


class Backups:
    """Between the host pool and a store of pages, on the control thread; without a store nothing is found."""

    def __init__(self, host: HostPool, queue: OpQueue, store: PageStore | None, counts: Counter[str]) -> None:
        self._host, self._queue, self._store, self._counts = host, queue, store, counts
        self._fetched: dict[StorageKey, bytes] = {}

    def prefetch(self, keys: Sequence[StorageKey]) -> Fetched:
        """Read pages from storage now; they go into their host pages with this round's load."""
        if self._store is None:
            return Fetched(frozenset(keys), None)
        read = dict(zip(keys, self._store.batch_get(keys), strict=True))
        missing = frozenset(key for key, data in read.items() if data is None)
        self._fetched = {key: data for key, data in read.items() if data is not None}
        self._counts["storage miss" if missing else "storage restore"] += 1
        return Fetched(missing, None)

    def has_fetched(self, key: StorageKey) -> bool:
        """Return whether this round's fetch brought a page."""
        return key in self._fetched

    def fill_host(self, key: StorageKey, group: GroupLayout, page: int) -> None:
        """Queue what puts a page that was fetched into its host page."""
        data, block = self._fetched[key], self._host.block(group, page)

        def run() -> None:
            block.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))

        def copied() -> list[Copied]:
            return [
                (unsummed(STORAGE, group.name, page), data),
                (unsummed(HOST, group.name, page, writes=True), block.clone()),
            ]

        self._queue.submit(
            Stream.HOST, Kind.FETCH, run, writes=(self._host.layout.host_range(group, page),),
            watch=lambda: Watched(left=[Block(HOST, group, page)], also=copied),
        )  # fmt: skip

    def pages_to_put(
        self, keys: Sequence[StorageKey], pages: Sequence[tuple[GroupLayout, int]]
    ) -> tuple[StoredPage, ...]:
        """Return what a store puts once it has ended: host pages by key; nothing without a store."""
        if self._store is None:
            return ()
        return tuple(StoredPage(key, group, page) for key, (group, page) in zip(keys, pages, strict=True))

    def put(self, op_id: int, pages: Sequence[StoredPage]) -> None:
        """Put the pages of a store that has ended."""
        if self._store is None or not pages:
            return
        store, written = self._store, list[Copied]()

        def run() -> None:
            for page in pages:
                data = self._host.block(page.group, page.host_page).numpy().tobytes()
                store.put(page.key, data)
                written.append((unsummed(STORAGE, page.group.name, page.host_page, writes=True), data))

        def watch() -> Watched:
            return Watched([Block(HOST, page.group, page.host_page) for page in pages], (), lambda: written)

        ranges = merged(self._host.layout.host_range(page.group, page.host_page) for page in pages)
        self._queue.submit(Stream.HOST, Kind.BACKUP, run, reads=ranges, op_id=op_id, watch=watch)
        self._counts["storage put"] += len(pages)
