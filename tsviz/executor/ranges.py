"""Byte ranges of the arena that are worked out when somebody looks at them, and not where they are declared.

The checker looks only at operations that nothing orders, and the writer of a trace when it makes columns, of many
forwards at once: a forward declares what it touches without the control thread working it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import repeat
from typing import TYPE_CHECKING, cast, overload

import numpy as np
import numpy.typing as npt

from tsviz.trace.entries import ManyRanges, RangeColumns
from tsviz.trace.order.ops import ByteRange

if TYPE_CHECKING:
    from tsviz.executor.touched import Touched

Longs = npt.NDArray[np.int64]
Edges = tuple[Longs, Longs]
"""First bytes of ranges, and the bytes behind their last ones: in order, no two of them touch."""


class What(Enum):
    """What is asked of a forward: the bytes that its layers read or write, its drafting reads, its epilogue writes."""

    READS = auto()
    WRITES = auto()
    DRAFTED = auto()
    COMMITTED = auto()


class LaterRanges(RangeColumns, Sequence[ByteRange]):
    """Ranges in the arena, of a layer of a forward (None: of all).

    They may be asked for on any thread, and on two at once: what is looked at does not change.
    """

    __slots__ = ("_ranges", "forward", "layer", "what")
    space = "device"

    def __init__(self, forward: Touched, what: What, layer: int | None = None) -> None:
        self.forward, self.what, self.layer = forward, what, layer
        self._ranges: tuple[ByteRange, ...] | None = None

    @staticmethod
    def together(ranges: Sequence[RangeColumns]) -> ManyRanges:
        """Return the edges of several of one device."""
        asked = cast("Sequence[LaterRanges]", ranges)
        return asked[0].forward.together(asked)

    def columns(self) -> Edges:
        """Return their edges."""
        many = self.together((self,))
        return many.begins, many.ends

    def ranges(self) -> tuple[ByteRange, ...]:
        """Return them one by one."""
        if (ranges := self._ranges) is None:
            begins, ends = self.columns()
            ranges = self._ranges = tuple(map(ByteRange, repeat(self.space), begins.tolist(), ends.tolist()))
        return ranges

    def __len__(self) -> int:
        return len(self.ranges())

    @overload
    def __getitem__(self, index: int) -> ByteRange: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ByteRange]: ...
    def __getitem__(self, index: int | slice) -> ByteRange | Sequence[ByteRange]:
        return self.ranges()[index]

    def __iter__(self) -> Iterator[ByteRange]:
        return iter(self.ranges())

    def __eq__(self, other: object) -> bool:
        return self.ranges() == tuple(other) if isinstance(other, Sequence) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.ranges())


def joined(begins: Longs, ends: Longs) -> Edges:
    """Return ranges in any order as edges."""
    order = begins.argsort(kind="stable")
    begins, ends = begins[order], np.maximum.accumulate(ends[order])
    edges = np.ones(len(begins) + 1, bool)
    np.greater(begins[1:], ends[:-1], out=edges[1:-1])
    return begins[edges[:-1]], ends[edges[1:]]


def joined_apart(of: Longs, count: int, begins: Longs, ends: Longs) -> tuple[Longs, Edges]:
    """Return what `joined` does for each of `count` lists of ranges, and how many edges each has; `of` says which list
    a range is of.
    """
    # Each list is moved behind the bytes of the one before it, and so one pass sorts and joins all of them.
    apart = int(ends.max(initial=0)) + 1
    begins, ends = joined(begins + of * apart, ends + of * apart)
    of = begins // apart
    return np.bincount(of, minlength=count), (begins - of * apart, ends - of * apart)
