"""A trace that is opened while the screen is there already."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from textual.events import Key

from tests.tui.desks import FakeDesk
from tests.tui.fakes import HEAD, FullView
from tests.tui.helpers import main_screen, pane_text, rest
from tests.tui.test_following import FakeFollower, head_of
from tsviz.tui import app as application
from tsviz.tui import following
from tsviz.tui.app import DebuggerApp, run
from tsviz.tui.opening import NothingYet, Subject

SIZE = (120, 40)


class Broken(Exception):
    """What opening a trace may raise."""


async def test_the_header_names_the_trace_before_it_is_open() -> None:
    """While it is being read what needs no trace is answered, also over it; then round and desk are there."""
    gate = threading.Event()

    def opening() -> Subject:
        gate.wait(20)
        return Subject(FullView(), FakeDesk())  # type: ignore[arg-type]

    app = DebuggerApp(opening, start_round=61, name="million")
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        assert "million │ opening the trace …" in pane_text(app, "header")
        await pilot.press("l", "escape", "n", "f")
        assert main_screen(app).study is None
        assert pane_text(app, "bottom") == " ◌ Kept until the trace is open, esc forgets: n f"
        gate.set()
        await rest(pilot)
        assert " 62 of 300" in pane_text(app, "header")
        assert "stall" in "".join(line.text for line in _lines(app))


def _lines(app: DebuggerApp) -> list[object]:
    from tsviz.tui.widgets.pane import Pane

    return [pane.document.line(y) for pane in app.screen.query(Pane) for y in range(pane.document.height)]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("keys", "round_", "focus"),
    [("end p 4", 299, "timeline"), ("g 2 5 0 enter n 2", 251, "round"), ("end n escape n", 62, "requests")],
)
async def test_keys_that_come_early_are_played_when_the_trace_is_there(keys: str, round_: int, focus: str) -> None:
    """Also what is typed into the box that one of them opens; escape forgets those before it."""
    gate = threading.Event()

    def opening() -> Subject:
        gate.wait(20)
        return Subject(FullView())

    app = DebuggerApp(opening, start_round=61)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.press(*keys.split())
        gate.set()
        await rest(pilot)
        screen = main_screen(app)
        assert (screen.scene.round, screen.scene.focus, screen.scene.kept) == (round_, focus, ())
        assert app.screen is screen


async def test_keys_that_come_at_once_are_answered_one_after_the_other() -> None:
    """In one burst: g opens its box, the digits are typed into it, enter goes there, and n a round further."""
    app = DebuggerApp(FullView(), start_round=61)
    async with app.run_test(size=SIZE) as pilot:
        await rest(pilot)
        for key in ("g", "2", "5", "0", "enter", "n", "slash", "r", "7", "enter", "n"):
            app.post_message(Key(key, "/" if key == "slash" else None))
        await rest(pilot)
        assert (main_screen(app).scene.round, main_screen(app).scene.filter) == (252, "r7")


async def test_a_trace_that_is_written_is_followed_from_its_last_round() -> None:
    """Opened late with `--follow`: the last round, and what comes is shown; a finished one begins at round 1."""
    follower = FakeFollower(100)
    app = DebuggerApp(
        lambda: Subject(FullView(head_of(follower.now)), None, follower),  # type: ignore[arg-type]
        start_round=-1, follow=True,
    )  # fmt: skip
    async with app.run_test(size=SIZE) as pilot:
        await rest(pilot)
        assert main_screen(app).scene.round == 100
        assert main_screen(app).follows
    app = DebuggerApp(lambda: Subject(FullView(replace(HEAD, live=False))), start_round=-1, follow=True)
    async with app.run_test(size=SIZE) as pilot:
        await rest(pilot)
        assert main_screen(app).scene.round == 1
        assert main_screen(app).scene.follow is None


async def test_a_recording_without_a_part_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `--follow`: it says what it waits for and how to leave, and the trace is opened once there is one."""
    monkeypatch.setattr(following, "LOOK_S", 0.01)
    follower, there, asked = FakeFollower(100), threading.Event(), []

    def opening() -> Subject:
        asked.append(there.is_set())
        if not asked[-1]:
            raise NothingYet("no scheduler was made so far; its recorder lives")
        return Subject(FullView(head_of(follower.now)), None, follower)  # type: ignore[arg-type]

    app = DebuggerApp(opening, start_round=-1, follow=True, name="million")
    async with app.run_test(size=SIZE) as pilot:
        while len(asked) < 3:
            await pilot.pause(0.01)
        assert "million │ ◍ waiting: nothing is recorded yet" in pane_text(app, "header")
        said = " ".join(pane_text(app, "inspector").split())
        assert "No scheduler was made so far; its recorder lives." in said and "ctrl+q leaves" in said
        assert main_screen(app).scene.error == ""
        there.set()
        while main_screen(app).scene.head is None:
            await pilot.pause(0.01)
        await rest(pilot)
        assert (main_screen(app).scene.round, main_screen(app).follows, app.failed) == (100, True, None)
        assert "waiting" not in pane_text(app, "header")


async def test_what_is_waited_for_can_be_left() -> None:
    """ctrl+q ends the application at once, though there is no trace that could answer a key."""

    def opening() -> Subject:
        raise NothingYet("million")

    app = DebuggerApp(opening, start_round=-1, follow=True)
    async with app.run_test(size=SIZE) as pilot:
        await pilot.pause()
        await pilot.press("ctrl+q")
        await pilot.pause()
        assert (app._exit, main_screen(app).scene.kept) == (True, ())


async def test_a_trace_that_cannot_be_opened_ends_the_application() -> None:
    """What opening raises is kept for whoever runs the application, which ends."""

    def opening() -> Subject:
        raise Broken("bundle.json, line 3")

    app = DebuggerApp(opening)
    async with app.run_test(size=SIZE) as pilot:
        for _ in range(400):
            if app.failed is not None:
                break
            await pilot.pause(0.01)
    assert isinstance(app.failed, Broken)
    assert app.crash == ""


def test_what_opening_raises_is_raised_when_the_screen_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` ends with the error itself, so that a command finds its exit code."""

    def ended(self: DebuggerApp) -> None:
        self.failed = Broken("the disk")

    monkeypatch.setattr(application, "require_terminal", lambda: None)
    monkeypatch.setattr(DebuggerApp, "run", ended)
    with pytest.raises(Broken, match="the disk"):
        run(lambda: Subject(FullView()))
