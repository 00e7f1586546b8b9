"""The token and page lists of a block, as bytes, and where by them an index entry most likely lies."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from .packed import Malformed

CHAIN_SHIFT: Final = 32
"""A digest's number: below 1 << 32 one that is stored; else (chain + 1) << 32, plus its page in the chain."""
ENTRY_FIELDS: Final = ("offset", "epoch", "kind", "slot", "acquired", "order")
"""The fields of an index entry behind its digest."""


class Lists:
    """Lists of numbers behind one another, as the four bytes of each: pages repeat their bytes, not their differences.

    Tokens stand as differences from one to the next, pages as they are.
    """

    def __init__(self, items: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]) -> None:
        """Take the items of all lists and the length of each."""
        self.planes = np.ascontiguousarray(items.astype("<i4").view(np.uint8).reshape(-1, 4).T)
        self.lengths, self.ends = lengths, np.cumsum(lengths)

    @classmethod
    def read(cls, planes: npt.NDArray[np.uint8], lengths: npt.NDArray[np.int64]) -> Lists:
        """Take what `planes` and `lengths` were. Raises `Malformed`."""
        found = cls(np.zeros(0, np.int32), lengths)
        total = int(lengths.sum())
        if len(planes) != 4 * total:
            raise Malformed("list items", f"{4 * total} bytes", str(len(planes)))
        found.planes = planes.reshape(4, -1)
        return found

    def at(self, places: Any) -> npt.NDArray[np.int32]:
        """Return the items at these places (a slice, or numbers)."""
        return np.ascontiguousarray(self.planes[:, places].T).view("<i4").ravel()

    def likely(
        self, digests: npt.NDArray[np.int64], slots: npt.NDArray[np.int64], groups: npt.NDArray[np.int64],
        tables: npt.NDArray[Any], chains: int,
    ) -> npt.NDArray[np.int64]:  # fmt: skip
        """Return where entries lie if each lies where the table of its chain's request has it; 0 where none has."""
        pages = np.zeros(len(digests), np.int64)
        own = (digests >> CHAIN_SHIFT) - 1
        some = np.flatnonzero((own >= 0) & (slots >= 0))
        if not chains or not len(tables):
            return pages
        chosen = tables.reshape(chains, -1)[own[some], groups[some]]
        there = chosen >= 0
        some, chosen = some[there], chosen[there]
        inside = slots[some] < self.lengths[chosen]
        some, chosen = some[inside], chosen[inside]
        pages[some] = self.at((self.ends - self.lengths)[chosen] + slots[some])
        return pages
