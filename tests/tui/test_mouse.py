"""Everything by mouse too."""

from __future__ import annotations

from textual import events
from textual.geometry import Offset
from textual.pilot import Pilot
from textual.widget import Widget

from tests.tui.fakes import FullView
from tests.tui.helpers import press, settle
from tsviz.tui.app import DebuggerApp
from tsviz.tui.panes.timeline import columns, label_cells
from tsviz.tui.screens.main import MainScreen
from tsviz.tui.screens.sheet import Sheet
from tsviz.tui.widgets.pane import Pane

SIZE = (120, 40)


async def click_text(pilot: Pilot[None], pane: str, text: str) -> MainScreen:
    """Click where a text stands in a pane."""
    screen = await settle(pilot)
    widget = screen.query_one(f"#{pane}", Pane)
    for y in range(widget.document.height):
        x = widget.document.line(y).text.find(text)
        if x >= 0:
            if not 0 <= y - widget.scroll_offset.y < widget.size.height:
                widget.scroll_to(y=y, animate=False, immediate=True)
                await settle(pilot)
            border = widget.content_region.offset - widget.region.offset
            await pilot.click(widget, offset=Offset(x, y - widget.scroll_offset.y) + border)
            return await settle(pilot)
    raise AssertionError(f"{text!r} does not stand in {pane}")


async def wheel(pilot: Pilot[None], widget: Widget, turns: int) -> None:
    """Turn the wheel over a widget."""
    kind = events.MouseScrollDown if turns > 0 else events.MouseScrollUp
    where = widget.region.offset
    for _ in range(abs(turns)):
        event = kind(widget, 1, 1, 0, 0, 0, False, False, False, where.x + 1, where.y + 1)
        widget.post_message(event)
        await settle(pilot)


async def test_a_click_selects_a_request() -> None:
    """In the list and in the batch."""
    async with DebuggerApp(FullView(), start_round=61).run_test(size=SIZE) as pilot:
        assert (await click_text(pilot, "requests", "r11")).scene.selected == 11
        assert (await click_text(pilot, "round", "r14")).scene.selected == 14
        assert (await click_text(pilot, "round", "r19")).scene.selected == 19


async def test_a_click_on_the_timeline_goes_to_the_first_round_of_its_column() -> None:
    """Column 50 of the strip begins with round 1 + 50 x 300 // columns, on a lane, the marks, the pool and the axis."""
    cells, label = columns(SIZE[0]), label_cells(SIZE[0])
    async with DebuggerApp(FullView(), start_round=61).run_test(size=SIZE) as pilot:
        for line, column in ((2, 50), (6, 90), (8, cells - 1), (9, 0)):
            await settle(pilot)
            await pilot.click("#timeline", offset=(label + column, line))
            screen = await settle(pilot)
            assert screen.scene.round == 1 + column * 300 // cells


async def test_ctrl_and_the_wheel_zoom_around_the_pointer_and_shift_pans() -> None:
    """300 rounds, twice as near is 150, with the round under the pointer in its place; a pan is a quarter of that."""
    async with DebuggerApp(FullView(), start_round=61).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        pane = screen.query_one("#timeline", Pane)
        where = pane.region.offset
        x = label_cells(SIZE[0])
        for kind, ctrl, shift, window in (
            (events.MouseScrollUp, True, False, (1, 150)),
            (events.MouseScrollDown, False, True, (38, 187)),
            (events.MouseScrollUp, False, True, (1, 150)),
            (events.MouseScrollDown, True, False, (1, 300)),
        ):
            pane.post_message(kind(pane, x, 2, 0, 0, 0, shift, False, ctrl, where.x + x, where.y + 2))
            screen = await settle(pilot)
            assert (screen.scene.window.first, screen.scene.window.last) == window


async def test_the_wheel_steps_rounds_over_header_and_timeline() -> None:
    """Down is forward, as in a log."""
    async with DebuggerApp(FullView(), start_round=61).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await wheel(pilot, screen.query_one("#timeline"), 3)
        assert screen.scene.round == 64
        await wheel(pilot, screen.query_one("#header"), -2)
        assert screen.scene.round == 62


async def test_the_wheel_scrolls_a_pane() -> None:
    """The tables of r18 are longer than the pane."""
    async with DebuggerApp(FullView(), start_round=61).run_test(size=SIZE) as pilot:
        screen = await press(pilot, "t")
        tables = screen.query_one("#inspector", Pane)
        assert tables.document.height > tables.size.height
        await wheel(pilot, tables, 1)
        assert tables.scroll_offset.y > 0
        assert screen.scene.round == 61


async def test_the_last_line_is_made_of_buttons() -> None:
    """next steps, help opens the sheet."""
    async with DebuggerApp(FullView(), start_round=61).run_test(size=SIZE) as pilot:
        assert (await click_text(pilot, "bottom", "next")).scene.round == 62
        await click_text(pilot, "bottom", "help")
        assert isinstance(pilot.app.screen, Sheet)


async def test_a_click_on_an_acknowledgement_goes_to_its_round() -> None:
    """In round 60 a write-back is out whose acknowledgement lands in 62."""
    async with DebuggerApp(FullView(), start_round=60).run_test(size=SIZE) as pilot:
        assert (await click_text(pilot, "round", "→ round 62")).scene.round == 62


async def test_tabs_open_by_click_where_the_terminal_is_narrow() -> None:
    """At 80x24 panes are tabs."""
    async with DebuggerApp(FullView(), start_round=61).run_test(size=(80, 24)) as pilot:
        screen = await click_text(pilot, "tabs", "Inspector")
        assert screen.scene.focus == "inspector"
        assert screen.query_one("#inspector").display
        assert not screen.query_one("#round-box").display


async def test_a_click_on_a_pane_gives_it_the_focus() -> None:
    """As tab would."""
    async with DebuggerApp(FullView(), start_round=61).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await pilot.click("#inspector", offset=(5, 20))
        await settle(pilot)
        assert screen.scene.focus == "inspector"
