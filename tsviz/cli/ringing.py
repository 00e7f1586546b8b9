"""The options of a flight recorder, and its keepers: one process for every ring that a command records."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .exit_codes import CliError, ExitCode
from .output import tell

if TYPE_CHECKING:
    from tsviz.trace.ring import RingOptions

F = TypeVar("F", bound=Callable[..., Any])
_STARTS = 3
_FINISH_SECONDS = 120.0
"""How long a keeper is waited for that writes out what is kept; it goes on without being waited for."""
_SAY_SECONDS = 2.0
"""After so long it is said what is waited for."""


def ring_options(function: F) -> F:
    """Add `--ring`, `--trigger` and `--keep`; they arrive as `ring`, `trigger` and `keep`."""
    for option in (
        click.option("--keep", type=click.IntRange(min=1), default=8, show_default=True,
                     help="With --ring: how many traces stay; older ones are removed."),
        click.option("--trigger", multiple=True, metavar="WHEN",
                     help="With --ring: write what is kept to OUT, OUT.2, ... at sql:PREDICATE, finding:NAME[>N],"
                     " signal:USR2, http:PORT, end. A crash always counts. Default: end."),
        click.option("--ring", metavar="60s|200MB", help="Keep only so much, in whole quarters (a flight recorder)."),
    ):  # fmt: skip
        function = option(function)
    return function


def ring_of(ring: str | None, triggers: tuple[str, ...], keep: int, level: str) -> RingOptions | None:
    """Return what the options ask for; None for a recording of everything. Raises CliError."""
    if ring is None:
        if triggers:
            raise CliError(ExitCode.USAGE, "--trigger needs --ring")
        return None
    from tsviz.replay.ring.triggers import BadTrigger, check
    from tsviz.trace.ring import RingOptions, parse_ring

    try:
        seconds, size = parse_ring(ring)
        check(list(triggers), level)
    except (ValueError, BadTrigger) as error:
        raise CliError(ExitCode.USAGE, f"--ring, --trigger: {error}") from error
    return RingOptions(seconds, size, triggers, keep)


def signals_of(ring: RingOptions | None) -> list[signal.Signals]:
    """Return the signals that have the kept part written out."""
    from tsviz.replay.ring.triggers import number_of

    texts = ring.triggers if ring is not None else ()
    named = [number_of(text.removeprefix("signal:")) for text in texts if text.startswith("signal:")]
    return [number for number in named if number is not None]


def nothing_kept(rings: list[Path]) -> str:
    """Return why rings that have ended wrote no trace."""
    left = [str(home) for home in rings if home.is_dir()]
    if left:
        return f"nothing was written out; what is left is in {', '.join(left)}"
    return "no trigger fired; nothing was kept"


class Keepers:
    """Keepers of the rings of one command. One that ends before its recording is started again, a few times."""

    def __init__(self, *, told: bool = False) -> None:
        """`told`: the first ring is the program's, whose exit code `wait` is given."""
        self._told = told
        self._processes: dict[Path, subprocess.Popen[bytes]] = {}
        self._starts: dict[Path, int] = {}

    def look(self, homes: list[Path]) -> None:
        """Start what is missing."""
        from tsviz.trace.layout import RING_FILE
        from tsviz.trace.ring import start_keeper

        for home in homes:
            process = self._processes.get(home)
            running = process is not None and process.poll() is None
            if running or self._starts.get(home, 0) == _STARTS or not (home / RING_FILE).exists():
                continue
            self._starts[home] = self._starts.get(home, 0) + 1
            try:
                self._processes[home] = start_keeper(home, told=self._told and home == homes[0])
            except OSError as error:
                tell(f"tsviz: no keeper for {home}: {error}")

    def pull(self, reason: str) -> None:
        """Have every ring written out."""
        from tsviz.replay.ring.http import pull

        for home in self._processes:
            if home.is_dir():
                pull(home, reason)

    def wait(self, status: int = 0, *, patience_s: float | None = _FINISH_SECONDS) -> list[str]:
        """Wait for all of them to write out what they do at the end; return what is to be said of those that did not.

        `status`: the exit code of the program, or minus the number of the signal that killed it. `patience_s`: so long
        at most; None: as long as it takes, where nothing but this command waits.
        """
        from tsviz.trace.ring import NOTHING_KEPT, OTHER_KEEPER

        for process in self._processes.values():
            if process.stdin is not None:
                with contextlib.suppress(OSError):  # it ended before
                    process.stdin.write(str(status).encode())
                    process.stdin.close()
        said = []
        began = time.monotonic()
        until = math.inf if patience_s is None else began + patience_s
        most = "ctrl-C leaves it at work" if patience_s is None else f"{patience_s:.0f} s at most"
        for home, process in self._processes.items():
            waiting = False
            while process.poll() is None and time.monotonic() < until:
                try:
                    process.wait(1.0)
                except subprocess.TimeoutExpired:
                    if not waiting and time.monotonic() - began >= _SAY_SECONDS:
                        waiting = True
                        words = f"waiting for the keeper of {home} to look at the rest and write out what is kept"
                        tell(f"tsviz: {words} ({most})")
            if process.poll() is None:
                said.append(f"{home}: its keeper (process {process.pid}) still writes out what is kept")
            elif process.returncode == OTHER_KEEPER:
                said.append(f"{home}: another process keeps it")
            elif process.returncode == NOTHING_KEPT:
                said.append(f"{home}: the recording ended early, and nothing had been committed")
            elif home.is_dir():
                said.append(f"{home}: its keeper ended early{_why(home)}: `tsviz repair` makes a trace of it")
        return said


def _why(home: Path) -> str:
    """Return what a keeper said last, or that it had no room to; empty where nothing is known."""
    from tsviz.trace.ring import KEEPER_LOG

    try:
        words = (home / KEEPER_LOG).read_text("utf-8", "replace").strip().rpartition("\n")[2]
        room = os.statvfs(home)
    except OSError:
        return ""
    if not room.f_bavail or (room.f_files and not room.f_favail):
        return " (there is no room on the disk)"
    return f" ({words[:200]})" if words else ""
