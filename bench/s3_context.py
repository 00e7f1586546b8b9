"""S3: a decode round at 128K context as part of one at 1K, the twin against itself; then against the real package."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .measure import Line
from .recorded import real
from .schedulers import measured, rounds, twin
from .steady import CONTEXT_TOKENS, PAGE_TOKENS, Steady, steady_options

_ROWS, _ROUNDS, _PAIRS = 16, 16, 12
_LONG_TOKENS = 128 * 1024


def figures() -> Iterator[Line]:
    """Yield 128K / 1K on the twin, and how many times faster it is than the real package at 128K (budget: 50)."""
    growth = _ROUNDS * (2 * _PAIRS + 2) + 64

    def side(module: Any, context_tokens: int) -> Steady:
        options = steady_options(_ROWS, growth, context_tokens=context_tokens)
        made = Steady(
            module, _ROWS, growth, options=options, context_tokens=context_tokens, staggered=True, declared=False
        )
        made.rounds(PAGE_TOKENS)
        return made

    short, long, reference = side(twin(), CONTEXT_TOKENS), side(twin(), _LONG_TOKENS), side(real(), _LONG_TOKENS)
    found = measured(rounds(short, _ROUNDS), rounds(long, _ROUNDS), _PAIRS)
    yield Line("S3", f"{_ROWS} rows, 128K context", found.cpu.ratio, "of a round at 1K", 1.15, note=found.note)
    found = measured(rounds(long, _ROUNDS), rounds(reference, _ROUNDS), _PAIRS)
    note = "real: " + found.note
    yield Line("S3", f"{_ROWS} rows, 128K context", found.cpu.ratio, "times faster than real", 50, True, note)
