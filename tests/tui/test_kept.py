"""What is not drawn again."""

from __future__ import annotations

from textual.geometry import Region
from textual.strip import Strip

from tests.tui.fakes import HEAD, FullView
from tests.tui.helpers import press, settle
from tsviz.tui.app import DebuggerApp
from tsviz.tui.widgets.kept import Box
from tsviz.tui.widgets.pane import Pane


async def test_a_box_keeps_its_lines_until_its_looks_change() -> None:
    """A step draws no border; the focus, and another theme, do."""
    async with DebuggerApp(FullView(), start_round=61).run_test(size=(120, 40)) as pilot:
        box = (await settle(pilot)).query_one("#round-box", Box)

        def lines() -> list[Strip]:
            return box.render_lines(Region(0, 0, *box.outer_size))

        kept = lines()
        await press(pilot, "n")
        assert lines() is kept
        await press(pilot, "2")
        focused = lines()
        assert focused is not kept
        await press(pilot, "ctrl+t")
        assert lines()[0] != focused[0]


async def test_a_scrollbar_moves_by_what_can_be_seen_of_it() -> None:
    """22 lines hidden of 30, in 8 cells: the thumb has 8 x 8/30 = 2.133, and 5.867 x 8 = 46.93 steps to go."""
    async with DebuggerApp(FullView(HEAD), start_round=61).run_test(size=(120, 20)) as pilot:
        bar = (await settle(pilot)).query_one("#requests", Pane).vertical_scrollbar
        assert bar.size.height == 8
        bar.window_virtual_size, bar.window_size = 30, 8
        steps = [bar.validate_position(at) * 46.93 / 22 for at in (0.0, 0.4, 0.5, 1.0, 21.5, 22.0)]
        assert [round(step, 2) for step in steps] == [0, 0, 1, 2, 45, 46]
