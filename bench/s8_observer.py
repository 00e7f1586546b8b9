"""S8: what it costs that the twin can be asked why: nobody listens; somebody does; decisions are recorded.

"Nobody listens" is a copy of the twin against a copy of which everything was stripped that serves an observer; two
copies as they are stand beside it, to show what such a comparison can resolve.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from tsviz.adapters.tokenspeed import recording_module
from tsviz.trace.recorder import Recorder

from .measure import Line, Paired
from .s8_stripped import copied
from .schedulers import Took, measured, rounds, twin
from .steady import PAGE_TOKENS, Steady, steady_options

_ROWS = {64: (16, 32), 256: (16, 12)}
"""Rounds of a stretch and pairs, by rows."""


def figures() -> Iterator[Line]:
    """Yield percents of a round."""
    plain, again = copied("bench_twin_as_is", stripped=False), copied("bench_twin_again", stripped=False)
    stripped = copied("bench_twin_stripped", stripped=True)
    for rows in _ROWS:
        absent, control = _compare(rows, stripped, plain), _compare(rows, again, plain)
        yield Line("S8", f"{rows} rows, nobody listens", *_percent(absent), 1.0, note=_note(absent))
        yield Line("S8", "  two equal copies", *_percent(control), note=_note(control))
        told: list[Any] = []
        listening = _compare(rows, plain, _Observed(plain, told), told.clear)
        yield Line("S8", f"{rows} rows, an observer keeps all", *_percent(listening), note=_note(listening))
        recorder = Recorder(time.monotonic_ns)
        for level, observed in (("plans", False), ("decisions", True)):
            module = recording_module(twin(), partial(_same, recorder), observed=observed)
            pair = _compare(rows, plain, module, partial(_forget, recorder))
            budget = 25.0 if observed else None
            yield Line("S8", f"{rows} rows, recorded, {level}", *_percent(pair), budget, note=_note(pair))


def _same(recorder: Recorder, _: Any) -> Recorder:
    return recorder


def _forget(recorder: Recorder) -> None:
    recorder.take(recorder.waiting_entries())


class _Observed:
    """A module's names, its scheduler told to tell."""

    def __init__(self, module: Any, told: list[Any]) -> None:
        self._module, self._told = module, told

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def Scheduler(self, config: Any) -> Any:
        """A scheduler whose decisions are kept in a list."""
        keep = self._told.append
        return self._module.Scheduler(config, observer=lambda *decided: keep(decided))


def _compare(rows: int, base: Any, other: Any, forget: Callable[[], Any] = lambda: None) -> Paired:
    count, pairs = _ROWS[rows]
    growth = count * (pairs + 1) + 64
    options = steady_options(rows, growth)
    sides = [Steady(module, rows, growth, options=options, staggered=True, declared=False) for module in (base, other)]
    for side in sides:
        side.rounds(PAGE_TOKENS)
    first, second = (rounds(side, count) for side in sides)

    def forgetting() -> Took:
        forget()
        took = second()
        forget()
        return took

    return measured(first, forgetting, pairs).cpu


def _percent(pair: Paired) -> tuple[float, str]:
    return (pair.ratio - 1) * 100, "% of round"


def _note(pair: Paired) -> str:
    return f"{pair.difference / 1e3:+.2f} us on {pair.base_median / 1e3:.1f} us; {pair.spread}"
