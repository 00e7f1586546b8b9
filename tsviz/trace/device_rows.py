"""What a device says of itself as rows of `forwards`, `forward_rows`, `device_ops`, `device_ranges` and `page_crcs`.

Entries wait for those that come with them, and become columns together: a pass over arrays costs the same for the
operations of one round and of thirty, and the control thread waits for the interpreter meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from . import entries as e
from .builder import TableBuilder

Longs = npt.NDArray[np.int64]


class DeviceRows:
    """Takes what a device measured, in order; `settle` makes rows of it."""

    def __init__(
        self, tables: Mapping[str, TableBuilder], submissions: Callable[[Sequence[str]], list[int]], *, content: bool
    ) -> None:
        """`submissions`: what request ids name now, so `settle` comes before ids are given to others.

        Without `content` checksums are left out: they would tell a guessed prompt from another one.
        """
        self._tables, self._submissions, self._content = tables, submissions, content
        self._ops: list[e.DeviceOpsEntry] = []
        self._rows: list[e.ForwardRowsEntry] = []

    def add(self, last_round: int, entry: e.Measured) -> None:
        """Take one entry; `last_round` is the round of the last plan."""
        match entry:
            case e.DeviceOpsEntry():
                self._ops.append(entry)
            case e.ForwardRowsEntry():
                self._rows.append(entry)
            case e.ForwardEntry():
                round_ = last_round if entry.round is None else entry.round
                self._tables["forwards"].add(round=round_, start_ns=entry.start_ns, end_ns=entry.end_ns)
            case e.PageCrcsEntry():
                for crc in entry.rows if self._content else ():
                    self._tables["page_crcs"].add(round=entry.round, op=entry.op, **crc._asdict())

    def settle(self) -> None:
        """Make rows of what waits."""
        for settle in self.settlers:
            settle()

    @property
    def settlers(self) -> tuple[Callable[[], None], Callable[[], None]]:
        """The two parts of `settle`."""
        return self._settle_rows, self._settle_ops

    def _settle_rows(self) -> None:
        if entries := self._rows:
            self._rows = []
            self._add_rows(entries)

    def _settle_ops(self) -> None:
        if ops := list(chain.from_iterable(entry.ops for entry in self._ops)):
            self._ops = []
            _add_ops(self._tables, ops)

    def _add_rows(self, entries: Sequence[e.ForwardRowsEntry]) -> None:
        counts: list[int] = []
        rows: list[e.ForwardRow] = []
        for entry in entries:
            before = len(rows)
            rows += entry.rows
            counts.append(len(rows) - before)
        table = self._tables["forward_rows"].columns
        table["round"].extend_numpy(np.repeat([entry.round for entry in entries], counts))
        for name, values in zip(e.ForwardRow._fields, zip(*rows, strict=True), strict=bool(rows)):
            table[name].extend_any(values)
            if name == "request":
                table["submission"].extend(self._submissions(values))


def _add_ops(tables: Mapping[str, TableBuilder], ops: Sequence[e.DeviceOp]) -> None:
    columns = tables["device_ops"].columns
    told: dict[str, Sequence[Any]] = dict(zip(e.DeviceOp._fields, zip(*ops, strict=True), strict=True))
    for name, values in told.items():
        if name in columns:
            columns[name].extend_any(values)
    # What operation i reads is side 2 i, what it writes 2 i + 1.
    sides = list(chain.from_iterable(zip(told["reads"], told["writes"], strict=True)))
    words = tables["device_ranges"].columns["space"]
    spaces, begins, ends, counts = _ranges(sides, words.code)
    side = np.arange(len(sides)).repeat(counts)
    columns["moved_bytes"].extend_numpy(_moved(ends - begins, counts, np.array(told["fills"])))
    ranges = tables["device_ranges"].columns
    ranges["round"].extend_numpy(np.array(told["round"])[side >> 1])
    ranges["op"].extend_numpy(np.array(told["op"])[side >> 1])
    words.extend_numpy(spaces)
    ranges["writes"].extend_numpy(side & 1)
    ranges["begin_byte"].extend_numpy(begins)
    ranges["end_byte"].extend_numpy(ends)


def _moved(sizes: Longs, counts: Longs, fills: npt.NDArray[np.bool_]) -> Longs:
    """Return how many bytes each operation moves: those of the side that it fills or reads."""
    total, last = np.append(0, sizes.cumsum()), counts.cumsum()
    of_side: Longs = total[last] - total[last - counts]
    return np.where(fills, of_side[1::2], of_side[::2])


def _ranges(sides: Sequence[Any], code: Callable[[str], int]) -> tuple[Longs, Longs, Longs, Longs]:
    """Return the ranges of all sides, in order: codes of spaces, first bytes, bytes behind the last; and how many each
    side has.
    """
    later: list[e.RangeColumns] = []
    later_at: list[int] = []
    loose: list[tuple[str, int, int]] = []
    starts, counts = np.zeros(len(sides), np.int64), np.zeros(len(sides), np.int64)
    for number, side in enumerate(sides):
        if isinstance(side, e.RangeColumns):
            later.append(side)
            later_at.append(number)
        elif side:
            starts[number], counts[number] = len(loose), len(side)
            loose += side
    columns = list(zip(*loose, strict=True)) or [(), (), ()]
    spaces, begins, ends = (
        np.array(list(map(code, columns[0])), np.int64),
        *(np.array(c, np.int64) for c in columns[1:]),
    )
    if later:
        many = later[0].together(later)
        starts[later_at], counts[later_at] = many.starts + len(loose), many.counts
        begins, ends = np.concatenate([begins, many.begins]), np.concatenate([ends, many.ends])
        spaces = np.concatenate([spaces, np.full(len(many.begins), code(later[0].space))])
    # Side by side: the place of a range is that of its side's first one, and its number within the side.
    place = starts.repeat(counts) + np.arange(int(counts.sum())) - (counts.cumsum() - counts).repeat(counts)
    return spaces[place], begins[place], ends[place], counts
