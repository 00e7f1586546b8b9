"""Commands that feed a trace to the real package run in a process of their own, which it may take with it.

A trace may hold calls at which the package aborts its process. So `load_sheltered` does not return in the process that
the user started: that one waits, passes signals on, and says where the other one was if it dies. The other one runs
the same command from its start, and has its streams, its exit code and its way of ending at ctrl-C.
"""

from __future__ import annotations

import importlib.util
import mmap
import os
import signal
import struct
import subprocess
import tempfile
import threading
from types import FrameType
from typing import Any

import click

from tsviz.spawn import python_command, python_environment

from .exit_codes import CliError, ExitCode
from .schedulers import SchedulerMissing, load_scheduler

_VARIABLE = "TSVIZ_SHELTER"
_MARK = struct.Struct("<qq32s")
"""Sequence and round of the call that is being made, and its kind; the kind is empty until there was one."""


class SchedulerDied(CliError):
    """The sheltered process died; the message says at which call."""


def load_sheltered(name: str) -> Any:
    """Return the module with the scheduler API for re-executing a trace; the real package only in a shelter.

    Raises `SchedulerMissing`, and `SchedulerDied` in the process that the user started.
    """
    from tsviz.adapters.tokenspeed import PACKAGE

    context = click.get_current_context(silent=True)
    arguments = None if context is None else context.find_root().obj
    if name != "real" or arguments is None or importlib.util.find_spec(PACKAGE) is None:
        return load_scheduler(name)
    inherited = os.environ.pop(_VARIABLE, None)
    if inherited is None:
        raise SystemExit(_run(arguments))
    return _inside(inherited)


def load_sheltered_or_twin() -> Any:
    """Return the real package, sheltered, where it is installed; else the twin, which makes the same plans."""
    try:
        return load_sheltered("real")
    except SchedulerMissing:
        return load_scheduler("twin")


def _inside(inherited: str) -> Any:
    """Load the package in the sheltered process: it marks every call, and ends when the process outside does."""
    from tsviz.adapters.watched import watched_module

    line, marks = (int(number) for number in inherited.split(","))
    threading.Thread(target=_end_with, args=(line,), daemon=True).start()
    memory = mmap.mmap(marks, _MARK.size)
    pack = _MARK.pack_into
    return watched_module(load_scheduler("real"), lambda seq, round_, kind: pack(memory, 0, seq, round_, kind.encode()))


def _end_with(line: int) -> None:
    """Wait until nobody holds the other end of the line any more, then end this process."""
    os.read(line, 1)
    os._exit(int(ExitCode.INTERRUPTED))


def _run(arguments: list[str]) -> int:
    """Run the command in a sheltered process and return its exit code. Raises `SchedulerDied`."""
    with tempfile.TemporaryFile() as marks:
        marks.truncate(_MARK.size)
        inner, outer = os.pipe()
        try:
            process = subprocess.Popen(
                [*python_command("tsviz"), *arguments], pass_fds=(inner, marks.fileno()),
                env=python_environment() | {_VARIABLE: f"{inner},{marks.fileno()}"}, process_group=0,
            )  # fmt: skip
            signals = _Signals(process)
            try:
                code = process.wait()
            finally:
                signals.restore()
        finally:
            os.close(inner)
            os.close(outer)
        if code >= 0:
            return code
        if signals.interrupts:
            return int(ExitCode.INTERRUPTED)
        marks.seek(0)
        raise SchedulerDied(ExitCode.TRACE_UNREADABLE, _died(-code, *_MARK.unpack(marks.read(_MARK.size))))


def _died(number: int, seq: int, round_: int, kind: bytes) -> str:
    how = signal.Signals(number).name if number in signal.valid_signals() else f"signal {number}"
    name = kind.rstrip(b"\0").decode()
    if not name:
        return f"the process with the real scheduler ended ({how}) before its first call"
    where = f"call {seq} ({name}) of round {round_}" if seq >= 0 else name
    return f"{where}: expected an answer of the real scheduler, found that it ended its process ({how})"


class _Signals:
    """Passes ctrl-C and termination on, twice: what a sheltered process does not hear then ends it at once."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self.interrupts = 0
        self._before = {n: signal.signal(n, self._pass_on) for n in (signal.SIGINT, signal.SIGTERM)}

    def restore(self) -> None:
        """Let signals mean again what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _pass_on(self, number: int, _frame: FrameType | None) -> None:
        self.interrupts += 1
        self._process.send_signal(signal.SIGKILL if self.interrupts > 2 else number)
