"""Publishing completed pages into the device index (`cache-rules.md` 7.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tsviz.scheduler.cache.geometry import FULL, SLIDING, STATE, Group
from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.index import CHUNK, KIND_NAMES, DeviceTier
from tsviz.scheduler.cache.storage import StorageKey
from tsviz.scheduler.cache.tables import Table
from tsviz.scheduler.decisions import Log, Publication


class Progress(NamedTuple):
    """Prefix pages completed since the previous admission, and how to publish them."""

    first_page: int
    end_page: int
    kind: int
    state_kind: int
    """Kind for state groups; differs for the last aligned checkpoint of a prompt."""
    state_boundaries_tokens: tuple[int, ...]
    """Materialized checkpoints that are not published yet."""
    stream: bool
    """Whether full and state pages newly cached here go to the host."""


class Publisher:
    """Registers slots of tables under the chain of their request."""

    __slots__ = ("device", "log", "page_tokens", "pending", "streaming")

    def __init__(self, device: DeviceTier, page_tokens: int, pending: list[StorageKey], streaming: bool) -> None:
        """`pending` is the list that stores drain; nothing is queued unless `streaming`."""
        self.device = device
        self.page_tokens = page_tokens
        self.pending = pending
        self.streaming = streaming
        self.log: Log | None = None

    def publish(
        self,
        group: Group,
        table: Table,
        chain: Sequence[Digest],
        progress: Progress,
        epoch: int,
        request_id: str,
    ) -> None:
        """Publish one group's share of the completed pages. Raises RuntimeError beyond the table."""
        slots = self._slots(group, progress)
        if not slots:
            return
        kind = progress.state_kind if group.kind == STATE else progress.kind
        new = self._register(group, table, chain, slots, kind, epoch, progress.stream)
        if self.log is not None:
            told = Publication(request_id, group.index, progress.first_page, progress.end_page, KIND_NAMES[kind], new)
            self.log.tell(told)

    def _slots(self, group: Group, progress: Progress) -> Sequence[int]:
        """Slots that the group publishes, by its kind."""
        r, end = group.per_page, progress.end_page * group.per_page
        if group.replayable:
            return ()
        if group.kind == FULL:
            return range(progress.first_page * r, end)
        if group.kind == SLIDING:
            return range(end - min(group.lookback, end), end)
        if progress.state_kind == CHUNK:
            return ()
        pages = (boundary // self.page_tokens for boundary in progress.state_boundaries_tokens)
        return [page * r - 1 for page in pages if progress.first_page < page <= progress.end_page]

    def publish_loaded_page(
        self, groups: Sequence[Group], tables: Sequence[Table], chain: Sequence[Digest], page: int, epoch: int
    ) -> None:
        """Publish one page of a host extension, every slot of every group that has one."""
        for group, table in zip(groups, tables, strict=True):
            if not group.replayable:
                slots = range(page * group.per_page, (page + 1) * group.per_page)
                self._register(group, table, chain, slots, CHUNK, epoch, False)

    def _register(
        self,
        group: Group,
        table: Table,
        chain: Sequence[Digest],
        slots: Sequence[int],
        kind: int,
        epoch: int,
        stream: bool,
    ) -> int:
        if slots and slots[-1] >= len(table.pages):
            raise RuntimeError("publish window exceeds table size")
        device, index, r = self.device, group.index, group.per_page
        if table.frontier:
            slots = [slot for slot in slots if slot >= table.frontier]
        inserted, left = device.insert_run(index, table.pages, slots, chain, epoch, kind)
        for slot in left:
            page = table.pages[slot]
            canonical, _ = device.register(index, page, chain[slot // r], slot % r, epoch, kind, slot)
            if canonical != page:
                device.hold(index, canonical)
                device.acquire(index, canonical)
                table.replace(slot, canonical)
                device.unhold(index, page)
                device.release(index, page)
        if self.streaming and (stream or group.kind == SLIDING):
            self.pending.extend((index, chain[slot // r], slot % r) for slot in inserted)
        return len(inserted)
