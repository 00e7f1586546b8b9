"""The happens-before checker: what orders two operations, and which of them race (`executor-rules.md` section 2)."""

from __future__ import annotations

import pytest

from tsviz.trace.builder import TableBuilder, Vocabulary
from tsviz.trace.catalogue import TABLES
from tsviz.trace.device_rows import DeviceRows
from tsviz.trace.entries import DeviceOp, DeviceOpsEntry
from tsviz.trace.order.checker import OrderChecker, check_ops, merged, overlap
from tsviz.trace.order.ops import ByteRange, Kind, Op, Stream


def operation(number: int, stream: Stream, *waits: int, reads: int | None = None, writes: int | None = None) -> Op:
    at = [() if n is None else (ByteRange("device", n, n + 4),) for n in (reads, writes)]
    return Op(number, 1, stream, Kind.LAYER, waits, *at)


def test_fifo_events_and_the_host_order_operations() -> None:
    """Of the same bytes: one stream orders, an event orders through a third operation, an end the host saw orders."""
    first, second = operation(0, Stream.EXEC, writes=8), operation(1, Stream.EXEC, writes=8)
    assert check_ops([first, second]) == []
    through = [first, operation(1, Stream.WRITE, 0), operation(2, Stream.DEFAULT, 1, writes=8)]
    assert check_ops(through) == []
    checker = OrderChecker()
    checker.submitted(first)
    checker.observed(0)
    checker.submitted(operation(1, Stream.WRITE, reads=8))
    assert checker.races == []
    assert len(check_ops([first, operation(1, Stream.WRITE, reads=8)])) == 1


def test_what_the_host_saw_end_is_forgotten() -> None:
    """Whatever the streams that fell silent, a checker holds the operations that are out, and no more clocks than that.

    A load in the first round only; then a hundred rounds of one operation on `exec` that the host sees end.
    """
    checker = OrderChecker()
    for number in range(101):
        checker.submitted(operation(number, Stream.EXEC if number else Stream.LOAD, writes=8 * number))
        checker.observed(number)
    checker.submitted(operation(101, Stream.EXEC))
    assert list(checker._clocks) == [101]
    checker.submitted(operation(102, Stream.WRITE, reads=8 * 50))
    assert checker.races == []


def test_readers_do_not_race() -> None:
    """Two reads of the same bytes need no order; a byte that only one touches needs none either."""
    assert check_ops([operation(0, Stream.EXEC, reads=8), operation(1, Stream.WRITE, reads=8)]) == []
    assert check_ops([operation(0, Stream.EXEC, writes=8), operation(1, Stream.WRITE, writes=12)]) == []


def test_ranges_are_merged_and_compared_by_space() -> None:
    """Ranges that touch become one; those of different spaces never overlap."""
    joined = merged([ByteRange("host", 4, 8), ByteRange("device", 8, 12), ByteRange("device", 0, 8)])
    assert joined == (ByteRange("device", 0, 12), ByteRange("host", 4, 8))
    assert overlap(joined, (ByteRange("host", 7, 9),)) == ByteRange("host", 7, 8)
    assert overlap(joined, (ByteRange("other", 0, 99),)) is None


@pytest.mark.parametrize(
    ("kind", "moved"),
    [(Kind.ZERO, 16), (Kind.LOAD, 16), (Kind.FETCH, 16), (Kind.RECEIVE, 16), (Kind.STORE_PINNED, 4), (Kind.SEND, 4)],
)
def test_what_is_moved_is_what_was_written_where_the_bytes_come_from_elsewhere(kind: Kind, moved: int) -> None:
    """Of one that reads 4 bytes and writes 16."""
    ranges = ((("host", 0, 4),), (("device", 0, 16),))
    tables = {name: TableBuilder(TABLES[name], Vocabulary()) for name in ("device_ops", "device_ranges")}
    rows = DeviceRows(tables, list, content=True)  # type: ignore[arg-type]
    rows.add(1, DeviceOpsEntry((DeviceOp(1, 0, "exec", kind.value, None, None, kind.fills, (), (), 0, 0, 0, *ranges),)))
    rows.settle()
    assert tables["device_ops"].take()["moved_bytes"].to_pylist() == [moved]
