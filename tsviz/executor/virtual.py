"""Virtual streams: nothing runs until somebody looks, then a seeded chooser picks (`executor-rules.md` section 2)."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from enum import Enum

from tsviz.executor.streams import Run
from tsviz.trace.order.ops import Op, Stream


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
