"""The recorder between its two threads: where entries are freed, and when the reader is woken."""

from __future__ import annotations

import gc
import threading
import weakref

from tsviz.trace import entries as e
from tsviz.trace.recorder import Bell, Recorder


class Plan:
    """Stands for a plan: something whose end can be watched."""


def appended(recorder: Recorder) -> weakref.ref[Plan]:
    """Append a plan's entry and return a weak reference to the plan."""
    plan = Plan()
    recorder.append(e.PlanEntry(0, 0, plan, 0, None, None))
    return weakref.ref(plan)


def named(entry: e.Entry) -> bytes:
    """Read an entry."""
    return type(entry).__name__.encode()


def test_a_plan_that_was_read_lives_until_the_next_one_is_asked_for() -> None:
    """The loop thread frees it, right before its scheduler takes memory again."""
    recorder = Recorder(lambda: 0)
    plan = appended(recorder)
    assert recorder.read_one(named) == b"PlanEntry"
    assert recorder.read_one(named) is None
    gc.collect()
    assert plan() is not None
    recorder.before_plan()
    gc.collect()
    assert plan() is None


def test_a_loop_that_asks_for_no_more_plans_keeps_few_of_those_that_were_read() -> None:
    """Of 100 entries that were read 8 wait for the loop thread; the others are freed by the reader."""
    recorder = Recorder(lambda: 0)
    plans = [appended(recorder) for _ in range(100)]
    while recorder.read_one(named):
        pass
    gc.collect()
    assert sum(plan() is not None for plan in plans) == 8


def test_the_reader_is_woken_when_the_scheduler_is_about_to_plan_and_four_entries_wait() -> None:
    """A call of before_plan ends its sleep of an hour; with three entries it sleeps on."""
    bell = Bell()
    recorder = Recorder(lambda: 0, bell)
    for _ in range(3):
        appended(recorder)
    reader = threading.Thread(target=bell.wait, args=(3600.0,), daemon=True)
    reader.start()
    while not bell.waits:
        reader.join(0.001)
    recorder.before_plan()
    assert bell.waits
    appended(recorder)
    recorder.before_plan()
    reader.join()
    assert not bell.waits


def test_a_bell_that_rang_before_anybody_waits_is_heard_once() -> None:
    """Two rings in front of a sleep end that one and not the next."""
    bell = Bell()
    bell.ring()
    bell.ring()
    bell.wait(3600.0)
    sleeper = threading.Thread(target=bell.wait, args=(3600.0,), daemon=True)
    sleeper.start()
    while not bell.waits:
        sleeper.join(0.001)
    assert sleeper.is_alive()
    bell.ring()
    sleeper.join()
