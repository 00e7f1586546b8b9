"""KV-cache events: which prefix pages became complete or incomplete on the device (`cache-rules.md` 10)."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tsviz.scheduler.cache.hashing import Digest, external_hash


class BlockStored(NamedTuple):
    """A prefix page is now cached in every group."""

    block_hash: int
    parent_block_hash: int | None
    token_ids: tuple[int, ...]
    block_size: int


class BlockRemoved(NamedTuple):
    """A prefix page reported as stored is no longer complete."""

    block_hash: int


@dataclass(frozen=True, slots=True)
class Boundary:
    """Descriptor of a prefix page."""

    tokens: array[int]
    own: int
    parent: int | None
    depth: int
    published: bool = False


class KvEvents:
    """Descriptors of prefix pages, their device entries, and what changed since the last drain."""

    __slots__ = ("boundaries", "complete_at", "entries", "kept", "page_tokens", "touched")

    def __init__(self, page_tokens: int, complete_at: int) -> None:
        """`complete_at` is the number of device entries of a complete page: slots of all published groups."""
        self.page_tokens = page_tokens
        self.complete_at = complete_at
        self.boundaries: dict[Digest, Boundary] = {}
        self.entries: dict[Digest, int] = {}
        self.touched: dict[Digest, None] = {}
        self.kept: dict[Digest, int] = {}

    def describe(self, chain: Sequence[Digest], tokens: array[int], begin: int, end: int) -> None:
        """Register the descriptors of pages [begin, end) of a request and mark them."""
        size = self.page_tokens
        parent: int | None = None
        if begin and begin < end:
            parent = self._external(chain, tokens, begin - 1)
        for page in range(begin, end):
            digest = chain[page]
            boundary = self.boundaries.get(digest)
            if boundary is None:
                content = tokens[page * size : (page + 1) * size]
                boundary = Boundary(content, external_hash(parent, content), parent, page)
                self.boundaries[digest] = boundary
            self.touched.setdefault(digest)
            parent = boundary.own

    def _external(self, chain: Sequence[Digest], tokens: array[int], page: int) -> int:
        """External hash of a page whose descriptor may have been forgotten."""
        first = page
        while first >= 0 and chain[first] not in self.boundaries:
            first -= 1
        value = self.boundaries[chain[first]].own if first >= 0 else None
        for index in range(first + 1, page + 1):
            size = self.page_tokens
            value = external_hash(value, tokens[index * size : (index + 1) * size])
        assert value is not None
        return value

    def changed(self, digest: Digest, delta: int) -> None:
        """A device entry of the page was inserted (+1) or evicted (-1)."""
        count = self.entries.get(digest, 0) + delta
        if count:
            self.entries[digest] = count
        else:
            del self.entries[digest]
        self.touched.setdefault(digest)

    def keep(self, digests: Iterable[Digest]) -> None:
        """A load that may publish these pages is in flight: their descriptors outlive a drain."""
        for digest in digests:
            self.kept[digest] = self.kept.get(digest, 0) + 1

    def unkeep(self, digests: Iterable[Digest]) -> None:
        """The load ended."""
        for digest in digests:
            left = self.kept[digest] - 1
            if left:
                self.kept[digest] = left
                continue
            del self.kept[digest]
            if digest not in self.entries and digest not in self.touched:
                self.boundaries.pop(digest, None)

    def drain(self) -> list[BlockStored | BlockRemoved]:
        """Net changes since the last drain: removals deepest first, then stores shallowest first."""
        stored: list[Boundary] = []
        removed: list[Boundary] = []
        for digest in self.touched:
            boundary = self.boundaries.get(digest)
            if boundary is None:
                continue
            count = self.entries.get(digest, 0)
            complete = 0 < self.complete_at == count
            if complete != boundary.published:
                self.boundaries[digest] = replace(boundary, published=complete)
                (stored if complete else removed).append(boundary)
            if not count and digest not in self.kept:
                del self.boundaries[digest]
        self.touched.clear()
        removed.sort(key=lambda b: -b.depth)
        stored.sort(key=lambda b: b.depth)
        out: list[BlockStored | BlockRemoved] = [BlockRemoved(b.own) for b in removed]
        out += [BlockStored(b.own, b.parent, tuple(b.tokens), self.page_tokens) for b in stored]
        return out
