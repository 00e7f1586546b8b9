"""What operations of a device waited for; the numbers are worked out in the comments."""

from __future__ import annotations

from typing import Any

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked

from .fakes import FakeBundle, FakePart, table

LIMITS = Limits(memory_bytes=1 << 29, threads=1, seconds=60.0, rows=1 << 12)


def _op(op: int, stream: str, kind: str, submit: int, start: int, end: int, *waits: int) -> dict[str, Any]:
    times = {"submit_ns": submit, "start_ns": start, "end_ns": end}
    return {"round": 3, "op": op, "stream": stream, "kind": kind, "waits": list(waits), **times}


OPS = [
    _op(0, "exec", "result", 0, 0, 50),
    _op(1, "write", "store_ordered", 10, 50, 80, 0),  # ready at 10; the forward ends at 50: 40, alone
    _op(2, "default", "zero", 12, 80, 85, 0, 1),  # ready at 12; the store ends at 80, the forward at 50: 68, alone 30
    _op(3, "exec", "prologue", 14, 85, 86, 2),  # its stream is free at 50; the zeroing ends at 85: 35
    _op(4, "exec", "layer", 15, 86, 90),  # waits for nothing
    _op(5, "load", "load", 100, 100, 120, 2),  # was queued behind the end of what it waits for
]
EXPECTED = [(1, 40, 40, 0, "result"), (2, 68, 30, 1, "store_ordered"), (3, 35, 35, 2, "zero")]


def test_a_stall_is_what_a_free_stream_waited_for_another() -> None:
    """From when an operation was queued and its stream was free to the end of the last that it waited for.

    The other node's operations have the same numbers and wait for nothing.
    """
    other = table("device_ops", [row | {"waits": []} for row in OPS])
    bundles = [
        FakeBundle("one", [FakePart({"device_ops": table("device_ops", OPS)}, node="P")]),
        FakeBundle("two", [FakePart({"device_ops": other}, node="D")]),
    ]
    locked = Locked(Catalog(bundles), LIMITS)
    try:
        rows = locked.query("FROM device_stalls")[0].to_pylist()
    finally:
        locked.close()
    assert [(r["op"], r["stall_ns"], r["alone_ns"], r["for_op"], r["for_kind"]) for r in rows] == EXPECTED
    assert {(r["trace"], r["node"]) for r in rows} == {("one", "P")}
