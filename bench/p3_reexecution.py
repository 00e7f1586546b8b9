"""P3: rounds a second of re-execution (`verify`, `derive`) on the twin, as part of those of the scheduler alone.

Alone: the same calls on a fresh scheduler, read from the trace and held in memory beforehand, plans thrown away unread.
Recording, reading the trace once and compiling nothing are outside the clock of that side; `verify` and `derive` are
timed whole, as `tsviz verify` and `tsviz index` call them.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tsviz.replay.reexecution.call_log import Call, CallLog
from tsviz.replay.reexecution.derive import derive
from tsviz.replay.reexecution.verify import verify
from tsviz.trace import entries as e
from tsviz.trace.api_events import make_execution_event, make_spec
from tsviz.trace.config import build_config
from tsviz.trace.reader import Bundle, Part
from tsviz.trace.tokens import FULL, IDENTITY

from .measure import Line
from .runs import mooncake, run_recorded, scratch
from .schedulers import Took, measured, twin
from .steady import steady_options, steady_workload

_ROWS, _OUTPUT_TOKENS, _PAIRS = 64, 400, 3
_MOONCAKE_ROWS = 100


def figures() -> Iterator[Line]:
    """Yield re-executed / alone in rounds a second of CPU time, a case and a token mode."""
    cases = {f"{_ROWS} rows": (steady_options(_ROWS, _OUTPUT_TOKENS), steady_workload(_ROWS, _OUTPUT_TOKENS))}
    sample = mooncake(_MOONCAKE_ROWS)
    if sample is None:
        yield Line("P3", "mooncake: the sample is not at hand", float("nan"), "")
    else:
        cases[f"mooncake, {_MOONCAKE_ROWS} requests"] = sample
    for (name, case), tokens in itertools.product(cases.items(), (IDENTITY, FULL)):
        with scratch() as directory:
            run_recorded(*case, directory / "bundle", tokens, compacted=True)
            yield from _lines(f"{name}, {tokens}", Bundle(directory / "bundle").parts[0], directory)


def _lines(name: str, part: Part, directory: Path) -> Iterator[Line]:
    calls = list(CallLog(part))
    rounds = part.rows("rounds")
    numbers = itertools.count()

    def deriving() -> None:
        found = derive(part, directory / str(next(numbers)))
        _check(name, found.verified_rounds, rounds)

    def verifying() -> None:
        _check(name, verify(part, twin()).verified_rounds, rounds)

    alone = _timed(lambda: _alone(part, calls), rounds)
    for what, run in (("verify", verifying), ("derive", deriving)):
        found = measured(_timed(run, rounds), alone, _PAIRS)
        again = 1e9 / found.cpu.base_median
        note = f"{again:.0f} against {1e9 / statistics.median(found.cpu.other):.0f} rounds/s; {found.note}"
        yield Line("P3", f"{what}, {name}", found.cpu.ratio, "of rounds/CPU s", 0.8, at_least=True, note=note)


def _check(name: str, verified: int, rounds: int) -> None:
    if verified != rounds:
        raise RuntimeError(f"P3 {name}: expected {rounds} rounds verified, found {verified}")


def _timed(run: Callable[[], None], rounds: int) -> Callable[[], Took]:
    def took() -> Took:
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        run()
        return Took((time.thread_time_ns() - cpu) / rounds, (time.perf_counter_ns() - wall) / rounds)

    return took


def _alone(part: Part, calls: Sequence[Call]) -> None:
    module = twin()
    scheduler = module.Scheduler(build_config(module, part.config))
    for call in calls:
        match call.kind:
            case e.PLAN:
                scheduler.next_execution_plan()
            case e.ADVANCE:
                scheduler.advance(make_execution_event(module, call.events))
            case e.SUBMIT:
                scheduler.submit_requests([make_spec(module, spec) for spec in call.specs])
