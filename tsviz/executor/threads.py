"""A worker thread a stream, with delays: it takes real time (`executor-rules.md` section 2)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue

from tsviz.executor.streams import Run
from tsviz.trace.order.ops import Kind, Op, Stream


@dataclass(frozen=True, slots=True)
class Delays:
    """Seconds that each operation of a kind takes longer; slow stores are the useful ones."""

    seconds: Mapping[Kind, float]


class ThreadStreams:
    """One worker a stream."""

    def __init__(self, now_ns: Callable[[], int], delays: Delays | None = None) -> None:
        self._now_ns = now_ns
        self._delays = delays.seconds if delays is not None else {}
        self._events: dict[int, threading.Event] = {}
        self._failed: BaseException | None = None
        self._queues: dict[Stream, SimpleQueue[tuple[Op, Run] | None]] = {}
        self._workers: list[threading.Thread] = []

    def submit(self, op: Op, run: Run) -> None:
        """Hand it to its worker; what the host does itself happens at once."""
        if op.stream is Stream.HOST:
            op.start_ns = self._now_ns()
            run()
            op.end_ns = self._now_ns()
            return
        self._events[op.number] = threading.Event()
        if op.stream not in self._queues:
            queue = self._queues[op.stream] = SimpleQueue()
            worker = threading.Thread(target=self._work, args=(queue,), name=f"tsviz-{op.stream.value}", daemon=True)
            self._workers.append(worker)
            worker.start()
        self._queues[op.stream].put((op, run))

    def done(self, op: Op) -> bool:
        """Look at the event. Raises what a worker raised."""
        self._raise()
        event = self._events.get(op.number)
        return event is None or event.is_set()

    def wait(self, op: Op) -> None:
        """Wait for the event. Raises what a worker raised."""
        if (event := self._events.get(op.number)) is not None:
            event.wait()
        self._raise()

    def close(self) -> None:
        """Let the workers finish."""
        for queue in self._queues.values():
            queue.put(None)
        for worker in self._workers:
            worker.join()

    def _work(self, queue: SimpleQueue[tuple[Op, Run] | None]) -> None:
        while (item := queue.get()) is not None:
            op, run = item
            for number in op.waits:
                if (event := self._events.get(number)) is not None:
                    event.wait()
            op.start_ns = self._now_ns()
            if seconds := self._delays.get(op.kind):
                time.sleep(seconds)
            try:
                if self._failed is None:
                    run()
            except BaseException as error:
                self._failed = error
            op.end_ns = self._now_ns()
            self._events.pop(op.number).set()  # who finds no event any more need not wait

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed
