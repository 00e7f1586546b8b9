"""Collecting what the states of a block of keyframes have in common: lists that only grow, digests, index entries.

Two snapshots of one run hold the same list at different lengths, so a list is stored once, at the longest. A digest
that a live request's tokens have is not stored but made again from them; only those of others are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.scheduler.cache.index import Entry

from .lists import CHAIN_SHIFT, ENTRY_FIELDS, Lists
from .packed import Arrays


class Collector:
    """Gives numbers to what states share, and stores each thing once."""

    def __init__(self) -> None:
        """Nothing collected."""
        self._lists: dict[int, tuple[int, Any]] = {}
        self._lengths: list[int] = []
        self._chains: dict[int, tuple[int, Any]] = {}
        self._chain_tokens: list[int] = []
        self._chain_lengths: list[int] = []
        self._chained: dict[bytes, int] = {}
        self._digests: dict[bytes, int] = {}
        self._entries: dict[int, tuple[int, Entry]] = {}
        self._places: list[tuple[int, int]] = []
        self._chain_tables: dict[int, list[int]] = {}
        self._turns = np.zeros(1, np.int32)

    def listed(self, values: Any, length: int) -> int:
        """Return the number of an array that only grows, of which `length` items are wanted."""
        known = self._lists.get(id(values))
        if known is None:
            known = self._lists[id(values)] = (len(self._lists), values)
            self._lengths.append(length)
        elif self._lengths[known[0]] < length:
            self._lengths[known[0]] = length
        return known[0]

    def chained(self, chain: Any, pages: int, tokens: Any) -> int:
        """Return the number of a list of digests that only grows: those of the first pages of `tokens`."""
        known = self._chains.get(id(chain))
        if known is None:
            known = self._chains[id(chain)] = (len(self._chains), chain)
            self._chain_tokens.append(self.listed(tokens, 0))
            self._chain_lengths.append(0)
        number, begin = known[0], self._chain_lengths[known[0]]
        if pages > begin:
            base = (number + 1 << CHAIN_SHIFT) + begin
            for at, digest in enumerate(chain[begin:pages]):
                self._chained.setdefault(digest, base + at)
            self._chain_lengths[number] = pages
        return number

    def digest(self, digest: bytes) -> int:
        """Return the number of a digest."""
        known = self._chained.get(digest)
        return self._digests.setdefault(digest, len(self._digests)) if known is None else known

    def placed(self, chain: int, tables: list[int]) -> None:
        """Note which lists are the tables of the request of a chain, by group: where its entries lie, most likely."""
        if tables:
            self._chain_tables[chain] = tables

    def entry(self, entry: Entry | None, group: int, page: int) -> int:
        """Return the number of an index entry, which is of one page as long as it lives, from 1; 0 for none."""
        if entry is None:
            return 0
        known = self._entries.get(id(entry))
        if known is None:
            known = self._entries[id(entry)] = (len(self._entries) + 1, entry)
            self._places.append((group, page))
        return known[0]

    def arrays(self) -> Arrays:
        """Return everything as arrays."""
        out: Arrays = {"chain_tokens": np.array(self._chain_tokens, np.int32)}
        rising = set(self._chain_tokens)
        parts = [np.array(values[: self._lengths[n]], np.int32) for n, values in self._lists.values()]
        parts = [np.diff(part, prepend=np.int32(0)) if n in rising else part for n, part in enumerate(parts)]
        lists = Lists(np.concatenate([*parts, np.zeros(0, np.int32)]), np.array(self._lengths, np.int64))
        out["list_length"] = lists.lengths.astype(np.int32)
        out["list_bytes"] = lists.planes.ravel()
        out["chain_length"] = np.array(self._chain_lengths, np.int32)
        groups = max(map(len, self._chain_tables.values()), default=0)
        none = [-1] * groups
        tables = [self._chain_tables.get(chain, none) for chain in range(len(self._chain_lengths))]
        out["chain_tables"] = np.array(tables, np.int32).ravel()
        out |= self._entry_columns(lists, out["chain_tables"])
        digests = list(self._digests)
        out["digest_length"] = np.array([len(digest) for digest in digests], np.int32)
        out["digest_bytes"] = np.frombuffer(b"".join(digests), np.uint8)
        return out

    def _entry_columns(self, lists: Lists, tables: npt.NDArray[np.int32]) -> Arrays:
        """Return the entries in order of their digests, which is that of pages in chains; `present` follows."""
        entries = [entry for _, entry in self._entries.values()]
        columns = zip(*entries, strict=True) if entries else [()] * len(("digest", *ENTRY_FIELDS))
        found: Arrays = {}
        for name, values in zip(("digest", *ENTRY_FIELDS), columns, strict=True):
            found[name] = np.array([self.digest(d) for d in values] if name == "digest" else values, np.int64)
        found["group"], page = np.array(self._places, np.int64).reshape(-1, 2).T
        order = np.lexsort((found["offset"], found["digest"]))
        self._turns = np.zeros(len(order) + 1, np.int32)
        self._turns[1 + order] = np.arange(1, len(order) + 1)
        likely = lists.likely(found["digest"], found["slot"], found["group"], tables, len(self._chain_lengths))
        out: Arrays = {f"entry_{n}": np.diff(values[order], prepend=np.int64(0)) for n, values in found.items()}
        out["entry_away"] = (page - likely)[order].astype(np.int32)
        return out

    def present(self, entries: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Return, of all entries as they stand in `arrays` (to be called before), which are among these numbers."""
        found = np.zeros(len(self._turns), np.uint8)
        found[self._turns[entries]] = 1
        return found
