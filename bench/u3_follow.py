"""U3: a recording that grows, followed on the screen: CPU of a refresh, memory, and keys while refreshes run.

`python -m bench.u3_follow TRACE [--behind 90000] [--rounds 600] [--every 0.9] [--seconds 60]` lets a copy of TRACE grow
(`bench/growing.py`) and opens it with `--follow` at 200x60 on a pty. Keys do not pause: the next request, zoom.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tsviz.trace.hot import HotTables

from .measure import Line
from .u1_step import Terminal

_KEYS = (("next request", b"jk"), ("zoom", b"+-"))


def figures(trace: str, behind: int, rounds: int, every_s: float, seconds: float) -> Iterator[Line]:
    """Yield the figures of one recording that is `behind` rounds long when it is opened."""
    with tempfile.TemporaryDirectory() as home:
        grown = str(Path(home) / "grown")
        words = ["--behind", str(behind), "--rounds", str(rounds), "--every", str(every_s)]
        writer = subprocess.Popen([sys.executable, "-m", "bench.growing", trace, grown, *words])
        try:
            _wait_for(Path(grown), behind)
            yield from _of(Terminal(grown, "--follow"), Path(grown), seconds)
        finally:
            writer.kill()
            writer.wait()


def _wait_for(grown: Path, behind: int) -> None:
    while not list(grown.glob("parts/*/hot/commits.jsonl")):
        time.sleep(0.1)
    (hot,) = grown.glob("parts/*/hot")
    while HotTables(hot).last_round < behind:
        time.sleep(0.2)


def _of(terminal: Terminal, grown: Path, seconds: float) -> Iterator[Line]:
    terminal.settle(4.0)
    yield Line("U3", "CPU to open, in all", terminal.cpu_ms(), "ms")
    yield Line("U3", "memory when opened", terminal.memory_mb("VmRSS"), "MB")
    idle, begun = terminal.cpu_ms(), time.monotonic()
    terminal.settle_for(seconds / 3)
    took = time.monotonic() - begun
    yield Line("U3", "CPU a second, following", (terminal.cpu_ms() - idle) / took, "ms")
    for name, key in _KEYS:
        firsts, until, step = [], time.monotonic() + seconds / 3, 0
        while time.monotonic() < until:
            first, _, size = terminal.press(key[step % len(key) :][:1])
            step += 1
            if size:
                firsts.append(first)
            time.sleep(0.1)
        firsts.sort()
        yield Line("U3", f"{name}, p50 to the first byte", statistics.median(firsts), "ms", 20.0, note=f"{len(firsts)}")
        yield Line("U3", f"{name}, p95 to the first byte", firsts[int(len(firsts) * 0.95)], "ms", 50.0)
    yield Line("U3", "memory at most", terminal.memory_mb("VmHWM"), "MB", 400.0)
    terminal.close()


def main() -> None:
    """Print the figures of one trace."""
    parser = argparse.ArgumentParser(prog="python -m bench.u3_follow", description=__doc__)
    parser.add_argument("trace")
    parser.add_argument("--behind", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=600)
    parser.add_argument("--every", type=float, default=0.9)
    parser.add_argument("--seconds", type=float, default=60.0)
    told = parser.parse_args()
    for line in figures(told.trace, told.behind, told.rounds, told.every, told.seconds):
        sys.stdout.write(f"{line.case:44} {line.value:9.2f} {line.unit} {line.verdict:7} {line.note}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
