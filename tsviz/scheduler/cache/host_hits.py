"""Owning the host side of a hit; with storage, shortening it until the prefetches find room.

Implements step 4 of `cache-rules.md` 5 for the host tier, and 8.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tsviz.scheduler.cache.geometry import Group
from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.host import take_host
from tsviz.scheduler.cache.index import HostTier
from tsviz.scheduler.cache.matching import Lookup, Match, Probe, converge
from tsviz.scheduler.cache.storage import Shadow


class Source(NamedTuple):
    """A host page to load from; owned by whoever holds this."""

    page: int
    digest: Digest
    offset: int
    prefetch: bool
    """Whether storage must fill it first."""


class HostHits:
    """Acquires host hits of one cache."""

    __slots__ = ("groups", "order", "page_tokens", "shadow", "tier")

    def __init__(
        self,
        groups: Sequence[Group],
        order: Sequence[Group],
        page_tokens: int,
        tier: HostTier,
        shadow: Shadow | None,
    ) -> None:
        """`order` is the match order of the groups."""
        self.groups = groups
        self.order = order
        self.page_tokens = page_tokens
        self.tier = tier
        self.shadow = shadow

    def acquire(self, probe: Probe, epoch: int) -> tuple[list[list[Source]], Match]:
        """Per group the sources of a probe's host hits, and the match that they cover."""
        tier = self.tier
        if self.shadow is None:
            sources: list[list[Source]] = []
            for index, slots in enumerate(self._slots(probe, probe.host)):
                pages = []
                for _, digest, offset in slots:
                    page = tier.lookup(index, digest, offset)
                    tier.hit(index, page, epoch)
                    pages.append(Source(page, digest, offset, False))
                sources.append(pages)
            return sources, probe.host
        size, floor = self.page_tokens, probe.device.common_tokens
        current = probe.host.common_tokens
        lookup = Lookup(tier, probe.chain, self.shadow.keys)
        while True:
            match = converge(lookup, self.groups, self.order, size, floor, max(current, floor) // size)
            taken, short = self._try(self.shadow, self._slots(probe, match), epoch)
            if short is None:
                return taken, match
            for index, group_sources in enumerate(taken):
                for source in group_sources:
                    tier.release(index, source.page)
            shorter = short - short % size
            if shorter >= match.common_tokens:
                shorter = match.common_tokens - size
            current = max(shorter, floor)
            current -= current % size

    def _slots(self, probe: Probe, match: Match) -> list[list[tuple[int, Digest, int]]]:
        """Per group (slot, digest, offset) of the ones of a host match."""
        out = []
        for group, mask in zip(self.groups, match.masks, strict=True):
            begin = probe.device.common_tokens // group.granularity_tokens
            slots = range(begin + mask.length - mask.ones, begin + mask.length)
            out.append([(s, probe.chain[s // group.per_page], s % group.per_page) for s in slots])
        return out

    def _try(
        self, shadow: Shadow, slots: list[list[tuple[int, Digest, int]]], epoch: int
    ) -> tuple[list[list[Source]], int | None]:
        """One attempt; also the lowest token position for which no host page could be had, or None."""
        tier = self.tier
        taken: list[list[Source]] = [[] for _ in self.groups]
        short: int | None = None
        for group, wanted in zip(self.groups, slots, strict=True):
            for slot, digest, offset in wanted:
                page = tier.lookup(group.index, digest, offset)
                cached = bool(page)
                if cached:
                    tier.hit(group.index, page, epoch)
                elif (group.index, digest, offset) in shadow.keys:
                    page = take_host(tier, [group.index])[0]
                if not page:
                    position = slot * group.granularity_tokens
                    short = position if short is None else min(short, position)
                    break
                taken[group.index].append(Source(page, digest, offset, not cached))
        return taken, short
