"""U2: the whole application on a large trace: its first paint, `--help`, and its memory while one looks around.

The trace is the one that `TSVIZ_BENCH_TRACE` names (the live-lock that ships without it), on a pty of 200x60 cells. The
clock begins with the process; the first paint ends with the header that names the trace, the first round with the heads
of its requests. Memory is the most that the process held, its children apart. `python -m bench u2`.
"""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from .measure import Line
from .p1_recorded import TRACE
from .u1_step import TRACE as SHIPPED
from .u1_step import Terminal

_OPENINGS = 5
_PATIENCE_S = 60.0
_LOOKS = (
    b"n",
    b"n",
    b"s",
    b"s",
    b"S",
    b"p",
    b"j",
    b"j",
    b"k",
    b"N",
    b"P",
    b"+",
    b"+",
    b"-",
    b"0",
    b"w",
    b"t",
    b"T",
    b"T",
)
_SHARES = 40
_BETWEEN_S = 0.05


def figures() -> Iterator[Line]:
    """Yield first paint, the first round, `--help` and memory."""
    trace = os.environ.get(TRACE) or SHIPPED
    name = Path(trace.partition("@")[0]).name
    paints, rounds = [], []
    for _ in range(_OPENINGS):
        terminal = Terminal(trace)
        begun = time.perf_counter()
        paints.append(_until(terminal, (name.encode(),), begun))
        rounds.append(_until(terminal, (b"computed", b"gen"), begun))
        terminal.close()
    yield Line("U2", "first paint: the header names the trace", statistics.median(paints), "s", 0.6,
               note=f"first round {statistics.median(rounds):.2f} s")  # fmt: skip
    helped = statistics.median([_help() for _ in range(_OPENINGS)])
    yield Line("U2", "--help", helped * 1e3, "ms", 150.0)
    terminal = Terminal(trace)
    terminal.settle(4.0)
    opened = _most_mb(terminal.pid)
    for look in range(_SHARES):
        terminal.type(b"g%d%%\r" % (look * 37 % 100))
        for key in _LOOKS:
            terminal.press(key, 0.3)
            time.sleep(_BETWEEN_S)
    terminal.settle(2.0)
    many = _SHARES * len(_LOOKS)
    yield Line("U2", "memory of the application, opened", opened, "MB", 400.0)
    yield Line("U2", f"memory of the application behind {many} looks", _most_mb(terminal.pid), "MB", 400.0)
    terminal.close()


def _until(terminal: Terminal, words: tuple[bytes, ...], begun: float) -> float:
    """Return seconds until one of the words was written."""
    while time.perf_counter() - begun < _PATIENCE_S:
        if select.select([terminal.fd], [], [], 1.0)[0]:
            terminal.seen += os.read(terminal.fd, 1 << 16)
        if any(word in terminal.seen for word in words):
            return time.perf_counter() - begun
    return float("nan")


def _help() -> float:
    begun = time.perf_counter()
    code = "from tsviz.cli.main import main; main()"
    subprocess.run([sys.executable, "-c", code, "--help"], check=True, capture_output=True)
    return time.perf_counter() - begun


def _most_mb(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) / 1024
