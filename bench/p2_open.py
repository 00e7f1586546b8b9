"""P2: opening a large trace, to its first answer and in memory: a process of its own for every opening.

The trace is the one that `TSVIZ_BENCH_TRACE` names. *Indexed*: its compact bases are there. *Never seen*: they are not;
the first answer then has all but the requests, and a process builds the bases meanwhile (stopped here).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping

from tsviz.replay.recorded.bases import make_bases
from tsviz.trace.reader import open_bundle

from .measure import Line
from .p1_recorded import TRACE

_TIMES = 5
_PROBE = """
import json, sys, time
from tsviz.trace.reader import open_bundle
from tsviz.replay.view import open_view

def most():  # not getrusage: its figure is inherited from the process that started this one
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024

imported = time.process_time()
began = time.perf_counter()
view = open_view(open_bundle(sys.argv[1]), wait=False)
shown = view.snapshot(view.head.rounds // 2)
wall, cpu = time.perf_counter() - began, time.process_time() - imported
first = most()
rounds = view.head.rounds
if shown.preparing is None:
    for step in range(300):
        view.snapshot(1 + step * 7919 % rounds, shown.rows[0].submission if shown.rows else None)
    lanes = view.lanes(1, rounds)
    view.timeline(1, rounds, 190, [lane.submission for lane in lanes[:40]])
    view.marks(1, rounds, 190), view.pool_history(1, rounds, 190)
last = most()
print(json.dumps({"import": imported, "wall": wall, "cpu": cpu, "first": first, "last": last}))
"""


def figures() -> Iterator[Line]:
    """Yield time and memory of openings, indexed and never seen."""
    named = os.environ.get(TRACE)
    if not named:
        yield Line("P2", f"set {TRACE} to a large trace", float("nan"), "")
        return
    make_bases(open_bundle(named).parts[0])
    probes = [_probe(named, os.environ) for _ in range(_TIMES)]
    yield from _lines("indexed", probes)
    yield Line("U2", "memory after 300 random looks and a timeline", _median(probes, "last"), "MB", 400)
    yield Line("P2", "imports, before the clock", _median(probes, "import") * 1e3, "CPU ms")
    fresh = []
    for _ in range(_TIMES):
        with tempfile.TemporaryDirectory() as cache:
            fresh.append(_probe(named, os.environ | {"TSVIZ_CACHE": cache}))
    yield from _lines("never seen", fresh)


def _lines(case: str, probes: list[dict[str, float]]) -> Iterator[Line]:
    note = f"wall {_median(probes, 'wall') * 1e3:.0f} ms"
    yield Line("P2", f"open to the first answer, {case}", _median(probes, "cpu") * 1e3, "CPU ms", 300, note=note)
    yield Line("P2", f"memory then, {case}", _median(probes, "first"), "MB", 300)


def _median(probes: list[dict[str, float]], name: str) -> float:
    return statistics.median(probe[name] for probe in probes)


def _probe(trace: str, environment: Mapping[str, str]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", _PROBE, trace], check=True, capture_output=True, text=True, env=dict(environment)
    )
    probe: dict[str, float] = json.loads(done.stdout)
    return probe
