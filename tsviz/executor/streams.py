"""Streams on a CPU: inline, virtual with a seeded chooser, threads with delays (`executor-rules.md` section 2).

All run the same operations; they differ in when. Inline is the baseline. Virtual streams run nothing until somebody
looks, and then what a seeded chooser picks among the heads that may run: a missing edge becomes a wrong token under
some seed. Threads take real time.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from queue import SimpleQueue
from typing import Protocol

from tsviz.executor.order import Kind, Op, Stream

Run = Callable[[], None]


class Streams(Protocol):
    """FIFO queues of operations; an operation's completion is the event that others wait for."""

    def submit(self, op: Op, run: Run) -> None:
        """Queue an operation behind all of its stream and behind the events that it waits for. Never blocks."""

    def done(self, op: Op, /) -> bool:
        """Return whether it has ended; raises what it raised. Never blocks."""

    def wait(self, op: Op, /) -> None:
        """Return once it has ended; raises what it raised."""

    def close(self) -> None:
        """Let everything end."""


class InlineStreams:
    """Runs each operation where it is submitted."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns

    def submit(self, op: Op, run: Run) -> None:
        """Run it."""
        op.start_ns = self._now_ns()
        run()
        op.end_ns = self._now_ns()

    def done(self, _op: Op) -> bool:
        """It has."""
        return True

    def wait(self, _op: Op) -> None:
        """It has."""

    def close(self) -> None:
        """Nothing is out."""


class Policy(Enum):
    """Whom the chooser of virtual streams picks."""

    LATEST = "latest"
    """Only what is waited for, and that as late as it can be."""
    ROUND_ROBIN = "round_robin"
    RANDOM = "random"


class VirtualStreams:
    """Deterministic for a seed and a policy; one thread."""

    _STEPS_OF_LATEST = 3

    def __init__(self, now_ns: Callable[[], int], seed: int, policy: Policy = Policy.RANDOM) -> None:
        self._now_ns = now_ns
        self._random = random.Random(seed)
        self._policy = policy
        self._queues: dict[Stream, deque[tuple[Op, Run]]] = {stream: deque() for stream in Stream}
        self._out: set[int] = set()
        self._turn = self._asked = 0
        self._failed = False

    def submit(self, op: Op, run: Run) -> None:
        """Queue it; what the host does itself happens at once."""
        if op.stream is Stream.HOST:
            op.start_ns = op.end_ns = self._now_ns()
            run()
            return
        self._queues[op.stream].append((op, run))
        self._out.add(op.number)

    def done(self, op: Op) -> bool:
        """Let some operations run, then tell."""
        if self._policy is not Policy.LATEST:
            for _ in range(self._random.randint(1, 4)):
                self._step()
        elif op.number in self._out:
            self._asked += 1
            if self._asked % self._STEPS_OF_LATEST == 0:
                self._run_for(op)
        return op.number not in self._out

    def wait(self, op: Op) -> None:
        """Run until it has ended."""
        while op.number in self._out:
            if self._policy is Policy.LATEST:
                self._run_for(op)
            else:
                self._step()

    def close(self) -> None:
        """Run everything."""
        while self._out:
            self._step()

    def _step(self) -> None:
        heads = [s for s, queue in self._queues.items() if queue and not self._out.intersection(queue[0][0].waits)]
        if not heads:
            return
        if self._policy is Policy.RANDOM:
            stream = self._random.choice(heads)
        else:
            self._turn += 1
            stream = heads[self._turn % len(heads)]
        self._run_head(stream)

    def _run_for(self, op: Op) -> None:
        """Run the first operation that stands in the way of `op`, or `op` itself."""
        stream = op.stream
        while True:
            head = self._queues[stream][0][0]
            missing = self._out.intersection(head.waits)
            if not missing:
                break
            first = min(missing)
            stream = next(s for s, queue in self._queues.items() if any(o.number == first for o, _ in queue))
        self._run_head(stream)

    def _run_head(self, stream: Stream) -> None:
        op, run = self._queues[stream].popleft()
        op.start_ns = self._now_ns()
        try:
            if not self._failed:  # what comes behind a failure would only hide it
                run()
        except BaseException:
            self._failed = True
            raise
        finally:
            op.end_ns = self._now_ns()
            self._out.discard(op.number)


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
            self._events[op.number].set()

    def _raise(self) -> None:
        if self._failed is not None:
            raise self._failed
