"""The one thread that launches what runs on a device, in the order of submission (`executor-rules.md` section 1).

The control thread only hands operations over: it plans the next round while this one launches. A peer's bytes have a
thread of their own, since a copy that a wire waits for waits for the device (section 2, step e), and so have files.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue

from tsviz.executor.streams import Run, Streams
from tsviz.trace.order.ops import Op, Stream

FORWARD_THREAD, PEER_THREAD, BACKUP_THREAD = "tsviz-forward", "tsviz-peer", "tsviz-backup"
_THREADS = {Stream.PEER: PEER_THREAD, Stream.BACKUP: BACKUP_THREAD}
"""Whose operations are not the forward thread's."""
Queue = SimpleQueue[tuple[Op, Run] | None]


class ForwardThread:
    """Hands operations to other streams from three threads: all that is launched, a peer's bytes, what writes files."""

    def __init__(self, launched_on: Streams) -> None:
        """`launched_on` are streams whose `submit` launches and does not wait, and may be called from three threads."""
        self._streams = launched_on
        self._changed = threading.Condition()
        self._unlaunched: set[int] = set()
        self._failed: BaseException | None = None
        self._queues: dict[str, Queue] = {name: Queue() for name in (FORWARD_THREAD, PEER_THREAD, BACKUP_THREAD)}
        self._threads = [
            threading.Thread(target=self._work, args=(queue,), name=name, daemon=True)
            for name, queue in self._queues.items()
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, op: Op, run: Run) -> None:
        """Hand it over; what the host does itself happens now. Raises what a launch raised."""
        self._raise()
        if op.stream is Stream.HOST:
            self._streams.submit(op, run)
            return
        with self._changed:
            self._unlaunched.add(op.number)
        self._queues[_THREADS.get(op.stream, FORWARD_THREAD)].put((op, run))

    def done(self, op: Op) -> bool:
        """Ask, once it is launched. Raises what a launch raised."""
        self._raise()
        return op.number not in self._unlaunched and self._streams.done(op)

    def wait(self, op: Op) -> None:
        """Wait for the launch, then for the end. Raises what a launch raised."""
        self._launches((op.number,))
        self._raise()
        self._streams.wait(op)

    def close(self) -> None:
        """Let everything be launched, and end."""
        for queue in self._queues.values():
            queue.put(None)
        for thread in self._threads:
            thread.join()
        self._streams.close()

    def _launches(self, numbers: tuple[int, ...]) -> None:
        """Return once operations are launched, or one failed."""
        with self._changed:
            self._changed.wait_for(lambda: self._failed is not None or self._unlaunched.isdisjoint(numbers))

    def _work(self, queue: Queue) -> None:
        while (item := queue.get()) is not None:
            op, run = item
            self._launches(op.waits)  # one of the other thread, which would not be waited for before it is launched
            try:
                if self._failed is None:
                    self._streams.submit(op, run)
            except BaseException as error:
                self._failed = error
            with self._changed:
                self._unlaunched.discard(op.number)
                self._changed.notify_all()

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed
