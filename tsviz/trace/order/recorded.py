"""The operations of a recorded run, for the checker: it needs no device and no luck."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import pyarrow as pa

from tsviz.trace.errors import Damaged
from tsviz.trace.reader import Part

from .checker import merged
from .ops import ByteRange, Kind, Op, Stream

_Word = TypeVar("_Word", Stream, Kind)


def read_ops(part: Part) -> Iterator[Op]:
    """Yield the operations of a recorded scheduler in the order of submission; none is kept. Raises `TraceError`."""
    ranges, last = _Ranges(part), -1
    for batch in part.batches("device_ops"):
        for row in batch.to_pylist():
            if row["op"] <= last:
                raise Damaged(part.directory, "device_ops, op", f"a number above {last}", f"{row['op']}")
            last = row["op"]
            reads, writes = ranges.of(last)
            yield Op(
                row["op"], row["round"], _known(Stream, part, row, "stream"), _known(Kind, part, row, "kind"),
                tuple(row["waits"]), reads, writes, row["op_id"], row["layer"], _of_every_stream(row["seen"]),
                row["submit_ns"], row["start_ns"], row["end_ns"],
            )  # fmt: skip


class _Ranges:
    """The ranges of one operation after the other, from a table that is in their order."""

    def __init__(self, part: Part) -> None:
        self._directory = part.directory
        self._rows = (row for batch in part.batches("device_ranges") for row in _columns(batch))
        self._next = next(self._rows, None)

    def of(self, op: int) -> tuple[Sequence[ByteRange], Sequence[ByteRange]]:
        """Return what an operation reads and what it writes; operations are asked for in their order."""
        touched: tuple[list[ByteRange], list[ByteRange]] = ([], [])
        row = self._next
        while row is not None and row[0] <= op:
            number, writes, space, begin, end = row
            if number < op:
                raise Damaged(self._directory, "device_ranges, op", f"{op}, or one behind it", f"{number}")
            if not 0 <= begin <= end:
                words = f"bytes {begin} to {end}"
                raise Damaged(self._directory, f"device_ranges, op {op}", "a first byte and one not before it", words)
            touched[writes].append(ByteRange(space, begin, end))
            row = next(self._rows, None)
        self._next = row
        return merged(touched[False]), merged(touched[True])


def _columns(batch: pa.RecordBatch) -> Iterator[tuple[int, bool, str, int, int]]:
    """Yield rows by column: a row as a dictionary takes three times as long."""
    names = ("op", "writes", "space", "begin_byte", "end_byte")
    return zip(*(batch[name].to_pylist() for name in names), strict=True)


def _known(words: type[_Word], part: Part, row: dict[str, Any], column: str) -> _Word:
    try:
        return words(row[column])
    except ValueError:
        known = ", ".join(word.value for word in words)
        raise Damaged(part.directory, f"device_ops, op {row['op']}, {column}", known, repr(row[column])[:40]) from None


def _of_every_stream(seen: Sequence[int]) -> tuple[int, ...]:
    """Return what the host had seen, of streams too that there were not when the trace was recorded."""
    return (*seen, *[-1] * (len(Stream) - len(seen))) if seen else ()
