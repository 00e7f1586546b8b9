"""How the debugger ends: what breaks it, and what runs when it is left."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from textual.command import CommandList

from tests.tui.desks import FakeDesk, FakeStream
from tests.tui.fakes import FullView
from tests.tui.helpers import main_screen, rest, settle
from tsviz.tui.app import DebuggerApp
from tsviz.tui.jobs import Done, Jobs, Told
from tsviz.tui.leaving import threads_left
from tsviz.tui.palette import Palette
from tsviz.tui.screens.over import Over
from tsviz.tui.screens.pages import PagesScreen

SIZE = (120, 40)


@pytest.mark.parametrize("action", ["page_up", "page_down", "last"])
async def test_the_palette_takes_keys_before_its_list_is_laid_out(action: str) -> None:
    """With options and no lines yet, as a page key directly behind ctrl+p finds them, a move does nothing."""
    async with DebuggerApp(FullView()).run_test(size=SIZE) as pilot:
        await settle(pilot)
        palette = Palette()
        await pilot.app.push_screen(palette)
        commands = palette.query_one(CommandList)
        assert not commands.scrollable_content_region
        commands.add_options(["one", "two"])
        commands.highlighted = 0
        palette._action_command_list(action)
        assert pilot.app.is_running


async def test_what_breaks_is_told_in_a_line_without_values() -> None:
    """An exception that nobody handles ends the application with code 1; its words name error and place only."""

    def broken() -> None:
        secret = "prompt of a user"
        raise ValueError("odd \x1b[2J" + secret[:0])

    app = DebuggerApp(FullView())
    with pytest.raises(ValueError, match="odd"):
        async with app.run_test(size=SIZE) as pilot:
            await settle(pilot)
            app.call_later(broken)
            await pilot.pause()
            await pilot.pause()
    assert app.return_code == 1
    assert app.crash.startswith("ValueError: odd ␛[2J (at tests/tui/test_leaving.py:")
    assert "secret" not in app.crash
    assert "prompt" not in app.crash


def test_closed_jobs_are_cancelled_end_and_say_nothing_more() -> None:
    """A job that waits for its second answer ends when all are closed, and neither that answer nor an end is told."""
    told: list[Told] = []
    first = threading.Event()

    def deliver(one: Told) -> None:
        told.append(one)
        first.set()

    jobs = Jobs(deliver)
    stream = FakeStream(["first", "second"], threading.Event(), 1)
    jobs.start("sql", stream)
    assert first.wait(20)
    jobs.close()
    assert stream.cancelled.is_set()
    assert [thread for thread in threads_left(2) if thread.name == "tsviz-sql"] == []  # others' recorders may live on
    assert [one.value for one in told] == ["first"]


def test_a_thread_that_does_not_end_is_named_and_left() -> None:
    """Its thread still waits behind the patience; the process ends with the code that is asked for all the same."""
    script = (
        "import threading, sys\n"
        "from tsviz.tui.leaving import leave_at_once, threads_left\n"
        "threading.Thread(target=threading.Event().wait, name='tsviz-stuck', daemon=True).start()\n"
        "print([thread.name for thread in threads_left(0.01)])\n"
        "leave_at_once(7)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "['tsviz-stuck']\n", "")


@pytest.mark.parametrize("key", ["f", "L", "q", "b", "quotation_mark", "m"])
async def test_an_answer_that_comes_while_a_screen_is_taken_down_harms_nothing(key: str) -> None:
    """The widgets of a screen go before it does: what it is told from then on draws nothing."""
    async with DebuggerApp(FullView(), desk=FakeDesk()).run_test(size=SIZE) as pilot:  # type: ignore[arg-type]
        await rest(pilot)
        await pilot.press(key)
        await rest(pilot)
        over = pilot.app.screen
        assert isinstance(over, Over | PagesScreen)
        main = main_screen(pilot.app)
        await pilot.app.pop_screen()
        assert not over.query("Pane")
        over.redraw()
        pilot.app._running = False  # as in the first moment of an application's end
        await main.query("*").remove()
        main.on_told(Told("findings", 1, Done("too late")))
        pilot.app._running = True
    assert main.study is not None
    assert main.study.findings.known.error == ""
