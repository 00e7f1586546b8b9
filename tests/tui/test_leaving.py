"""How the debugger ends: what breaks it, and what runs when it is left."""

from __future__ import annotations

import pytest
from textual.command import CommandList

from tests.tui.fakes import FullView
from tests.tui.helpers import settle
from tsviz.tui.app import DebuggerApp
from tsviz.tui.palette import Palette

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
