"""P1 (recorded): a random position in a large trace, and the windows of its timeline, from compact bases.

The trace is the one that `TSVIZ_BENCH_TRACE` names (1,000,000 rounds of 64 rows: `bench/large.py`, `bench/tiled.py`).
Times are CPU milliseconds of the thread that asks, medians over random positions: nothing waits for anything but the
disk, which is cold in the first figure only by what the cache of the operating system has dropped.
"""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tsviz.replay.recorded.bases import bases_directory, make_bases
from tsviz.replay.recorded.source_bases import BasedTables
from tsviz.replay.view import PartView
from tsviz.trace.reader import Bundle, open_bundle

from .measure import Line

TRACE = "TSVIZ_BENCH_TRACE"
_TIMES, _COLUMNS, _LANES = 400, 190, 40


def figures() -> Iterator[Line]:
    """Yield the figures of the trace at hand."""
    named = os.environ.get(TRACE)
    if not named:
        yield Line("P1", f"set {TRACE} to a large trace", float("nan"), "")
        return
    bundle = open_bundle(named)
    part = bundle.parts[0]
    store = part.cold
    assert store is not None
    began = time.process_time()
    make_bases(part)
    built = time.process_time() - began
    if built > 1:
        yield Line("P1", "building the bases, once", built, "CPU s")
    index, trace = (_bytes(path) for path in (bases_directory(part), part.directory))
    yield Line("P1", "index / trace on disk", index / trace, "x", 1.0, note=f"{index:,} of {trace:,} bytes")

    random_ = random.Random(0)
    view = _view(bundle)
    rounds, source = view.head.rounds, BasedTables(part, store, make_bases(part))

    def anywhere() -> int:
        return random_.randint(1, rounds)

    def selected() -> None:
        round_ = anywhere()
        rows = source.rows(round_)
        view.snapshot(round_, rows[len(rows) // 2].submission if rows else 0)

    yield _cold(bundle, anywhere)
    yield _warm("rows of a random round", lambda: source.rows(anywhere()), 2)
    yield _warm("state of a random round", lambda: view.snapshot(anywhere()), 10)
    yield _warm("the same, block tables of a request with it", selected, 10)
    yield from _steps(view, rounds // 2)
    lanes = [lane.submission for lane in view.lanes(1, rounds)]

    def drawn() -> None:
        first = anywhere()
        view.timeline(first, rounds, _COLUMNS, random_.sample(lanes, min(_LANES, len(lanes))))

    drawn()
    yield _warm(f"a window: {_LANES} lanes of {_COLUMNS} columns", drawn)
    yield _warm("its marks", lambda: view.marks(anywhere(), rounds, _COLUMNS))
    yield _warm("its pool", lambda: view.pool_history(anywhere(), rounds, _COLUMNS))


def _steps(view: PartView, start: int) -> Iterator[Line]:
    """Time steps on and back over stretches of rounds, one after the other, so that both meet the same moments."""
    times: dict[int, list[float]] = {1: [], -1: []}
    at = start
    for stretch in range(40):
        for _ in range(20):
            at += (step := -1 if stretch % 2 else 1)
            began = time.thread_time()
            view.snapshot(at)
            times[step].append((time.thread_time() - began) * 1e3)
    forward, back = (statistics.median(times[step]) for step in (1, -1))
    yield Line("P1", "a step forward", forward, "CPU ms", 10)
    yield Line("P1", "a step back", back, "CPU ms", 10)
    yield Line("P1", "back / forward", back / forward, "x", 1.1)


def _view(bundle: Bundle) -> PartView:
    part = bundle.parts[0]
    store = part.cold
    assert store is not None
    return PartView(bundle, part, source=BasedTables(part, store, make_bases(part)))


def _cold(bundle: Bundle, anywhere: Callable[[], int]) -> Line:
    """Time the first look of views that have nothing decoded yet, their files dropped from the page cache."""
    part = bundle.parts[0]
    times = []
    for _ in range(10):
        view = _view(bundle)
        for folder in (bases_directory(part), part.directory / "cold"):
            for path in folder.iterdir():
                with path.open("rb") as file:
                    os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        began = time.perf_counter()
        view.snapshot(anywhere())
        times.append((time.perf_counter() - began) * 1e3)
    return Line("P1", "state of a random round, cold (wall)", statistics.median(times), "ms", 30)


def _warm(case: str, look: Callable[[], object], budget: float | None = None) -> Line:
    times = []
    for _ in range(_TIMES):
        began = time.thread_time()
        look()
        times.append((time.thread_time() - began) * 1e3)
    times.sort()
    note = f"p90 {times[len(times) * 9 // 10]:.2f}, most {times[-1]:.1f}"
    return Line("P1", case, times[len(times) // 2], "CPU ms", budget, note=note)


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
