"""The thread that launches: order, what the control thread may ask, and failures (`executor-rules.md` section 1)."""

from __future__ import annotations

import threading

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tsviz.executor.forward_thread import BACKUP_THREAD, FORWARD_THREAD, PEER_THREAD, ForwardThread
from tsviz.executor.streams import InlineStreams
from tsviz.trace.order.ops import Kind, Op, Stream

SECONDS = 30
"""How long a test waits before it says that something hangs."""


class Ops:
    """Streams behind a forward thread, and a log of who ran what."""

    def __init__(self) -> None:
        self.log, self.count = [], 0
        self.streams = ForwardThread(InlineStreams(lambda: 0))

    def submit(self, stream, run=lambda: None, waits=()):
        op = Op(self.count, 1, stream, Kind.LAYER, waits)
        self.count += 1

        def running() -> None:
            run()
            self.log.append((op.number, threading.current_thread().name))

        self.streams.submit(op, running)
        return op


@pytest.fixture
def ops():
    """A forward thread that is closed when the test ends."""
    ops = Ops()
    yield ops
    ops.streams.close()


def gate():
    """Something to hold an operation at, and what lets it go."""
    event = threading.Event()
    return lambda: event.wait(SECONDS), event.set


def test_all_is_launched_by_one_thread_in_order(ops) -> None:
    """Six operations of three streams run in the order in which they were handed over, on the forward thread."""
    order = (Stream.DEFAULT, Stream.EXEC, Stream.WRITE) * 2
    last = [ops.submit(stream) for stream in order][-1]
    ops.streams.wait(last)
    assert ops.log == [(n, FORWARD_THREAD) for n in range(6)]


def test_the_control_thread_does_not_wait_for_a_launch(ops) -> None:
    """While a launch hangs, operations are taken and asked for, and what the host does itself happens at once."""
    hang, go_on = gate()
    held = ops.submit(Stream.EXEC, hang)
    behind = ops.submit(Stream.EXEC)
    host = ops.submit(Stream.HOST)
    assert (ops.streams.done(held), ops.streams.done(behind), ops.streams.done(host)) == (False, False, True)
    assert ops.log == [(2, threading.current_thread().name)]
    go_on()
    ops.streams.wait(behind)
    assert ops.streams.done(held)


def test_a_peer_that_waits_holds_nobody_up(ops) -> None:
    """Forwards are launched while the peer's thread hangs; what waits for the peer's copy is launched behind it."""
    hang, go_on = gate()
    peer = ops.submit(Stream.PEER, hang)
    free = ops.submit(Stream.EXEC)
    ops.streams.wait(free)
    bound = ops.submit(Stream.EXEC, waits=(peer.number,))
    assert not ops.streams.done(bound)
    go_on()
    ops.streams.wait(bound)
    assert ops.log == [(1, FORWARD_THREAD), (0, PEER_THREAD), (2, FORWARD_THREAD)]


def test_a_disk_that_hangs_holds_nobody_up(ops) -> None:
    """Forwards are launched and a peer's bytes move while files are written, on a thread of their own."""
    hang, go_on = gate()
    file = ops.submit(Stream.BACKUP, hang)
    ops.streams.wait(ops.submit(Stream.EXEC))
    ops.streams.wait(ops.submit(Stream.PEER))
    assert not ops.streams.done(file)
    go_on()
    ops.streams.wait(file)
    assert ops.log == [(1, FORWARD_THREAD), (2, PEER_THREAD), (0, BACKUP_THREAD)]


def test_a_launch_that_fails_is_raised_wherever_the_control_thread_comes_next(ops) -> None:
    """What it raised comes out of `wait`, `done` and `submit`, and nothing behind it runs."""

    def fails() -> None:
        raise ZeroDivisionError

    failed = ops.submit(Stream.EXEC, fails)
    for ask in (ops.streams.wait, ops.streams.done, lambda _: ops.submit(Stream.EXEC)):
        with pytest.raises(ZeroDivisionError):
            ask(failed)
    assert ops.log == []
