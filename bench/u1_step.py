"""U1: a step of the debugger, from the key to the bytes on the terminal, at 200x60 on a pty; and the CPU of a frame.

`python -m bench u1` steps through a trace that ships; `python -m bench.u1_step TRACE[@ROUND]` through another. The
key's time ends with the first byte and with the last one before the terminal is quiet. The CPU of a step is that of all
threads of the process, what is fetched ahead included.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import pty
import select
import statistics
import struct
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from .measure import Line

if TYPE_CHECKING:
    from textual.screen import Screen

    from tsviz.tui.widgets.pane import Pane

COLUMNS, ROWS = 200, 60
TRACE = "traces/mixed-undeclared-livelock@2400"
_KEYS = (
    ("round forward", b"n"),
    ("round back", b"p"),
    ("stop forward", b"s"),
    ("next request", b"jk"),
    ("zoom", b"+-"),
)
_STEPS = 30
_QUIET_S = 0.02
_BETWEEN_S = 0.15
_SETTLED_S = 1.5
_PATIENCE_S = 60.0


class Terminal:
    """`tsviz open` on a pty of its own."""

    def __init__(self, trace: str, *options: str) -> None:
        self.pid, self.fd = pty.fork()
        self.seen = b""
        if not self.pid:  # the size is there before the application asks, and its processes find the same tree
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
            os.environ["PYTHONPATH"] = str(Path(__file__).resolve().parents[1])
            os.environ.update(TERM="xterm-256color", COLORTERM="truecolor", SPDLOG_LEVEL="off")
            code = "from tsviz.cli.main import main; main()"
            os.execv(sys.executable, [sys.executable, "-c", code, "open", trace, *options])

    def settle(self, quiet_s: float = _SETTLED_S) -> None:
        """Read until nothing came for a while."""
        until = time.monotonic() + _PATIENCE_S
        seen = False
        while time.monotonic() < until:
            ready, _, _ = select.select([self.fd], [], [], quiet_s)
            if ready:
                seen = bool(os.read(self.fd, 1 << 16))
            elif seen:
                return

    def type(self, keys: bytes) -> None:
        """Press keys one by one, each answered."""
        for key in keys:
            self.press(bytes([key]), 0.3)

    def press(self, key: bytes, patience_s: float = 2.0) -> tuple[float, float, int]:
        """Return milliseconds from a key to the first and to the last byte that answer it, and how many there are."""
        while select.select([self.fd], [], [], 0)[0]:
            os.read(self.fd, 1 << 16)
        begun = time.perf_counter()
        os.write(self.fd, key)
        first = last = begun
        many = 0
        wait_s = patience_s
        while select.select([self.fd], [], [], wait_s)[0]:
            many += len(os.read(self.fd, 1 << 16))
            last = time.perf_counter()
            if first == begun:
                first = last
            wait_s = _QUIET_S
        return (first - begun) * 1e3, (last - begun) * 1e3, many

    def cpu_ms(self) -> float:
        """Return the CPU time of the process so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) * 1e3 / os.sysconf("SC_CLK_TCK")

    def settle_for(self, seconds: float) -> None:
        """Read for so long."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            if select.select([self.fd], [], [], left)[0]:
                os.read(self.fd, 1 << 16)

    def memory_mb(self, name: str) -> float:
        """Return the memory of the process, VmRSS now or VmHWM at most."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        (line,) = (line for line in lines if line.startswith(f"{name}:"))
        return int(line.split()[1]) / 1e3

    def close(self) -> None:
        """Quit."""
        os.write(self.fd, b"\x11")
        with suppress(OSError):  # the terminal is gone when the process is
            self.settle(0.5)
        os.close(self.fd)
        os.waitpid(self.pid, 0)


def figures(trace: str = TRACE) -> Iterator[Line]:
    """Yield the figures of each key, and the CPU of a whole frame."""
    terminal = Terminal(trace)
    terminal.settle(4.0)
    for name, key in _KEYS:
        firsts, lasts, sizes = [], [], []
        before = terminal.cpu_ms()
        for step in range(_STEPS):
            first, last, size = terminal.press(key[step % len(key) :][:1])
            if size:
                firsts.append(first)
                lasts.append(last)
                sizes.append(size)
            time.sleep(_BETWEEN_S)
        if len(sizes) < _STEPS // 2:
            yield Line("U1", f"{name}: {len(sizes)} of {_STEPS} presses were answered", float("nan"), "")
            continue
        cpu = (terminal.cpu_ms() - before) / _STEPS
        note = f"{statistics.median(sizes):,.0f} bytes; last byte p50 {statistics.median(lasts):.1f} ms"
        yield Line("U1", f"{name}, p50 to the first byte", statistics.median(firsts), "ms", 20.0, note=note)
        yield Line("U1", f"{name}, p95 to the first byte", _p95(firsts), "ms", 50.0)
        yield Line("U1", f"{name}, CPU a step, fetching ahead included", cpu, "ms")
    terminal.close()
    anew, again, few = asyncio.run(_frames(trace))
    yield Line("U1", "CPU of a whole frame, every line made anew", anew, "ms", 8.0)
    yield Line("U1", "CPU of a whole frame, its lines drawn before", again, "ms", 8.0)
    yield Line("U1", "CPU of a line in three panes", few, "ms", 1.0)


def _p95(values: Sequence[float]) -> float:
    return sorted(values)[int(len(values) * 0.95)]


async def _frames(trace: str) -> tuple[float, float, float]:
    """Return the median CPU milliseconds of drawing every line anew, every line again, and a line in three panes.

    There is no terminal. What the loop that waits for the frame costs by itself is measured beside it and taken off.
    """
    from tsviz.cli.traces import open_place, parse_place
    from tsviz.replay.view import open_view
    from tsviz.tui.app import DebuggerApp
    from tsviz.tui.widgets.pane import Pane

    place = parse_place(trace)
    bundle, part = open_place(place)
    app = DebuggerApp(open_view(bundle, part.node, part.rank), start_round=place.round or 1)
    found = []
    async with app.run_test(size=(COLUMNS, ROWS)) as pilot:
        await pilot.pause(3.0)
        panes = list(app.screen.query(Pane))
        for what in ("anew", "again", "few"):
            took: dict[str, list[float]] = {what: [], "nothing": []}
            for _ in range(_STEPS):
                for each, times in took.items():
                    begun = time.thread_time()
                    _touch(app.screen, panes, each)
                    await pilot.pause(0.05)
                    times.append((time.thread_time() - begun) * 1e3)
            found.append(statistics.median(took[what]) - statistics.median(took["nothing"]))
    return found[0], found[1], found[2]


def _touch(screen: Screen[object], panes: Sequence[Pane], what: str) -> None:
    from textual.geometry import Region

    for pane in panes if what != "nothing" else ():
        if what == "anew":
            pane.forget_drawn()
        if what != "few":
            pane.refresh()
        elif pane.id in ("requests", "round", "inspector"):
            pane.refresh(Region(0, 5, pane.size.width, 1))
    if what in ("anew", "again"):
        screen.refresh()


if __name__ == "__main__":
    for line in figures(*sys.argv[1:]):
        sys.stdout.write(f"{line.case:44} {line.value:9.2f} {line.unit} {line.verdict:7} {line.note}\n")
