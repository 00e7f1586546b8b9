"""What the admission layer tells an observer."""

from __future__ import annotations

from tsviz.scheduler.cache.admit import Granted
from tsviz.scheduler.cache.coordinator import Cache
from tsviz.scheduler.cache.matching import Probe
from tsviz.scheduler.decisions import Admitted, Log, TierMatch
from tsviz.scheduler.request import Request


def tell_admitted(log: Log, request: Request, granted: Granted) -> None:
    """An admission was granted."""
    told = Admitted(
        request.request_id,
        granted.epoch,
        granted.device_tokens,
        granted.host_tokens,
        granted.promotion_tokens,
        tuple(len(pages) for pages in granted.fresh_pages),
        len(granted.pairs),
        granted.evicted_pages,
    )
    log.tell(told)


def tell_match(log: Log, cache: Cache, request: Request, probe: Probe, pages: int) -> None:
    """What `pages` prefix pages of a prompt matched, per tier and group."""
    for tier, match in (("device", probe.device), ("host", probe.host)):
        if tier == "host" and cache.host is None:
            continue
        floor = 0 if tier == "device" else probe.device.common_tokens
        for group, mask in zip(cache.groups, match.masks, strict=True):
            told = TierMatch(
                request.request_id,
                tier,
                group.index,
                pages,
                match.common_tokens,
                match.closed_tokens,
                floor // group.granularity_tokens,
                mask.length - mask.ones,
                mask.ones,
            )
            log.tell(told)
