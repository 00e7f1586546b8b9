"""Where the control thread queues operations: numbered, checked, reported once their times are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tsviz.engine.clock import Clock
from tsviz.executor.crcs import PageCrcs, Watched
from tsviz.executor.streams import Run, Streams
from tsviz.executor.telling import DeviceObserver
from tsviz.trace.order.checker import OrderChecker
from tsviz.trace.order.ops import ByteRange, Kind, Op, Stream


class OpQueue:
    """One a device. `last_exec` is the last operation of `exec`: copies and zeroing come behind it."""

    def __init__(
        self, streams: Streams, clock: Clock, observer: DeviceObserver | None, crcs: PageCrcs | None = None
    ) -> None:
        """`crcs` sums up the blocks of every operation, for whoever observes."""
        self.streams, self._clock, self.observer, self._crcs = streams, clock, observer, crcs
        self.checker = OrderChecker()
        self.round = 0
        self.last_exec: int | None = None
        self._count = 0
        self._unreported: list[Op] = []

    def submit(
        self, stream: Stream, kind: Kind, run: Run, waits: Sequence[int | None] = (), *,
        reads: Sequence[ByteRange] = (), writes: Sequence[ByteRange] = (), op_id: int | None = None,
        layer: int | None = None, watch: Callable[[], Watched] | None = None,
    ) -> Op:  # fmt: skip
        """Queue one operation behind the events it waits for, and have its place in the order checked.

        `watch` says, where checksums are wanted, of which blocks.
        """
        numbers = tuple(sorted({n for n in waits if n is not None}))
        op = Op(self._count, self.round, stream, kind, numbers, reads, writes, op_id, layer)
        op.seen, op.submit_ns = self.checker.seen(), self._clock.now_ns()
        self._count += 1
        self.checker.submitted(op)
        if self._crcs is not None and watch is not None:
            run = self._crcs.around(op.number, run, watch())
        self.streams.submit(op, run)
        if stream is Stream.EXEC:
            self.last_exec = op.number
        if self.observer is not None:
            self._unreported.append(op)
        return op

    def ended(self, op: Op) -> bool:
        """Return whether an operation has ended; the host has then seen it."""
        if not self.streams.done(op):
            return False
        self.checker.observed(op.number)
        return True

    def wait(self, op: Op) -> None:
        """Wait for the end of an operation."""
        self.streams.wait(op)
        self.checker.observed(op.number)

    def report(self) -> None:
        """Tell of operations whose times are known, in the order of submission."""
        if self.observer is None:
            return
        waiting = self._unreported
        ended = next((i for i, op in enumerate(waiting) if op.end_ns < 0), len(waiting))
        told, self._unreported = waiting[:ended], waiting[ended:]
        if self._crcs is None:
            if told:
                self.observer.ops(told)
            return
        for op in told:
            self.observer.ops([op])
            if crcs := self._crcs.summed(op.number):
                self.observer.crcs(op, crcs)
