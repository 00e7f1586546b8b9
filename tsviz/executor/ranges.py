"""Byte ranges of the arena that are worked out when somebody looks at them, and not where they are declared.

The checker looks only at operations that nothing orders, and the writer of a trace when it makes columns: a forward
declares what it touches without the control thread working it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import overload

import numpy as np
import numpy.typing as npt

from tsviz.trace.entries import RangeColumns
from tsviz.trace.order.ops import ByteRange

Longs = npt.NDArray[np.int64]
Edges = tuple[Longs, Longs]
"""First bytes of ranges, and the bytes behind their last ones: in order, no two of them touch."""


class LaterRanges(RangeColumns, Sequence[ByteRange]):
    """Ranges in the arena. `work` may be called on any thread, and on two at once: what it looks at does not change."""

    __slots__ = ("_edges", "_ranges", "_work")
    space = "device"

    def __init__(self, work: Callable[[], Edges]) -> None:
        self._work: Callable[[], Edges] | None = work
        self._edges: Edges
        self._ranges: tuple[ByteRange, ...] | None = None

    def columns(self) -> Edges:
        """Return their edges."""
        if (work := self._work) is not None:
            self._edges = work()
            self._work = None
        return self._edges

    def ranges(self) -> tuple[ByteRange, ...]:
        """Return them one by one."""
        if (ranges := self._ranges) is None:
            begins, ends = self.columns()
            ranges = self._ranges = tuple(map(ByteRange, repeat(self.space), begins.tolist(), ends.tolist()))
        return ranges

    def __len__(self) -> int:
        return len(self.columns()[0])

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
