"""R3: the proxy on the real scheduler while the writer thread runs, as part of its round.

Rounds come one behind the other with nothing between, so the writer competes for the interpreter all the time; the
mean over a stretch of rounds is compared, since what the writer takes away falls on few rounds. Beside it: the same
with the loop asleep for a while each round, as an engine that waits for its device is.
"""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tsviz.trace.tokens import IDENTITY

from .measure import Line, Paired, interleave, joined
from .recorded import APART, RING, THREAD, real, writing
from .runs import scratch
from .steady import Steady

_BUILDS, _PAIRS = 4, 3
_ROUNDS = {64: 120, 256: 60}
_DEVICE_SECONDS = 0.008


def figures() -> Iterator[Line]:
    """Yield the cost in percent of the bare round at 64 and 256 rows."""
    ways = itertools.product(((0.0, "no pause"), (_DEVICE_SECONDS, "8 ms device")), (APART, RING, THREAD))
    for (pause, how), writer in ways:
        for rows, rounds in _ROUNDS.items():
            with scratch() as directory:
                pair = _compare(rows, rounds, pause, directory, writer)
            note = f"{pair.difference / 1e3:+.2f} us on {pair.base_median / 1e3:.1f} us; {pair.spread}"
            yield Line("R3", f"{rows} rows, {how}, {writer}", (pair.ratio - 1) * 100, "% of round", 5.0, note=note)


def _compare(rows: int, rounds: int, pause: float, directory: Path, how: str) -> Paired:
    numbers = itertools.count()
    growth = rounds * _PAIRS + 64
    parts = []
    for _ in range(_BUILDS):
        module, writer = writing(directory / str(next(numbers)), IDENTITY, how=how)
        bare, recorded = Steady(real(), rows, growth), Steady(module, rows, growth)
        parts.append(interleave(partial(_mean, bare, rounds, pause), partial(_mean, recorded, rounds, pause), _PAIRS))
        writer.close(compacted=False)
    return joined(parts)


def _mean(side: Steady, rounds: int, pause: float) -> float:
    if not pause:
        return statistics.fmean(side.rounds(rounds))
    times = []
    for _ in range(rounds):
        times += side.rounds(1)
        time.sleep(pause)
    return statistics.fmean(times)
