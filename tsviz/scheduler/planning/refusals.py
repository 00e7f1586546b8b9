"""Refusals for capacity as values, and when a remembered one repeats without another admission."""

from __future__ import annotations

from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.eviction import Shortage, Supply
from tsviz.scheduler.cache.matching import Probe
from tsviz.scheduler.config import INT32_MAX
from tsviz.scheduler.decisions import Chunk, Log, Refused
from tsviz.scheduler.planning.chunks import WHOLE
from tsviz.scheduler.planning.memory import Remembered
from tsviz.scheduler.request import Request


class Refusals:
    """Makes and remembers the refusals of one scheduler."""

    __slots__ = ("cache", "log")

    def __init__(self, cache: Cache) -> None:
        """Bind to the cache."""
        self.cache = cache
        self.log: Log | None = None

    def refuse(self, request: Request, shortage: Shortage) -> Refused:
        """The refusal as a value; the same object while no number of it changes."""
        refused = Refused(
            request.request_id,
            shortage.need_pages,
            shortage.free.blocks,
            shortage.free.local_pages,
            shortage.reachable.blocks,
            shortage.reachable.local_pages,
        )
        if refused == request.refusal:
            refused = request.refusal
        request.refusal = refused
        if self.log is not None:
            self.log.tell(refused)
        return refused

    def again(self, request: Request) -> Refused:
        """The remembered refusal of a newcomer without hits, with the supply of now when somebody listens."""
        last = request.refusal
        assert last is not None
        if self.log is None:
            return last
        device = self.cache.device
        free = Supply(device.empty, tuple(device.local))
        return self.refuse(
            request,
            Shortage(last.need_pages, free, Supply(device.available, tuple(device.reach_local))),
        )

    def remember(
        self, request: Request, probe: Probe, chunk: Chunk, refused: Refused, decode_probe: bool
    ) -> Remembered | None:
        """What must stay true for the refusal of a first chunk to repeat; None if it is not cheap to see."""
        cache = self.cache
        if cache.kv is not None or cache.shadow is not None or probe.hit_tokens or probe.promotion_tokens:
            return None
        blocks = sum(need for need, k in zip(refused.need_pages, cache.device.packing, strict=True) if k == 1)
        low, high = (chunk.tokens, INT32_MAX) if chunk.bound_by == WHOLE else (chunk.budget_tokens,) * 2
        if not probe.chain:
            return Remembered(low, high, blocks, b"", -1, {}, {})
        first = cache.first_matched(decode_probe)
        if first is None:
            return None
        host = cache.host.where[first][0] if cache.host is not None else {}
        return Remembered(low, high, blocks, request.chain[0], first, cache.device.where[first][0], host)
