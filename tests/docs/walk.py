"""Open a trace as a command line says, press keys in the real application, and read or draw what stands there."""

from __future__ import annotations

import io
import shlex
import threading
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import patch

from textual.pilot import Pilot
from textual.screen import Screen

from tests.tui.helpers import main_screen, screen_text, settle
from tsviz.cli.main import cli
from tsviz.tui.app import DebuggerApp
from tsviz.tui.screens.pages import PagesScreen

SIZE = (140, 42)
_PATIENCE_S = 90.0
_QUIET_S = 0.15


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def app_of(command: str) -> DebuggerApp:
    """Return the application that a command line (`tsviz open ...`, `tsviz demo ...`) would run on a terminal."""
    made: list[DebuggerApp] = []

    def run(view: Any, **options: Any) -> None:
        made.append(DebuggerApp(view, **options | {"theme": "tsviz-dark"}))

    program, *arguments = shlex.split(command)
    assert program == "tsviz", command
    with (
        patch("tsviz.tui.app.run", run),
        patch("tsviz.tui.terminal.require_terminal", lambda: None),
        patch("tsviz.tui.leaving.threads_left", list),  # whoever else has one in this process must not end it
        patch("sys.stdin", _Terminal()),
        patch("sys.stderr", _Terminal()),
    ):
        cli.main(arguments, standalone_mode=False)
    return made[0]


def _at_work(screen: Screen[Any]) -> bool:
    if isinstance(screen, PagesScreen) and screen.scene.live_words.startswith("re-executing"):
        return True
    return any(t.name.startswith("tsviz-") and t.name != "tsviz-fetch" for t in threading.enumerate())


async def _rest(pilot: Pilot[None]) -> None:
    """Wait until nothing is fetched and no job (findings, lost time, a query, live pages) is at work for a moment."""
    until, quiet = time.monotonic() + _PATIENCE_S, 0.0
    while quiet < _QUIET_S:
        await settle(pilot)
        await pilot.pause(0.05)
        quiet = 0.0 if _at_work(pilot.app.screen) else quiet + 0.05
        assert time.monotonic() < until, "a job did not come to an end"
    await settle(pilot)


@asynccontextmanager
async def walked(command: str, keys: Iterable[str], size: tuple[int, int] = SIZE) -> AsyncIterator[Pilot[None]]:
    """Open, press, and wait behind each key until its answer is there."""
    app = app_of(command)
    async with app.run_test(size=size) as pilot:
        await _rest(pilot)
        await pilot.pause(0.8)
        await _rest(pilot)
        for key in keys:
            await pilot.press(key)
            await _rest(pilot)
        yield pilot


__all__ = ["SIZE", "app_of", "main_screen", "screen_text", "walked"]
