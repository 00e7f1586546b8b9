"""R1: what the recording proxy costs on the loop thread; the writer does not run, entries are collected only."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from .measure import Line, Paired, interleave
from .recorded import collecting, real
from .steady import Steady

_PAIRS, _GROWTH_TOKENS = 40, 4000
_ROUNDS = {1: 60, 16: 60, 64: 48, 256: 24}


def figures() -> Iterator[Line]:
    """Yield per number of rows the cost in percent of the bare round, and the fixed cost from the line at one row."""
    for keep in (False, True):
        how = ", events held by a name" if keep else ""
        for rows, rounds in _ROUNDS.items():
            pair = compare(rows, rounds, keep_events=keep)
            note = f"{pair.difference / 1e3:+.2f} us on {pair.base_median / 1e3:.1f} us; {pair.spread}"
            percent = (pair.ratio - 1) * 100
            yield Line("R1", f"{rows} rows{how}", percent, "% of round", 5.0 if rows >= 64 else None, note=note)
            if rows == 1 and not keep:
                yield Line("R1", "fixed, from 1 row", pair.difference / 1e3, "us", 2.0)


def compare(rows: int, rounds: int, *, keep_events: bool) -> Paired:
    """Return median nanoseconds a round, bare and recorded."""
    module, forget = collecting()
    bare = Steady(real(), rows, _GROWTH_TOKENS, keep_events=keep_events)
    recorded = Steady(module, rows, _GROWTH_TOKENS, keep_events=keep_events)

    def other() -> float:
        value = statistics.median(recorded.rounds(rounds))
        forget()
        return value

    return interleave(lambda: statistics.median(bare.rounds(rounds)), other, _PAIRS)
