"""R1: what the recording proxy costs on the loop thread; no writer runs, entries are collected and forgotten.

Entries hold plans and events, so memory that a bare loop uses again at once is new to the recorded one. How many
rounds pile up before a writer takes them therefore matters: both ends are shown, a writer that keeps up (forgotten
every round) and one that comes late (every 30 rounds).
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator

from .measure import Line, Paired, interleave, joined
from .recorded import collecting, real
from .steady import Steady

_ROUNDS, _PAIRS, _BUILDS = 30, 6, 4
_GROWTH_TOKENS = _ROUNDS * _PAIRS + 64


def figures() -> Iterator[Line]:
    """Yield per number of rows the cost in percent of the bare round, and the fixed cost: that of one row."""
    for keep, every in ((False, 1), (False, _ROUNDS), (True, 1)):
        how = f", {every} rounds held" + (", events held by a name" if keep else "")
        for rows in (1, 16, 64, 256):
            pair = compare(rows, every, keep_events=keep)
            note = f"{pair.difference / 1e3:+.2f} us on {pair.base_median / 1e3:.1f} us; {pair.spread}"
            percent = (pair.ratio - 1) * 100
            yield Line("R1", f"{rows} rows{how}", percent, "% of round", 5.0 if rows >= 64 else None, note=note)
            if rows == 1 and not keep:
                yield Line("R1", f"fixed (1 row){how}", pair.difference / 1e3, "us", 2.0)


def compare(rows: int, every: int, *, keep_events: bool) -> Paired:
    """Return median nanoseconds a round, bare and recorded, on schedulers that are built anew now and then."""
    parts = []
    for _ in range(_BUILDS):
        module, forget = collecting()
        bare = Steady(real(), rows, _GROWTH_TOKENS, keep_events=keep_events)
        recorded = Steady(module, rows, _GROWTH_TOKENS, keep_events=keep_events)
        bare.rounds(16), recorded.rounds(16)

        def other(recorded: Steady = recorded, forget: Callable[[], None] = forget) -> float:
            times = []
            for _ in range(_ROUNDS // every):
                forget()
                times += recorded.rounds(every)
            forget()
            return statistics.median(times)

        def base(bare: Steady = bare) -> float:
            return statistics.median(t for _ in range(_ROUNDS // every) for t in bare.rounds(every))

        parts.append(interleave(base, other, _PAIRS))
    return joined(parts)
