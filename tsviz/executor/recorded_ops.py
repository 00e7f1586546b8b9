"""The operations of a recorded run, for the checker: it needs no device and no luck."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from tsviz.executor.layout import ByteRange
from tsviz.executor.ops import Kind, Op, Stream
from tsviz.executor.order import merged
from tsviz.trace.reader import Part


def read_ops(part: Part) -> list[Op]:
    """Return the operations of one recorded scheduler in the order of submission."""
    touched: dict[tuple[int, bool], list[ByteRange]] = defaultdict(list)
    for row in part.table("device_ranges").to_pylist():
        touched[row["op"], row["writes"]].append(ByteRange(row["space"], row["begin_byte"], row["end_byte"]))
    return [
        Op(
            row["op"], row["round"], Stream(row["stream"]), Kind(row["kind"]), tuple(row["waits"]),
            merged(touched[row["op"], False]), merged(touched[row["op"], True]), row["op_id"], row["layer"],
            _of_every_stream(row["seen"]), row["submit_ns"], row["start_ns"], row["end_ns"],
        )
        for row in part.table("device_ops").to_pylist()
    ]  # fmt: skip


def _of_every_stream(seen: Sequence[int]) -> tuple[int, ...]:
    """Return what the host had seen, of streams too that there were not when the trace was recorded."""
    return (*seen, *[-1] * (len(Stream) - len(seen))) if seen else ()
