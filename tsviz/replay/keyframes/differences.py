"""Arrays of pools as differences: from one keyframe of a block to the next few pages change, and only they are stored.

An array that was there before is stored as two: its length and the places that differ (`:at`, each place as its
distance from the one before), and by how much (`:by`). So adding up the states in front of one costs what changed in
them, not the size of the pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tsviz.scheduler.cache.geometry import Group

from .packed import Arrays, Malformed

POOLS: Final = ("device_", "host_")
"""What names of such arrays begin with."""
_AT, _BY = ":at", ":by"
_LENGTH_LIMIT = 1 << 28


def over_cached(arrays: Arrays, groups: Sequence[Group]) -> None:
    """Replace how often tables have each LCM block by how much more that is than its owners less its cached pages.

    Mostly nothing, as who owns a page is a table or the index.
    """
    for tier in POOLS:
        if (tabled := arrays.pop(f"{tier}tabled", None)) is not None:
            owners = [arrays[f"{tier}refs_{group.index}"] for group in groups]
            cached = [arrays[f"{tier}entries_{group.index}"] > 0 for group in groups]
            arrays[f"{tier}over"] = (tabled - held(owners, cached, groups, len(tabled))).astype(np.int32)


def held(
    owners: Sequence[npt.NDArray[Any]], cached: Sequence[npt.NDArray[np.bool_]], groups: Sequence[Group], blocks: int
) -> npt.NDArray[np.int64]:
    """Return the owners of the pages of each LCM block, the index left out; `owners` and `cached` by group and page."""
    total = np.zeros(blocks, np.int64)
    for group, count, there in zip(groups, owners, cached, strict=True):
        wide = np.zeros((blocks - 1) * group.packing, np.int64)
        some = min(len(wide), len(count) - 1)
        wide[:some] = (count - there)[1 : some + 1]
        total[1:] += wide.reshape(-1, group.packing).sum(axis=1)
    return total


def less(arrays: Arrays, before: Arrays) -> Arrays:
    """Return arrays of a state with those of pools as differences from the state before, where it had them."""
    out: Arrays = {}
    for name, array in arrays.items():
        known = before.get(name)
        if known is None or not name.startswith(POOLS):
            out[name] = array
            continue
        both = min(len(array), len(known))
        change = array.copy()
        change[:both] -= known[:both]
        places = np.flatnonzero(change)
        out[name + _AT] = np.concatenate([[len(array)], np.diff(places, prepend=0)]).astype(np.int32)
        out[name + _BY] = change[places]
    return out


def added(arrays: Arrays, before: Arrays) -> Arrays:
    """Return what `less` was given. Arrays of `before` are changed in place. Raises `Malformed`."""
    out: Arrays = {}
    for name, array in arrays.items():
        if name.endswith(_BY) and name.startswith(POOLS):
            continue
        if not (name.endswith(_AT) and name.startswith(POOLS)):
            out[name] = array.copy() if name.startswith(POOLS) else array
            continue
        plain = name.removesuffix(_AT)
        known, by = before.get(plain), arrays.get(plain + _BY)
        if known is None or by is None or len(by) != len(array) - 1 or by.dtype != known.dtype:
            raise Malformed(f"array {plain}", "differences from a state before", "something else")
        length, places = int(array[0]), np.cumsum(array[1:], dtype=np.int64)
        if not 0 <= length <= _LENGTH_LIMIT or (len(places) and not 0 <= places.min() <= places.max() < length):
            raise Malformed(f"array {plain}", f"places below {length}", "others")
        if length != len(known):
            sized = np.zeros(length, known.dtype)
            both = min(length, len(known))
            sized[:both] = known[:both]
            known = sized
        known[places] += by
        out[plain] = known
    return out
