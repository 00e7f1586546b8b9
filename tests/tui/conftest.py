"""Views of recordings that ship, with their decisions derived once; and folders of its own for what a user keeps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import textual.app
import textual.pilot
from textual.timer import Timer

from tests.tui.quiet import quiet
from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.view import open_view
from tsviz.trace.reader import open_bundle
from tsviz.tui.screens.main import MainScreen

TRACES = Path(__file__).parents[2] / "traces"

Incident = Callable[..., RecordedView]


@pytest.fixture(scope="session")
def incident(tmp_path_factory: pytest.TempPathFactory, indexes_of_shipped_traces: str) -> Iterator[Incident]:
    """Open a shipped trace by name; `derived=False` leaves its decisions unknown."""
    patch = pytest.MonkeyPatch()
    without = str(tmp_path_factory.mktemp("cache"))

    def open_(name: str, node: str | None = None, *, derived: bool = True) -> RecordedView:
        patch.setenv("TSVIZ_CACHE", indexes_of_shipped_traces if derived else without)
        patch.chdir(TRACES.parent)
        bundle = open_bundle(Path("traces") / name)
        part = bundle.part(node)
        if derived:
            build_index(part)
        return open_view(bundle, part.node, part.rank)

    yield open_
    patch.undo()


@pytest.fixture(autouse=True)
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep state and configuration below `tmp_path`."""
    monkeypatch.setenv("TSVIZ_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TSVIZ_CONFIG", str(tmp_path / "config"))
    return tmp_path


@pytest.fixture(autouse=True)
def _no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pilots go on when there is nothing left to be done, and begin at once what the screen puts off."""
    monkeypatch.setattr(textual.app, "wait_for_idle", quiet)
    monkeypatch.setattr(textual.pilot, "wait_for_idle", quiet)
    set_timer = MainScreen.set_timer

    def at_once(screen: MainScreen, delay: float, callback: Callable[[], None], *, pause: bool = False) -> Timer:
        timer = set_timer(screen, delay, callback, pause=pause)
        if callback in (screen._check, screen._ask_detail) and not pause:
            timer.stop()
            screen.call_later(callback)
        return timer

    monkeypatch.setattr(MainScreen, "set_timer", at_once)
