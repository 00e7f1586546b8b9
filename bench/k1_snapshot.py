"""K1: a keyframe of 1,000 requests of 500 pages on the calling thread: `Scheduler.snapshot()` between two rounds."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tsviz.engine.configs import SchedulerOptions

from .calibration import calibration_ms
from .measure import Line, quiet
from .s_loop import Load, Loop
from .schedulers import twin
from .steady import PAGE_TOKENS, steady_options

_REQUESTS, _PAGES, _REPEATS = 1000, 500, 40
_TOKENS = _PAGES * PAGE_TOKENS - PAGE_TOKENS // 2


def figures() -> Iterator[Line]:
    """Yield milliseconds of the first snapshot, and of one after each further round; prompts shared by 90 % and not."""
    for shared, pool in ((_TOKENS * 9 // 10 // PAGE_TOKENS * PAGE_TOKENS, 60_000), (0, _REQUESTS * (_PAGES + 2))):
        scheduler, loop = _decoding(shared, pool)
        case = f"{pool:,} pages in the pool"
        times, walls = [], []
        with quiet():
            for _ in range(_REPEATS):
                wall, start = time.perf_counter_ns(), time.thread_time_ns()
                snapshot = scheduler.snapshot()
                times.append((time.thread_time_ns() - start) / 1e6)
                walls.append((time.perf_counter_ns() - wall) / 1e6)
                del snapshot
                loop.round()
        note = (
            f"[{min(times):.3f}..{max(times):.3f}] of {_REPEATS}, wall {statistics.median(walls):.3f}, the first "
            f"{times[0]:.3f}; {scheduler.decoding_size()} decoding; calibration {calibration_ms():.2f} ms"
        )
        yield Line("K1", case, statistics.median(times), "ms CPU", 1.0, note=note)


def _decoding(shared: int, pool: int) -> tuple[Any, Loop]:
    options: SchedulerOptions = replace(steady_options(_REQUESTS, 0), num_device_pages=pool, max_scheduled_tokens=65536)
    loop = Loop(twin(), Load(options, _REQUESTS, _REQUESTS, _TOKENS, 1000, declared=False, shared_tokens=shared))
    while loop.scheduler.decoding_size() < _REQUESTS:
        loop.round()
    return loop.scheduler, loop
