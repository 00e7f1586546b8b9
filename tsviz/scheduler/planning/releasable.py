"""What a victim would give: LCM blocks that only its tables hold, counted as the tables grow."""

from __future__ import annotations

from tsviz.scheduler.cache.admit import Granted
from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.tables import releasable_blocks
from tsviz.scheduler.request import Request


class Releasable:
    """Counts releasable blocks; by adding where every block is one page and none expires."""

    __slots__ = ("_adds", "cache")

    def __init__(self, cache: Cache) -> None:
        """Bind to the cache."""
        self.cache = cache
        self._adds = all(group.packing == 1 and not group.window_tokens for group in cache.groups)

    def grew(self, request: Request, granted: Granted) -> None:
        """An admission of a resident request was granted."""
        if not self._adds:
            request.exclusive_at = -1
        elif request.exclusive_at >= 0:
            request.exclusive_blocks += sum([len(pages) for pages in granted.fresh_pages])

    def of(self, request: Request) -> int:
        """LCM blocks that would become reclaimable with the request; counted anew only if need be."""
        device = self.cache.device
        if request.exclusive_at != device.sharing:
            request.exclusive_blocks = releasable_blocks(device, self.cache.groups, request.tables)
            request.exclusive_at = device.sharing if self._adds else -1
        return request.exclusive_blocks
