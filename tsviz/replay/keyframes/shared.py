"""What the states of a block of keyframes have in common: token and page lists that only grow, digests, entries.

Two snapshots of one run hold the same list at different lengths, so a list is stored once, at the longest. A digest
that a live request's tokens have is not stored but made again from them; only those of others are.
"""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.scheduler.cache.hashing import extend_chain
from tsviz.scheduler.cache.index import Entry

from .checks import INT32, INT64, numbers
from .packed import Arrays, Malformed

_REST = ("offset", "epoch", "kind", "slot", "acquired", "order")
_ENTRY_FIELDS = ("digest", *_REST)
_LIMITS = ((0, INT32), (0, INT64), (0, 2), (-1, INT32), (0, 1), (0, INT64))
_new_entry = tuple.__new__
_CHAIN_SHIFT = 32
"""A digest's number: below 1 << 32 one that is stored; else (chain + 1) << 32, plus its page in the chain."""


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
        self._pages: list[int] = []
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
            base = (number + 1 << _CHAIN_SHIFT) + begin
            for at, digest in enumerate(chain[begin:pages]):
                self._chained.setdefault(digest, base + at)
            self._chain_lengths[number] = pages
        return number

    def digest(self, digest: bytes) -> int:
        """Return the number of a digest."""
        known = self._chained.get(digest)
        return self._digests.setdefault(digest, len(self._digests)) if known is None else known

    def entry(self, entry: Entry | None, page: int) -> int:
        """Return the number of an index entry, which is of one page as long as it lives, from 1; 0 for none."""
        if entry is None:
            return 0
        known = self._entries.get(id(entry))
        if known is None:
            known = self._entries[id(entry)] = (len(self._entries) + 1, entry)
            self._pages.append(page)
        return known[0]

    def arrays(self) -> Arrays:
        """Return everything as arrays."""
        out = self._entry_columns()
        parts = [values[: self._lengths[number]] for number, values in self._lists.values()]
        out["list_length"] = np.array(self._lengths, np.int32)
        listed = np.concatenate([np.array(part, np.int32) for part in parts] or [np.zeros(0, np.int32)])
        out["list_items"] = np.diff(listed, prepend=np.int32(0))
        out["chain_tokens"] = np.array(self._chain_tokens, np.int32)
        out["chain_length"] = np.array(self._chain_lengths, np.int32)
        digests = list(self._digests)
        out["digest_length"] = np.array([len(digest) for digest in digests], np.int32)
        out["digest_bytes"] = np.frombuffer(b"".join(digests), np.uint8)
        return out

    def _entry_columns(self) -> Arrays:
        """Return the entries in order of their digests, which is that of pages in chains; `present` follows."""
        entries = [entry for _, entry in self._entries.values()]
        columns = zip(*entries, strict=True) if entries else [()] * len(_ENTRY_FIELDS)
        out: Arrays = {}
        for name, values in zip(_ENTRY_FIELDS, columns, strict=True):
            out[f"entry_{name}"] = np.array([self.digest(d) for d in values] if name == "digest" else values, np.int64)
        out["entry_page"] = np.array(self._pages, np.int64)
        order = np.lexsort((out["entry_offset"], out["entry_digest"]))
        self._turns = np.zeros(len(order) + 1, np.int32)
        self._turns[1 + order] = np.arange(1, len(order) + 1)
        return {name: np.diff(values[order], prepend=np.int64(0)) for name, values in out.items()}

    def present(self, entries: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
        """Return, of all entries as they stand in `arrays` (to be called before), which are among these numbers."""
        found = np.zeros(len(self._turns), np.uint8)
        found[self._turns[entries]] = 1
        return found


class Shared:
    """The same, read back. Everything is checked when it is taken out; `Malformed` says what is not as it must be."""

    def __init__(self, arrays: Arrays, page_tokens: int) -> None:
        """Take the arrays of a `Collector`; `page_tokens`: prefix granularity."""
        summed = [name for name in arrays if name.startswith("entry_") or name == "list_items"]
        self._arrays = arrays | {name: np.cumsum(arrays[name], dtype=arrays[name].dtype) for name in summed}
        self._page_tokens = page_tokens
        self._entries: dict[int, Entry] = {}
        self._made: dict[int, array[int]] = {}
        self._chains: dict[int, list[bytes]] = {}

    @cached_property
    def _digests(self) -> list[bytes]:
        data = self._arrays.get("digest_bytes", np.zeros(0, np.uint8)).tobytes()
        ends = np.cumsum(numbers(self._arrays, "digest_length", 0)).tolist()
        if (ends[-1] if ends else 0) != len(data):
            raise Malformed("digests", f"{len(data)} bytes", str(ends[-1] if ends else 0))
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def digest(self, number: int) -> bytes:
        """Return a digest by its number."""
        chain, page = (number >> _CHAIN_SHIFT) - 1, number & (1 << _CHAIN_SHIFT) - 1
        return self._known(chain, page + 1)[page]

    def _known(self, chain: int, count: int) -> list[bytes]:
        """Return the stored digests (-1) or those of a chain: `count` of them or more."""
        if chain >= 0:
            return self.chain(chain, count)
        if count > len(self._digests):
            raise Malformed("digest", f"a number below {len(self._digests)}", str(count - 1))
        return self._digests

    def chain(self, number: int, pages: int) -> list[bytes]:
        """Return a list of digests, `pages` long or more; they are made when somebody needs them."""
        made = self._chains.get(number)
        if made is None:
            if not 0 <= number < len(self._chain_places):
                raise Malformed("chain", f"a number below {len(self._chain_places)}", str(number))
            made = self._chains[number] = []
        if pages > len(made):
            listed, most = self._chain_places[number]
            if pages > most:
                raise Malformed(f"chain {number}", f"{pages} digests", str(most))
            extend_chain(made, self.listed(listed, most * self._page_tokens), self._page_tokens, pages)
        return made

    @cached_property
    def _chain_places(self) -> list[tuple[int, int]]:
        sizes = numbers(self._arrays, "chain_length", 0)
        tokens = numbers(self._arrays, "chain_tokens", 0, count=len(sizes))
        if int(sizes.sum()) * self._page_tokens > self.items:
            raise Malformed("chains", f"digests of {self.items} items at most", f"{int(sizes.sum())} digests")
        return list(zip(tokens.tolist(), sizes.tolist(), strict=True))

    @cached_property
    def items(self) -> int:
        """How many items all lists have: as nothing is in two lists, no state can refer to more."""
        return len(numbers(self._arrays, "list_items", -INT32 - 1))

    @cached_property
    def _places(self) -> list[tuple[int, int]]:
        sizes = numbers(self._arrays, "list_length", 0)
        ends = np.cumsum(sizes)
        total = self.items
        if (int(ends[-1]) if len(ends) else 0) != total:
            raise Malformed("list items", str(total), str(int(ends[-1]) if len(ends) else 0))
        return list(zip((ends - sizes).tolist(), ends.tolist(), strict=True))

    def listed(self, number: int, length: int) -> array[int]:
        """Return an array by its number, `length` long or more."""
        start, end = self._places[number] if 0 <= number < len(self._places) else (0, -1)
        if not 0 <= length <= end - start:
            raise Malformed(f"list {number}", f"{length} items", str(end - start))
        made = self._made.get(number)
        if made is None:
            made = self._made[number] = array("i", self._arrays["list_items"][start:end].astype("=i4").tobytes())
        return made

    def entries(self, numbers_: npt.NDArray[np.intp]) -> list[Entry]:
        """Return index entries by number, from 0; each is made once, so that states have the same in common."""
        made = self._entries
        new = numbers_[~self._there[numbers_]]
        if len(new):
            columns = [column[new] for column in self._columns]
            digests = self._digests_of(columns[0])
            rest = [(c == 1 if name == "acquired" else c).tolist() for name, c in zip(_REST, columns[1:], strict=True)]
            rows = zip(digests, *rest, strict=True)
            for number, row in zip(new.tolist(), rows, strict=True):
                made[number] = _new_entry(Entry, row)
            self._there[new] = True
        return [made[number] for number in numbers_.tolist()]

    @cached_property
    def entry_count(self) -> int:
        """How many entries there are."""
        return len(self._columns[0])

    @cached_property
    def _there(self) -> npt.NDArray[np.bool_]:
        return np.zeros(self.entry_count, np.bool_)

    @cached_property
    def _columns(self) -> list[npt.NDArray[np.int64]]:
        """The fields of every entry, checked, digests by number."""
        columns = [numbers(self._arrays, "entry_digest", 0, INT64)]
        for name, (low, high) in zip(_REST, _LIMITS, strict=True):
            columns.append(numbers(self._arrays, f"entry_{name}", low, high, len(columns[0])))
        return columns

    @property
    def entry_offsets(self) -> npt.NDArray[np.int64]:
        """Offset of each entry."""
        return self._columns[1]

    @cached_property
    def entry_pages(self) -> npt.NDArray[np.int64]:
        """Page of each entry."""
        return numbers(self._arrays, "entry_page", 1, INT32, self.entry_count)

    def _digests_of(self, numbered: npt.NDArray[np.int64]) -> list[bytes]:
        """Return what `digest` returns of each number; those of one chain stand together, and are taken together."""
        chains, pages = (numbered >> _CHAIN_SHIFT) - 1, numbered & (1 << _CHAIN_SHIFT) - 1
        starts = np.flatnonzero(np.append(True, np.diff(chains) != 0)[: len(chains)]).tolist()
        found: list[bytes] = []
        for start, end in zip(starts, [*starts[1:], len(chains)], strict=False):
            own = pages[start:end]
            found += map(self._known(int(chains[start]), int(own.max()) + 1).__getitem__, own.tolist())
        return found
