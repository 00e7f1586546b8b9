"""What streams are, and the plainest ones (`executor-rules.md` section 2).

All run the same operations; they differ in when. Inline is the baseline. Virtual streams (`virtual`) run nothing until
somebody looks, and then what a seeded chooser picks among the heads that may run: a missing edge becomes a wrong token
under some seed. Threads (`threads`) take real time; `cuda` is a GPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tsviz.trace.order.ops import Op

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
