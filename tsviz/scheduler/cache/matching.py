"""Matching a prompt against the tiers and converging the groups on one length (`cache-rules.md` 4)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tsviz.scheduler.cache.geometry import FULL, STATE, Group
from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.index import Tier


class Mask(NamedTuple):
    """Hits of one group from the begin slot on: `length` slots of which the last `ones` are real."""

    length: int
    ones: int


NO_MASK = Mask(0, 0)


class Match(NamedTuple):
    """One tier's answer."""

    common_tokens: int
    """Length on which all matching groups agree."""
    closed_tokens: int
    """Length that the full-history groups alone reach."""
    masks: tuple[Mask, ...]


class Lookup:
    """Whether a slot of a chain is cached in a tier, or known to the storage shadow."""

    __slots__ = ("chain", "shadow", "where")

    def __init__(self, tier: Tier, chain: Sequence[Digest], shadow: dict[tuple[int, Digest, int], None] | None):
        """Look up the slots of `chain` in `tier`, and in `shadow` when there is one."""
        self.where = tier.where
        self.chain = chain
        self.shadow = shadow

    def cached(self, group: Group, slot: int) -> bool:
        """Whether the slot hits."""
        page, offset = divmod(slot, group.per_page)
        digest = self.chain[page]
        if digest in self.where[group.index][offset]:
            return True
        return self.shadow is not None and (group.index, digest, offset) in self.shadow

    def match(self, group: Group, begin: int, end: int) -> Mask:
        """The group's mask over slots [begin, end)."""
        if group.kind == FULL:
            return self._match_full(group, begin, end)
        if not group.lookback:
            return Mask(max(0, end - begin), 0)
        candidate, run, slot = end, 0, end
        while candidate > begin:
            slot -= 1
            if slot < begin:
                return Mask(candidate - begin, run) if run else NO_MASK
            if not self.cached(group, slot):
                candidate, run = slot, 0
                continue
            run += 1
            if run == group.lookback:
                return Mask(candidate - begin, run)
        return NO_MASK

    def _match_full(self, group: Group, begin: int, end: int) -> Mask:
        slot = begin
        if group.per_page == 1 and self.shadow is None:
            where, chain = self.where[group.index][0], self.chain
            while slot < end and chain[slot] in where:
                slot += 1
        else:
            while slot < end and self.cached(group, slot):
                slot += 1
        return Mask(slot - begin, slot - begin)


def match_order(groups: Sequence[Group], ignore_state: bool = False) -> list[Group]:
    """Full groups first, then sliding and state ones; replayable groups are never matched."""
    full = [g for g in groups if g.kind == FULL]
    rest = [g for g in groups if g.kind != FULL and not g.replayable]
    return full + [g for g in rest if not (ignore_state and g.kind == STATE)]


def converge(
    lookup: Lookup, groups: Sequence[Group], order: Sequence[Group], page_tokens: int, floor: int, pages: int
) -> Match:
    """The longest length from `floor` on which every group of `order` can resume (`cache-rules.md` 4.4)."""
    masks = [NO_MASK] * len(groups)
    if not order:
        return Match(0, 0, tuple(masks))
    bound, closed = pages * page_tokens, 0
    extents: dict[int, int] = {}

    def rematch(group: Group) -> int:
        g = group.granularity_tokens
        mask = lookup.match(group, floor // g, bound // g)
        masks[group.index] = mask
        extent = floor + mask.length * g
        extents[group.index] = extent
        return min(bound, extent - extent % page_tokens)

    for group in order:
        bound = rematch(group)
        if group.kind == FULL:
            closed = bound
    stable = False
    while not stable:
        stable = True
        for group in order:
            if group.kind != FULL and extents[group.index] > bound:
                bound = rematch(group)
                stable = False
    for group in order:
        masks[group.index] = cut(masks[group.index], max(0, bound - floor) // group.granularity_tokens)
    return Match(bound, closed, tuple(masks))


def cut(mask: Mask, length: int) -> Mask:
    """The mask without the slots beyond `length`."""
    if mask.length <= length:
        return mask
    return Mask(length, max(0, mask.ones - (mask.length - length)))


class Probe(NamedTuple):
    """What a first admission may resume from. Probing changes nothing."""

    chain: Sequence[Digest]
    """Candidate digests of the prompt; only the matched part is read."""
    device: Match
    host: Match
    device_pages: tuple[tuple[int, ...], ...]
    """Per group the cached pages behind the ones of the device mask."""

    @property
    def hit_tokens(self) -> int:
        """Length of the hit over both tiers."""
        return max(self.device.common_tokens, self.host.common_tokens)

    @property
    def promotion_tokens(self) -> int:
        """Promotion boundary, or 0: full history is cached further than the other groups can resume."""
        closed = max(self.device.closed_tokens, self.host.closed_tokens)
        return closed if closed > self.hit_tokens else 0

    def shortened(self, host_tokens: int) -> Probe:
        """The same probe with a shorter host hit; the masks stay as they were."""
        return self._replace(host=self.host._replace(common_tokens=host_tokens))


EMPTY_MATCH = Match(0, 0, ())


def hit_pages(
    tier: Tier, groups: Sequence[Group], match: Match, chain: Sequence[Digest]
) -> tuple[tuple[int, ...], ...]:
    """Per group the cached pages behind the ones of a device match."""
    out: list[tuple[int, ...]] = []
    for group, mask in zip(groups, match.masks, strict=True):
        where, r = tier.where[group.index], group.per_page
        slots = range(mask.length - mask.ones, mask.length)
        out.append(tuple(where[slot % r][chain[slot // r]] for slot in slots))
    return tuple(out)
