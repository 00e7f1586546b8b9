"""A node with nothing to do makes no rounds: it sleeps until there is news, of the peer, its device or ctrl-C."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.pairs import REQUESTS, Pair, run_pair
from tests.executor.rig import Life, live, request
from tsviz.cli.record import Stop
from tsviz.engine.arrivals import Arrivals
from tsviz.engine.configs import Role
from tsviz.engine.drive import drive
from tsviz.engine.loop import Wait
from tsviz.engine.summary import EndReason
from tsviz.executor.clock import MonotonicClock
from tsviz.executor.engine import Engine, EngineOptions
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.shape import PRESETS
from tsviz.executor.sizing import PoolOptions, size_pool
from tsviz.executor.threads import Delays, ThreadStreams
from tsviz.executor.weights import seeded_weights
from tsviz.trace.order.ops import Kind

HOUR_NS = 3_600_000_000_000
LATE_MS = 250
"""How much later one node gets a request than the other; a round a millisecond would be as many rounds."""


@pytest.mark.parametrize("late", [Role.D, Role.P])
def test_a_node_that_waits_for_its_peer_makes_no_rounds(late) -> None:
    """A quarter of a second without a manifest, or without pages, costs a few rounds."""
    first, second = (replace(REQUESTS[i], arrival_ns=None if i else 0, after="r0" if i else None) for i in range(2))
    delayed = (first, replace(second, think_ns=LATE_MS * 1_000_000))
    paired = run_pair(Pair(requests=(first, second), delayed={late: delayed}))
    assert (paired.on_d.finished, paired.on_p.finished) == (2, 2)
    assert paired.on_d.end_ns > LATE_MS * 1_000_000
    assert (paired.p if late is Role.D else paired.d).loop.rounds_done < LATE_MS // 4
    assert paired.equality.is_exact


def test_a_slow_copy_is_asked_for_less_and_less_often() -> None:
    """A store of a quarter of a second, with nothing else to do, costs some forty rounds instead of 250."""
    requests = (request("a", (1, 24), says=2),)
    lived = live(
        Life(
            requests, host_parents=20, real_time=True, device=DeviceOptions(),
            streams=lambda now_ns: ThreadStreams(now_ns, Delays({Kind.STORE_PINNED: LATE_MS / 1e3})),
        ), twin,
    )  # fmt: skip
    assert any(op.kind is Kind.STORE_PINNED for op in lived.ops)
    assert lived.summary.end_ns > LATE_MS * 1_000_000
    assert lived.summary.rounds < 100


def test_ctrl_c_ends_a_run_that_waits_for_an_arrival() -> None:
    """A request is to come in an hour: the run ends where it waits, with nothing submitted."""
    shape, clock, stop = PRESETS["tiny"], MonotonicClock(), Stop()
    stop.wake = clock.wake
    sized = size_pool(shape, PoolOptions(), parents=8, host_parents=0, element_bytes=4)
    engine = Engine(
        twin, Model(shape, seeded_weights(shape, 1)), sized,
        Arrivals([replace(REQUESTS[0], arrival_ns=HOUR_NS)]), clock, EngineOptions(stop=stop),
    )  # fmt: skip
    waits, wait = threading.Event(), clock.wait_until_ns

    def waited(at_ns: int) -> None:
        if at_ns >= HOUR_NS:
            waits.set()
        wait(at_ns)

    def press() -> None:
        waits.wait()
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    clock.wait_until_ns = waited  # type: ignore[method-assign]
    threading.Thread(target=press, daemon=True).start()
    try:
        summary = engine.run()
    finally:
        stop.let_go()
    assert (summary.reason, summary.submitted, summary.not_arrived) == (EndReason.STOPPED, 0, 1)


def test_news_that_nobody_waited_for_ends_the_next_wait_once() -> None:
    """However often the clock is woken before, one wait ends early, and the next one does not."""
    clock = MonotonicClock()
    for _ in range(3):
        clock.wake()
    clock.wait_until_ns(HOUR_NS)
    at_ns = clock.now_ns() + 1_000_000
    clock.wait_until_ns(at_ns)
    assert clock.now_ns() >= at_ns


class _Woken:
    """A clock that stands at 0 while it is woken so many times."""

    def __init__(self, times: int) -> None:
        self.now, self.left = 0, times

    def now_ns(self) -> int:
        return self.now

    def wait_until_ns(self, at_ns: int) -> None:
        self.left -= 1
        if self.left < 0:
            self.now = max(self.now, at_ns)


class _Loop:
    """A settled loop that yields a wait, and keeps when it went on."""

    limit, settled = EndReason.MAX_ROUNDS, True

    def __init__(self, clock: _Woken, wait: Wait) -> None:
        self.clock, self.wait, self.at = clock, wait, list[int]()

    def rounds(self) -> Iterator[Wait]:
        yield self.wait
        self.at.append(self.clock.now)

    def next_change_ns(self) -> int:
        return 1_000


@pytest.mark.parametrize(("idle", "resumed_ns"), [(True, 10), (False, 500)])
def test_news_resumes_who_idles_and_nobody_else(idle, resumed_ns) -> None:
    """Who would sleep to 1,000 looks again at 10, where its round's time is over; a result is waited for."""
    clock: Any = _Woken(2)
    loop: Any = _Loop(clock, Wait(10 if idle else 500, idle=idle))
    assert drive([loop], clock).reason is EndReason.MAX_ROUNDS
    assert loop.at == [resumed_ns]
