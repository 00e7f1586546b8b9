"""Standing aside: what records keeps off the processor of a loop that is busy, and of no other."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import pytest

from tsviz.trace.aside import Aside


@pytest.fixture
def reader() -> Iterator[int]:
    """The id of a thread that sleeps, which may be told where to run."""
    done, ids = threading.Event(), list[int]()

    def sleep() -> None:
        ids.append(threading.get_native_id())
        done.wait()

    thread = threading.Thread(target=sleep)
    thread.start()
    while not ids:
        thread.join(0.001)
    yield ids[0]
    done.set()
    thread.join()


def test_a_reader_leaves_the_processor_of_a_busy_loop_and_comes_back_when_it_waits(reader: int) -> None:
    """A loop that ran 0.2 of 0.3 s has a processor to itself, where there are several; one that ran none has not."""
    allowed, loop = os.sched_getaffinity(0), (os.getpid(), threading.get_native_id())
    aside = Aside((reader,))
    aside.look([loop], 0.0)
    assert os.sched_getaffinity(reader) == allowed
    until = time.thread_time() + 0.2
    while time.thread_time() < until:
        pass
    aside.look([loop], 0.3)
    assert len(allowed - os.sched_getaffinity(reader)) == (1 if len(allowed) > 1 else 0)
    aside.look([loop], 1_000.0)
    assert os.sched_getaffinity(reader) == allowed


def test_a_loop_that_is_gone_changes_nothing(reader: int) -> None:
    """Its process ended: there is nothing to read of it, and nobody hears of that."""
    allowed, aside = os.sched_getaffinity(0), Aside((reader,))
    for now in (0.0, 1.0, 2.0):
        aside.look([(os.getpid(), 2**22 + 1)], now)
    assert os.sched_getaffinity(reader) == allowed
