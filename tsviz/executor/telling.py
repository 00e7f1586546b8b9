"""What the executor tells of itself while it runs, and how a trace takes it (`executor-rules.md` section 9)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

from tsviz.trace.entries import (
    DeviceOp,
    DeviceOpsEntry,
    ForwardEntry,
    ForwardRow,
    ForwardRowsEntry,
    PageCrc,
    PageCrcsEntry,
)
from tsviz.trace.order.ops import Op
from tsviz.trace.recorder import Recorder


class DeviceObserver(Protocol):
    """Told on the control thread, never by making the device wait."""

    def ops(self, ops: Sequence[Op]) -> None:
        """Operations have ended and their times are known; in the order of submission."""

    def crcs(self, op: Op, crcs: Sequence[PageCrc]) -> None:
        """The checksums of the operation told last."""

    def forward(self, round_: int, start_ns: int, end_ns: int, rows: Iterable[ForwardRow]) -> None:
        """A forward's result was read: its interval on the device, and the rows that gave tokens, for any thread."""


# Taken and made without a frame of Python's: there are five a round, and the control thread waits meanwhile.
_fields_of: Callable[[Op], tuple[Any, ...]] = attrgetter(
    "round", "number", "stream._value_", "kind._value_", "op_id", "layer", "kind.fills", "waits", "seen",
    "submit_ns", "start_ns", "end_ns", "reads", "writes",
)  # fmt: skip
_device_op: Callable[[tuple[Any, ...]], DeviceOp] = partial(tuple.__new__, DeviceOp)


@dataclass(frozen=True, slots=True)
class _Told:
    """Operations that have ended; their rows are made where they are iterated, off the control thread."""

    ops: Sequence[Op]

    def __iter__(self) -> Iterator[DeviceOp]:
        return map(_device_op, map(_fields_of, self.ops))


class TraceSink:
    """Hands everything to a recorder, once there is one; `spent_ns` is what that took of the control thread."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.spent_ns = 0

    def ops(self, ops: Sequence[Op]) -> None:
        """Record operations."""
        began = time.perf_counter_ns()
        if self.recorder is not None:
            self.recorder.append(DeviceOpsEntry(_Told(ops)))
        self.spent_ns += time.perf_counter_ns() - began

    def crcs(self, op: Op, crcs: Sequence[PageCrc]) -> None:
        """Record the checksums of one operation."""
        if self.recorder is not None:
            self.recorder.append(PageCrcsEntry(op.round, op.number, crcs))

    def forward(self, round_: int, start_ns: int, end_ns: int, rows: Iterable[ForwardRow]) -> None:
        """Record one forward."""
        began = time.perf_counter_ns()
        if self.recorder is not None:
            self.recorder.append(ForwardEntry(start_ns, end_ns, round_))
            self.recorder.append(ForwardRowsEntry(round_, rows))
        self.spent_ns += time.perf_counter_ns() - began
