"""What the states of a block of keyframes have in common: token and page lists that only grow, digests, entries.

Two snapshots of one run hold the same list at different lengths, so a list is stored once, at the longest.
"""

from __future__ import annotations

from array import array
from functools import cached_property
from typing import Any

import numpy as np

from tsviz.scheduler.cache.index import Entry

from .keyframe_checks import INT32, INT64, numbers
from .packed import Arrays, Malformed

_ENTRY_FIELDS = ("digest", "offset", "epoch", "kind", "slot", "acquired", "order")


def lengths(parts: list[Any]) -> np.ndarray[Any, Any]:
    """Return the lengths of lists as an array."""
    return np.array([len(part) for part in parts], np.int64)


class Collector:
    """Gives numbers to what states share, and stores each thing once."""

    def __init__(self) -> None:
        """Nothing collected."""
        self._lists: dict[int, tuple[int, Any]] = {}
        self._lengths: list[int] = []
        self._digests: dict[bytes, int] = {}
        self._entries: dict[int, tuple[int, Entry]] = {}

    def listed(self, values: Any, length: int) -> int:
        """Return the number of a list that only grows, of which `length` items are wanted."""
        known = self._lists.get(id(values))
        if known is None:
            known = self._lists[id(values)] = (len(self._lists), values)
            self._lengths.append(length)
        elif self._lengths[known[0]] < length:
            self._lengths[known[0]] = length
        return known[0]

    def digest(self, digest: bytes) -> int:
        """Return the number of a digest."""
        return self._digests.setdefault(digest, len(self._digests))

    def entry(self, entry: Entry | None) -> int:
        """Return the number of an index entry, from 1; 0 for none."""
        if entry is None:
            return 0
        known = self._entries.get(id(entry))
        if known is None:
            known = self._entries[id(entry)] = (len(self._entries) + 1, entry)
        return known[0]

    def arrays(self) -> Arrays:
        """Return everything as arrays."""
        plain, chains = [], []
        for number, values in self._lists.values():
            part = values[: self._lengths[number]]
            if isinstance(values, array):
                plain.append((number, np.array(part, np.int32)))
            else:
                chains.append((number, np.array([self.digest(d) for d in part], np.int32)))
        columns = {
            f"entry_{name}": np.array([self._column(name, entry[at]) for _, entry in self._entries.values()], np.int64)
            for at, name in enumerate(_ENTRY_FIELDS)
        }
        out: Arrays = dict(columns)
        for name, parts in (("list", plain), ("chain", chains)):
            out[f"{name}_number"] = np.array([number for number, _ in parts], np.int32)
            out[f"{name}_length"] = lengths([part for _, part in parts]).astype(np.int32)
            out[f"{name}_items"] = np.concatenate([part for _, part in parts] or [np.zeros(0, np.int32)])
        digests = list(self._digests)
        out["digest_length"] = lengths(digests).astype(np.int32)
        out["digest_bytes"] = np.frombuffer(b"".join(digests), np.uint8)
        return out

    def _column(self, name: str, value: Any) -> int:
        return self.digest(value) if name == "digest" else int(value)


class Shared:
    """The same, read back. Everything is checked when it is taken out; `Malformed` says what is not as it must be."""

    def __init__(self, arrays: Arrays) -> None:
        """Take the arrays of a `Collector`."""
        self._arrays = arrays
        self._made: dict[int, Any] = {}

    @cached_property
    def digests(self) -> list[bytes]:
        """Every digest, by number."""
        data = self._arrays.get("digest_bytes", np.zeros(0, np.uint8)).tobytes()
        ends = np.cumsum(numbers(self._arrays, "digest_length", 0)).tolist()
        if (ends[-1] if ends else 0) != len(data):
            raise Malformed("digests", f"{len(data)} bytes", str(ends[-1] if ends else 0))
        return [data[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]

    def digest(self, number: int) -> bytes:
        """Return a digest by its number."""
        if not 0 <= number < len(self.digests):
            raise Malformed("digest", f"a number below {len(self.digests)}", str(number))
        return self.digests[number]

    @cached_property
    def _places(self) -> dict[int, tuple[str, int, int]]:
        places: dict[int, tuple[str, int, int]] = {}
        for name in ("list", "chain"):
            sizes = numbers(self._arrays, f"{name}_length", 0)
            ends = np.cumsum(sizes)
            known = numbers(self._arrays, f"{name}_number", 0, count=len(sizes)).tolist()
            total = len(numbers(self._arrays, f"{name}_items", -INT32 - 1))
            if (int(ends[-1]) if len(ends) else 0) != total:
                raise Malformed(f"{name} items", str(total), str(int(ends[-1]) if len(ends) else 0))
            for number, size, end in zip(known, sizes.tolist(), ends.tolist(), strict=True):
                places[number] = (name, end - size, end)
        return places

    def listed(self, number: int, length: int, kind: str) -> Any:
        """Return a list by its number: an `array` of integers (`list`) or digests (`chain`), `length` long or more."""
        found, start, end = self._places.get(number, ("", 0, -1))
        if found != kind or not 0 <= length <= end - start:
            raise Malformed(f"{kind} {number}", f"a {kind} of {length} items", f"a {found or 'gap'} of {end - start}")
        if number not in self._made:
            part = self._arrays[f"{kind}_items"][start:end]
            made: Any = array("i", part.astype("=i4").tobytes()) if kind == "list" else None
            self._made[number] = [self.digest(d) for d in part.tolist()] if made is None else made
        return self._made[number]

    @cached_property
    def entries(self) -> list[Entry | None]:
        """Every index entry, by number; 0 is none."""
        columns = [numbers(self._arrays, "entry_digest", 0).tolist()]
        count = len(columns[0])
        limits = ((0, INT32), (0, INT64), (0, 2), (-1, INT32), (0, 1), (0, INT64))
        for name, (low, high) in zip(_ENTRY_FIELDS[1:], limits, strict=True):
            columns.append(numbers(self._arrays, f"entry_{name}", low, high, count).tolist())
        rows = zip(*columns, strict=True)
        return [None, *(Entry(self.digest(d), o, e, k, s, bool(a), n) for d, o, e, k, s, a, n in rows)]
