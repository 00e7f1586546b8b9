"""Reading the screen as text, waiting until it is settled, and comparing it with files."""

from __future__ import annotations

import difflib
import os
import time
from pathlib import Path

from textual.app import App
from textual.pilot import Pilot

from tsviz.tui.app import DebuggerApp
from tsviz.tui.screens.main import MainScreen
from tsviz.tui.widgets.pane import Pane

SCREENS = Path(__file__).parent / "screens"
_PATIENCE_S = 20.0


def main_screen(app: App[None]) -> MainScreen:
    """Return the main screen, whatever lies over it."""
    return next(screen for screen in app.screen_stack if isinstance(screen, MainScreen))


async def settle(pilot: Pilot[None]) -> MainScreen:
    """Wait until nothing is being fetched and everything that was has been shown."""
    screen = main_screen(pilot.app)
    until = time.monotonic() + _PATIENCE_S
    while True:
        await pilot.pause()
        if screen.fetcher.idle:
            await pilot.pause()
            if screen.fetcher.idle:
                return screen
        if time.monotonic() > until:
            raise AssertionError("the fetching thread did not come to rest")
        time.sleep(0.002)


async def rest(pilot: Pilot[None]) -> None:
    """Wait until nothing is fetched and no answer of a job is on its way."""
    screen = await settle(pilot)
    for turn in range(20):
        time.sleep(0.005)
        await pilot.pause()
        # A job that waits at the gate of a test stays at work: that is not waited for longer than this.
        if turn >= 2 and (screen.study is None or not screen.study.jobs.busy):
            break


async def press(pilot: Pilot[None], *keys: str) -> MainScreen:
    """Press keys, the first once the trace is open, and wait until what they asked for is shown."""
    await settle(pilot)
    for key in keys:
        await pilot.press(key)
        await settle(pilot)
    return main_screen(pilot.app)


def screen_text(app: App[None]) -> str:
    """Return the whole screen as lines of text without trailing spaces."""
    width, height = app.size
    lines = app.screen._compositor.render_strips(app.size)
    text = ["".join(segment.text for segment in strip).rstrip() for strip in lines]
    assert len(text) == height
    assert width
    return "\n".join(text) + "\n"


def pane_text(app: DebuggerApp, pane: str) -> str:
    """Return everything a pane holds, also what is scrolled out of sight."""
    document = main_screen(app).query_one(f"#{pane}", Pane).document
    return "\n".join(document.line(y).text for y in range(document.height))


def compare(app: App[None], name: str) -> None:
    """Hold the screen against `screens/NAME.txt`; TSVIZ_UPDATE_SCREENS=1 writes the file instead."""
    path, now = SCREENS / f"{name}.txt", screen_text(app)
    if os.environ.get("TSVIZ_UPDATE_SCREENS"):
        path.write_text(now, encoding="utf-8")
        return
    assert path.exists(), f"{path.name} does not exist: look at the screen, then run with TSVIZ_UPDATE_SCREENS=1\n{now}"
    was = path.read_text(encoding="utf-8")
    if was != now:
        diff = "\n".join(difflib.unified_diff(was.splitlines(), now.splitlines(), "kept", "now", lineterm="", n=1))
        raise AssertionError(f"{path.name} differs (TSVIZ_UPDATE_SCREENS=1 keeps the new one):\n{diff}")


async def compare_both(pilot: Pilot[None], name: str, *sizes: str) -> None:
    """Hold the screen against its files at 80x24, which it has, and at 120x40, or at the sizes given."""
    first, *others = sizes or ("80x24", "120x40")
    compare(pilot.app, f"{name}-{first}")
    for size in (*others, first):
        await pilot.resize_terminal(*map(int, size.split("x")))
        await rest(pilot)
        if size != first:
            compare(pilot.app, f"{name}-{size}")
