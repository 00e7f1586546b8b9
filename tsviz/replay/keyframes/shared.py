"""What the states of a block of keyframes have in common, read back when somebody needs it (`collector.py`)."""

from __future__ import annotations

from array import array
from functools import cached_property

import numpy as np
import numpy.typing as npt

from tsviz.scheduler.cache.hashing import extend_chain
from tsviz.scheduler.cache.index import Entry

from .checks import INT32, INT64, numbers
from .lists import CHAIN_SHIFT, ENTRY_FIELDS, Lists
from .packed import Arrays, Malformed

_LIMITS = ((0, INT32), (0, INT64), (0, 2), (-1, INT32), (0, 1), (0, INT64))
_new_entry = tuple.__new__


class Shared:
    """The same, read back. Everything is checked when it is taken out; `Malformed` says what is not as it must be."""

    def __init__(self, arrays: Arrays, page_tokens: int) -> None:
        """Take the arrays of a `Collector`; `page_tokens`: prefix granularity."""
        summed = [name for name in arrays if name.startswith("entry_") and name != "entry_away"]
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
        chain, page = (number >> CHAIN_SHIFT) - 1, number & (1 << CHAIN_SHIFT) - 1
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
    def _lists(self) -> Lists:
        planes = self._arrays.get("list_bytes", np.zeros(0, np.uint8))
        return Lists.read(planes, numbers(self._arrays, "list_length", 0))

    @cached_property
    def _rising(self) -> frozenset[int]:
        return frozenset(tokens for tokens, _ in self._chain_places)

    @property
    def items(self) -> int:
        """How many items all lists have: as nothing is in two lists, no state can refer to more."""
        return int(self._lists.lengths.sum())

    def listed(self, number: int, length: int) -> array[int]:
        """Return an array by its number, `length` long or more."""
        lists = self._lists
        whole = int(lists.lengths[number]) if 0 <= number < len(lists.lengths) else -1
        if not 0 <= length <= whole:
            raise Malformed(f"list {number}", f"{length} items", str(whole))
        made = self._made.get(number)
        if made is None:
            end = int(lists.ends[number])
            found = lists.at(slice(end - whole, end))
            if number in self._rising:
                found = np.cumsum(found, dtype=np.int32)
            made = self._made[number] = array("i", found.astype("=i4").tobytes())
        return made

    def entries(self, numbers_: npt.NDArray[np.intp]) -> list[Entry]:
        """Return index entries by number, from 0; each is made once, so that states have the same in common."""
        made = self._entries
        new = numbers_[~self._there[numbers_]]
        if len(new):
            columns = [column[new] for column in self._columns]
            digests = self._digests_of(columns[0])
            rest = [
                (c == 1 if name == "acquired" else c).tolist()
                for name, c in zip(ENTRY_FIELDS, columns[1:], strict=True)
            ]
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
        for name, (low, high) in zip(ENTRY_FIELDS, _LIMITS, strict=True):
            columns.append(numbers(self._arrays, f"entry_{name}", low, high, len(columns[0])))
        return columns

    @property
    def entry_offsets(self) -> npt.NDArray[np.int64]:
        """Offset of each entry."""
        return self._columns[1]

    @cached_property
    def entry_pages(self) -> npt.NDArray[np.int64]:
        """Page of each entry."""
        digests, _, _, _, slots, *_ = self._columns
        chains = len(self._chain_places)
        tables = numbers(self._arrays, "chain_tables", -1, len(self._lists.lengths) - 1)
        wide = len(tables) // chains if chains else 0
        if wide * chains != len(tables) or int((digests >> CHAIN_SHIFT).max(initial=0)) > chains:
            raise Malformed("chain tables", f"those of {chains} chains", str(len(tables)))
        groups = numbers(self._arrays, "entry_group", 0, max(wide - 1, INT32 * (not wide)), len(digests))
        pages = self._lists.likely(digests, slots, groups, tables, chains)
        pages += numbers(self._arrays, "entry_away", -INT32, INT32, len(digests))
        if len(pages) and not 1 <= int(pages.min()) <= int(pages.max()) <= INT32:
            raise Malformed("entry pages", "numbers from 1", f"{pages.min()} to {pages.max()}")
        return pages

    def _digests_of(self, numbered: npt.NDArray[np.int64]) -> list[bytes]:
        """Return what `digest` returns of each number; those of one chain stand together, and are taken together."""
        chains, pages = (numbered >> CHAIN_SHIFT) - 1, numbered & (1 << CHAIN_SHIFT) - 1
        starts = np.flatnonzero(np.append(True, np.diff(chains) != 0)[: len(chains)]).tolist()
        found: list[bytes] = []
        for start, end in zip(starts, [*starts[1:], len(chains)], strict=False):
            own = pages[start:end]
            found += map(self._known(int(chains[start]), int(own.max()) + 1).__getitem__, own.tolist())
        return found
