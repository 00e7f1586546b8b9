"""P1, live state: the scheduler at random positions of an indexed trace, and at the neighbours, through a session.

Without `TSVIZ_BENCH_TRACE` (a bundle) a trace of 64 rows is recorded and indexed first. Times are of the caller, its
worker running; a neighbour is asked for a quarter of a second later, as a person would.
"""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from tsviz.api import open_trace
from tsviz.replay.live.state import LiveState
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.reexecution.keyframe_files import KeyframeFiles
from tsviz.replay.session import Session

from .large import record_large
from .measure import Line
from .runs import scratch
from .schedulers import twin

_ROUNDS, _POSITIONS, _STEPS = 4_000, 24, 16
_WAIT_SECONDS = 120.0
_PAUSE_SECONDS = 0.25


def figures() -> Iterator[Line]:
    """Yield the mean at random positions, the median at neighbours, back as part of forward, and the index's size."""
    given = os.environ.get("TSVIZ_BENCH_TRACE")
    with scratch() as directory:
        if given is None:
            os.environ["TSVIZ_CACHE"] = str(directory / "cache")
            record_large(directory / "bundle", _ROUNDS, twin())
        yield from _lines(Path(given) if given else directory / "bundle")


def _lines(path: Path) -> Iterator[Line]:
    trace = open_trace(path)
    part = trace.bundles[0].parts[0]
    index = build_index(part)
    frames = KeyframeFiles(index.directory, part)
    name = f"{part.last_round:,} rounds, {len(frames.rounds):,} keyframes"
    with trace.replay() as session:
        _timed(session, 1)
        dice = Random(0)
        jumps = [_timed(session, dice.randint(1, part.last_round)) for _ in range(_POSITIONS)]
        note = f"median {statistics.median(jumps):.0f}, worst {max(jumps):.0f} ms"
        yield Line("P1", f"live state, random position, {name}", statistics.mean(jumps), "ms", 300, note=note)
        middle = part.last_round // 2
        forward = _steps(session, range(middle, middle + _STEPS))
        back = _steps(session, range(middle, middle - _STEPS, -1))
        both = [*forward, *back]
        note = f"worst {max(both):.1f} ms"
        yield Line("P1", "live state, neighbour", statistics.median(both), "ms", 20, note=note)
        ratio = statistics.median(back) / statistics.median(forward)
        yield Line("P1", "live state, back / forward", ratio, "x", note="medians of steps")
    size = sum(file.stat().st_size for file in (index.directory / "keyframes").iterdir())
    whole = sum(file.stat().st_size for file in part.directory.rglob("*") if file.is_file())
    yield Line("P1", "keyframes / trace", size / whole, "of bytes", 0.5, note=f"{size:,} bytes")


def _steps(session: Session, rounds: Sequence[int]) -> list[float]:
    _timed(session, rounds[0])
    times = []
    for round_ in rounds[1:]:
        time.sleep(_PAUSE_SECONDS)
        times.append(_timed(session, round_))
    return times


def _timed(session: Session, round_: int) -> float:
    began = time.perf_counter()
    session.seek(round_)
    found = session.state(_WAIT_SECONDS)
    if not isinstance(found, LiveState) or found.round != round_:
        raise RuntimeError(f"P1: expected the state of round {round_}, found {found}")
    return 1000 * (time.perf_counter() - began)
