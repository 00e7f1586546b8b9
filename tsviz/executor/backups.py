"""The storage tier behind the host pool: fetches before a load, puts behind a store (`executor-rules.md` section 6).

All but the puts is the control thread's. A put is an operation of a stream of its own, whose worker waits for the disk:
the control thread asks whether it has ended, as of a copy.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

import torch

from tsviz.engine.device import Fetched
from tsviz.engine.port import StorageKey
from tsviz.executor.arena import HostPool
from tsviz.executor.crcs import HOST, STORAGE, Block, Copied, Watched, unsummed
from tsviz.executor.layout import GroupLayout
from tsviz.executor.opqueue import OpQueue
from tsviz.executor.store import PageStore, StorageFailed, StoredPage
from tsviz.trace.order.checker import merged
from tsviz.trace.order.ops import Kind, Op, Stream

PUT_PAUSES_S = (0.01, 0.1)
"""How long a put that failed rests before each further attempt."""


class Backups:
    """Between the host pool and a store of pages; without a store nothing is found.

    A page that was a miss counts as absent until a put has made it anew.
    """

    def __init__(self, host: HostPool, queue: OpQueue, store: PageStore | None, counts: Counter[str]) -> None:
        self._host, self._queue, self._store, self._counts = host, queue, store, counts
        self._fetched: dict[StorageKey, bytes] = {}
        self._missed: set[StorageKey] = set()

    def probe(self, keys: Sequence[StorageKey]) -> list[bool]:
        """Return which pages the store has; a store that raises has none."""
        asked = [key for key in keys if key not in self._missed]
        if self._store is None or not asked:
            return [False] * len(keys)
        try:
            found = dict(zip(asked, self._store.batch_exists(asked), strict=True))
        except Exception:  # whatever a store raises is a miss
            found = {}
            self._counts["storage error"] += 1
        return [found.get(key, False) for key in keys]

    def prefetch(self, keys: Sequence[StorageKey]) -> Fetched:
        """Read pages from storage now; they go into their host pages with this round's load."""
        if self._store is None:
            return Fetched(frozenset(keys), None)
        asked = [key for key in keys if key not in self._missed]
        try:
            read = dict(zip(asked, self._store.batch_get(asked), strict=True))
        except Exception:  # whatever a store raises is a miss
            read = {}
            self._counts["storage error"] += 1
        self._fetched = {key: data for key, data in read.items() if data is not None}
        missing = frozenset(keys) - self._fetched.keys()
        self._missed |= missing
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

    def put(self, op_id: int, pages: Sequence[StoredPage]) -> Op:
        """Queue the puts of a store that has ended: its host pages stay as they are until it is acknowledged."""
        store, written = self._store, list[Copied]()
        assert store is not None, "without a store there are no pages to put"
        anew = frozenset(page.key for page in pages) & self._missed

        def run() -> None:
            for page in pages:
                data = self._host.block(page.group, page.host_page).numpy().tobytes()
                _put(store, page.key, data, anew=page.key in anew)
                written.append((unsummed(STORAGE, page.group.name, page.host_page, writes=True), data))

        def watch() -> Watched:
            return Watched([Block(HOST, page.group, page.host_page) for page in pages], (), lambda: written)

        ranges = merged(self._host.layout.host_range(page.group, page.host_page) for page in pages)
        self._counts["storage put"] += len(pages)
        return self._queue.submit(Stream.BACKUP, Kind.BACKUP, run, reads=ranges, op_id=op_id, watch=watch)

    def were_put(self, pages: Sequence[StoredPage]) -> None:
        """The puts have ended: what was a miss may be found again."""
        self._missed.difference_update(page.key for page in pages)


def _put(store: PageStore, key: StorageKey, data: bytes, *, anew: bool) -> None:
    """Put a page, again where that fails. Raises StorageFailed."""
    for pause_s in (*PUT_PAUSES_S, None):
        try:
            store.put(key, data, anew=anew)
            return
        except OSError as error:
            if pause_s is None:
                raise StorageFailed(
                    f"{store.path(key)}: a page could not be put into storage in {len(PUT_PAUSES_S) + 1} attempts:"
                    f" {error.strerror or error}"
                ) from error
            time.sleep(pause_s)
