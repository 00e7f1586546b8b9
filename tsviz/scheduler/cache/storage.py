"""The storage shadow: keys known to exist in remote storage (`cache-rules.md` 8.6)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tsviz.scheduler.cache.hashing import Digest

StorageKey = tuple[int, Digest, int]
"""(group, digest, offset)."""


class Shadow:
    """A bounded ordered set of keys; the oldest goes first."""

    __slots__ = ("keys", "limit")

    def __init__(self, limit: int) -> None:
        """An empty shadow of at most `limit` keys."""
        self.limit = limit
        self.keys: dict[StorageKey, None] = {}

    def register(self, keys: Sequence[StorageKey]) -> None:
        """Insert keys in hash-major order; keys of the batch beyond the limit are removed."""
        rank: dict[Digest, int] = {}
        for _, digest, _ in keys:
            rank.setdefault(digest, len(rank))
        distinct = dict.fromkeys(sorted(keys, key=lambda k: (rank[k[1]], k[2], k[0])))
        ordered = list(distinct)
        kept = set(ordered[: self.limit])
        for key in ordered[self.limit :]:
            self.keys.pop(key, None)
        for key in ordered[: self.limit]:
            if key in self.keys:
                continue
            if len(self.keys) >= self.limit:
                oldest = next(k for k in self.keys if k not in kept)
                del self.keys[oldest]
            self.keys[key] = None

    def unregister(self, keys: Iterable[StorageKey]) -> None:
        """Remove keys."""
        for key in keys:
            self.keys.pop(key, None)

    def remember(self, key: StorageKey) -> None:
        """A copy reached storage: append the key if absent and drop the oldest above the limit."""
        if key in self.keys:
            return
        self.keys[key] = None
        while len(self.keys) > self.limit:
            del self.keys[next(iter(self.keys))]
