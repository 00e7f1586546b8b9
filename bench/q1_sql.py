"""Q1: SQL over a million-round trace: an aggregate over all operations, one round of them, memory.

`TSVIZ_LARGE` names the bundle (`python -m bench.large OUT` records one, `python -m bench.tiled` repeats one). Asked in
this process, on the locked connection of `tsviz sql`, warm; rounds are drawn from a fixed seed. The first look-up in a
row group reads its pages with their checksums, which the ones behind it do not: both are shown.
"""

from __future__ import annotations

import os
import random
import resource
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.replay.reexecution.index import open_indexed

from .calibration import calibration_ms
from .measure import Line

LARGE = "TSVIZ_LARGE"
"""The environment variable that names a large bundle."""
_LOOK_UPS, _REPEATS = 200, 5
_AGGREGATE = "SELECT kind, count(*), sum(input_tokens) FROM operations GROUP BY kind"


def large() -> Path | None:
    """Return the large bundle to measure on; None if none is named."""
    named = os.environ.get(LARGE)
    return Path(named) if named else None


def figures() -> Iterator[Line]:
    """Yield seconds of an aggregate, milliseconds of a round, megabytes of the process."""
    path = large()
    if path is None:
        yield Line("Q1", f"{LARGE} names no bundle", float("nan"), "")
        return
    locked = Locked(Catalog([open_indexed(path)]), Limits(rows=None, seconds=None))
    rows, last = locked.query("SELECT count(*), max(round) FROM operations")[0].to_pylist()[0].values()
    wall, busy = _timed(locked, [_AGGREGATE] * _REPEATS)
    note = f"{busy:.2f} s CPU; calibration {calibration_ms():.2f} ms"
    yield Line("Q1", f"aggregate over {rows:,} operation rows", wall, "s", 0.5, note=note)
    draw = random.Random(1)
    for name, columns in (("all columns", "*"), ("two columns", "request, kind")):
        asked = [f"SELECT {columns} FROM operations WHERE round = {draw.randint(1, last)}" for _ in range(_LOOK_UPS)]
        first, _ = _timed(locked, asked)
        wall, busy = _timed(locked, asked)
        note = (
            f"{1e3 * busy:.1f} ms CPU; {1e3 * first:.1f} ms with first look-ups; calibration {calibration_ms():.2f} ms"
        )
        yield Line("Q1", f"one round, {name}, median of {_LOOK_UPS}", 1e3 * wall, "ms", 10, note=note)
    yield Line("Q1", "most memory of the process", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MB", 600)
    locked.close()


def _timed(locked: Locked, asked: list[str]) -> tuple[float, float]:
    """Ask each and return the medians of the seconds that they take, on the wall and of CPU."""
    walls, busy = [], []
    for sql in asked:
        start, before = time.perf_counter(), time.process_time()
        locked.query(sql)
        walls.append(time.perf_counter() - start)
        busy.append(time.process_time() - before)
    return statistics.median(walls), statistics.median(busy)
