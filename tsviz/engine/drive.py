"""Runs loops on one clock: always the one that may go on first, until all is done or nothing can change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tsviz.engine.clock import Clock
from tsviz.engine.loop import EventLoop, Wait
from tsviz.engine.port import SchedulerRaised
from tsviz.engine.summary import EndReason


class Ending(NamedTuple):
    """Why a run ended, with words where the reason alone does not say it."""

    reason: EndReason
    detail: str = ""


def drive(loops: Sequence[EventLoop], clock: Clock) -> Ending:
    """Run the loops until one reaches its limit or is stopped, its scheduler raises, or none can go on.

    A loop that waits for a result resumes when it is there. An idle one that has settled sleeps until something from
    outside can change its plan; when nothing will, it is parked until another loop gives it something. A clock that is
    woken has every idle loop look again: there is news, and it is not said for whom.
    """
    runs = [loop.rounds() for loop in loops]
    waits = [Wait(clock.now_ns(), idle=False) for _ in loops]
    while True:
        first, at_ns = -1, 0
        for index, loop in enumerate(loops):
            resume_ns = _resume_ns(loop, waits[index])
            if resume_ns is not None and (first < 0 or resume_ns < at_ns):
                first, at_ns = index, resume_ns
        if first < 0:
            return _ending(loops)
        clock.wait_until_ns(at_ns)
        if clock.now_ns() < at_ns:
            waits = [wait._replace(idle=False) for wait in waits]
            continue
        try:
            wait = next(runs[first], None)
        except SchedulerRaised as error:
            return Ending(EndReason.SCHEDULER_RAISED, str(error))
        if wait is None:
            limit = loops[first].limit
            assert limit is not None, "a loop ends its rounds only at a limit"
            return Ending(limit)
        waits[first] = wait


def _resume_ns(loop: EventLoop, wait: Wait) -> int | None:
    if not wait.idle or not loop.settled:
        return wait.until_ns
    change_ns = loop.next_change_ns()
    return None if change_ns is None else max(wait.until_ns, change_ns)


def _ending(loops: Sequence[EventLoop]) -> Ending:
    live = sum(loop.live for loop in loops)
    if live:
        return Ending(EndReason.STALLED, f"{live} live requests, empty plans, nothing out that will come back")
    if missing := loops[0].not_arrived:
        return Ending(EndReason.STALLED, f"{missing} requests wait for requests that never end")
    return Ending(EndReason.DRAINED)
