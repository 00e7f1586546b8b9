"""Contents of the simulated storage tier."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tsviz.engine.faults import seeded_unit
from tsviz.engine.port import StorageKey


@dataclass(frozen=True, slots=True)
class StorageOptions:
    """What is in storage at the start, and what is gone when it is fetched.

    A content hash is there from the start with probability `present_rate`, with all its pages; with `keeps_stores`
    every page that was written back is there from then on. A page that a probe saw is gone at its first fetch with
    probability `vanish_rate`, or if its hash is in `vanishing`; it stays gone until it is stored anew.
    """

    seed: int = 0
    present_rate: float = 0.0
    keeps_stores: bool = True
    vanish_rate: float = 0.0
    vanishing: frozenset[str] = frozenset()


class StorageTier:
    """A set of pages under seeded accidents."""

    def __init__(self, options: StorageOptions) -> None:
        self._options = options
        self._stored: set[StorageKey] = set()
        self._gone: set[StorageKey] = set()
        self._safe: set[StorageKey] = set()

    def exists(self, key: StorageKey) -> bool:
        """Return what a probe says."""
        if key in self._gone:
            return False
        if key in self._stored:
            return True
        rate = self._options.present_rate
        return rate > 0 and seeded_unit(self._options.seed, "present", key.content_hash) < rate

    def get(self, key: StorageKey) -> bool:
        """Return whether a fetch finds the page; if not, it is gone."""
        if self.exists(key) and (key in self._safe or not self._vanishes(key)):
            self._safe.add(key)
            return True
        self._gone.add(key)
        return False

    def put(self, keys: Iterable[StorageKey]) -> None:
        """Store pages; one stored anew does not vanish a second time."""
        if not self._options.keeps_stores:
            return
        for key in keys:
            if key in self._gone:
                self._gone.discard(key)
                self._safe.add(key)
            self._stored.add(key)

    def _vanishes(self, key: StorageKey) -> bool:
        options = self._options
        if key.content_hash in options.vanishing:
            return True
        return options.vanish_rate > 0 and seeded_unit(options.seed, "vanish", *key) < options.vanish_rate
