"""S4: what a blocked prompt costs a round: 64 rows decode, slots are free, the pool is not.

The waiting prompts declare a budget of 4,096 tokens, so that their first chunk needs pages for prompt and budget. In
the case "pool full" the rows have prepaid their pages and nothing in the pool changes; in "pool changing" they take
pages as they go, from a rest that is too small for any waiting prompt: every round must ask again. The figure is the
difference of a round with the prompts waiting and the same round without, a prompt; the first round, which hashes
them, is not in it and stands in the note.
"""

from __future__ import annotations

import statistics
from array import array
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tsviz.engine.configs import SchedulerOptions
from tsviz.engine.workloads.model import invented_tokens

from .measure import Line
from .recorded import real
from .schedulers import measured, rounds, twin
from .steady import ONE_GROUP, PAGE_TOKENS, Steady, steady_options

_ROWS, _WAITING, _BUDGET_TOKENS = 64, 1000, 4096
_ROUNDS = {"twin": (8, 5), "real": (2, 3)}
"""Rounds of a stretch and pairs; 5 * 8 rounds and those before them take fewer pages than any prompt needs."""


def figures() -> Iterator[Line]:
    """Yield us a blocked prompt and round: twin (budget 0.3), and the real package for comparison."""
    for prompt_tokens in (256, 4096):
        for changing in (False, True):
            for name, module in (("twin", twin()), ("real", real())):
                yield _line(name, module, prompt_tokens, changing)


def _line(name: str, module: Any, prompt_tokens: int, changing: bool) -> Line:
    count, pairs = _ROUNDS[name]
    without, waiting = (_side(module, changing) for _ in range(2))
    waiting.scheduler.submit_requests([_blocked(module, n, prompt_tokens) for n in range(_WAITING)])
    first = rounds(waiting, 1)()
    without.rounds(3), waiting.rounds(2)
    found = measured(rounds(without, count), rounds(waiting, count), pairs)
    if waiting.scheduler.waiting_size() != _WAITING or waiting.scheduler.decoding_size() != _ROWS:
        raise RuntimeError(f"S4: expected {_WAITING} waiting and {_ROWS} decoding, found {waiting.scheduler}")
    each = sorted((o - b) / _WAITING / 1e3 for b, o in zip(found.cpu.base, found.cpu.other, strict=True))
    case = f"{name}, {prompt_tokens} tokens, pool {'changing' if changing else 'full'}"
    note = (
        f"[{each[0]:.3f}..{each[-1]:.3f}] of {pairs} pairs, wall {found.wall.difference / _WAITING / 1e3:.3f}; "
        f"round without {found.cpu.base_median / 1e3:.4g} us; first round {first.cpu_ns / _WAITING / 1e3:.3g} us a "
        f"prompt; calibration {found.cpu.calibration_ms:.2f} ms"
    )
    unit = "us a blocked prompt"
    return Line("S4", case, statistics.median(each), unit, 0.3 if name == "twin" else None, note=note)


def _side(module: Any, changing: bool) -> Steady:
    growth = 64
    options = replace(_full_pool(growth, changing), max_batch_size=_ROWS + _WAITING)
    side = Steady(module, _ROWS, growth, options=options, staggered=True, declared=not changing)
    side.rounds(2)
    return side


def _full_pool(growth: int, changing: bool) -> SchedulerOptions:
    """Return a pool of what the rows need until the end, and the null page."""
    options = steady_options(_ROWS, growth, ONE_GROUP)
    pages = sum(-(-(1024 + row % PAGE_TOKENS + growth + 1) // PAGE_TOKENS) for row in range(_ROWS))
    return replace(options, num_device_pages=pages + 1)


def _blocked(module: Any, number: int, prompt_tokens: int) -> Any:
    spec = module.RequestSpec()
    spec.request_id = f"waiting-{number}"
    spec.tokens = array("i", invented_tokens(10_000 + number, 0, prompt_tokens).tobytes())
    spec.max_new_tokens = _BUDGET_TOKENS
    return spec
