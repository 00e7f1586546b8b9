"""Every key of the main screen, pressed."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from textual.binding import Binding
from textual.pilot import Pilot
from textual.widgets import Input

from tests.tui.fakes import HEAD, FakeView, FullView
from tests.tui.helpers import pane_text, press, settle
from tsviz.tui.app import DebuggerApp
from tsviz.tui.keys import KEYS, bindings
from tsviz.tui.screens.goto import GoTo
from tsviz.tui.screens.main import MainScreen
from tsviz.tui.screens.pages import PagesScreen
from tsviz.tui.screens.sheet import Sheet
from tsviz.tui.widgets.pane import Pane

SIZE = (120, 40)


def app_at(round_: int = 61, view: FakeView | None = None, **more: object) -> DebuggerApp:
    """Return the application on the formula's trace."""
    return DebuggerApp(view or FullView(), start_round=round_, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("keys", "round_"),
    [
        ("n", 62), ("right", 62), ("p", 60), ("left", 60), ("N", 71), ("shift+right", 71), ("P", 51),
        ("shift+left", 51),
        ("home", 1), ("end", 300), ("n n p", 62), ("end n", 300), ("home p", 1), ("home P", 1), ("end N", 300),
        ("n n n n n p p p p p", 61),
    ],
)  # fmt: skip
async def test_keys_move_the_round(keys: str, round_: int) -> None:
    """From round 61 of 300: one with n, p and the arrows, ten with shift, and never outside the trace."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        screen = await press(pilot, *keys.split())
        assert screen.scene.round == round_
        assert screen.scene.frame is not None
        assert screen.scene.frame.snapshot.round == round_


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("home p", "Round 1 is the first round of this trace."),
        ("end n", "Round 300 is the last round of this trace."),
    ],
)
async def test_the_ends_of_the_trace_say_so_until_the_next_key(keys: str, sentence: str) -> None:
    """A step that leads nowhere is answered in the last line, which the next key clears."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        await press(pilot, *keys.split())
        assert pane_text(pilot.app, "bottom").strip() == sentence
        await press(pilot, "t")
        assert "next" in pane_text(pilot.app, "bottom")


async def test_a_held_key_is_answered_by_every_press() -> None:
    """Twenty presses without waiting for a frame end twenty rounds further, whatever frames were dropped on the way."""
    async with app_at(1).run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press(*["n"] * 20)
        assert (await settle(pilot)).scene.round == 21


async def test_the_cursor_moves_before_the_frame_has_come() -> None:
    """While a view takes its time the position is the new one, the header says loading, and keys are still answered."""
    view = FullView()
    async with app_at(61, view).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        view.gate = threading.Event()
        await pilot.press("N", "N")
        await pilot.pause()
        assert (screen.scene.round, screen.scene.loading) == (81, True)
        assert "loading 81" in pane_text(pilot.app, "header")
        assert "round  61 of 300" in pane_text(pilot.app, "header")
        await pilot.press("?")
        assert isinstance(pilot.app.screen, Sheet)
        await pilot.press("escape")
        view.gate.set()
        await settle(pilot)
        assert "round  81 of 300" in pane_text(pilot.app, "header")


@pytest.mark.parametrize(
    ("typed", "round_", "says"),
    [
        ("250", 250, "next"),
        ("250.3", 250, "This trace does not tell what stands behind its plans."),
        ("50%", 150, "next"),
        ("r40", 121, "r40 is submission 40."),
        ("r19", 61, "r19 is submission 19."),
        ("r9999", 61, "No request r9999 in this trace."),
        ("400", 61, "Nowhere to go: rounds are 1 to 300."),
    ],
)
async def test_go_to_takes_rounds_shares_and_requests(typed: str, round_: int, says: str) -> None:
    """r40 is submitted in round 1 + 3 x 40 = 121; what leads nowhere says why and moves nothing."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press("g")
        assert isinstance(pilot.app.screen, GoTo)
        pilot.app.screen.query_one(Input).value = typed
        await pilot.press("enter")
        screen = await settle(pilot)
        assert screen.scene.round == round_
        assert says in pane_text(pilot.app, "bottom")


async def test_go_to_says_where_a_text_leads_while_it_is_typed() -> None:
    """The line under the box names the destination; escape stays."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press("g", "5", "0", "%")
        answer = pilot.app.screen.query_one("#goto-answer", Pane)
        assert answer.document.line(0).text == " → round 150 of 300"
        await pilot.press("escape")
        assert (await settle(pilot)).scene.round == 61


async def test_a_view_that_cannot_search_says_so() -> None:
    """Without `find_request` a request outside the round is not claimed to be missing from the trace."""
    async with app_at(view=FakeView()).run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press("g", *"r50", "enter")
        await settle(pilot)
        assert "in this round, and this trace cannot be searched" in pane_text(pilot.app, "bottom")


async def test_marks_are_rounds_in_which_the_selected_request_was_scheduled_or_changed() -> None:
    """r4: chunks in 14..17, decodes in 18..37, retracted in 38, decodes again in 44: ] from 38 skips to 44."""
    async with app_at(37, request="r4").run_test(size=SIZE) as pilot:
        await settle(pilot)
        assert (await press(pilot, "]")).scene.round == 38
        assert "retract" in pane_text(pilot.app, "inspector")
        assert (await press(pilot, "]")).scene.round == 44
        assert (await press(pilot, "[")).scene.round == 38
        await press(pilot, "home", "[")
        assert "No earlier round" in pane_text(pilot.app, "bottom")


async def test_up_and_down_select_requests_and_the_tables_follow() -> None:
    """Round 61 lists r18, r19 (prefilling), then r4, r6, ... (decoding)."""
    async with app_at().run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        assert screen.scene.selected == 18
        for key, selected in (("down", 19), ("j", 4), ("down", 6), ("up", 4), ("k", 19), ("up", 18), ("up", 18)):
            assert (await press(pilot, key)).scene.selected == selected
        await press(pilot, "down")
        assert pane_text(pilot.app, "inspector").startswith(" ▸ r19")


async def test_in_the_round_pane_up_and_down_walk_the_batch() -> None:
    """The batch of round 61 is r18, r19, then the decodes r4, r6, ..."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        screen = await press(pilot, "2", "down", "down")
        assert (screen.scene.focus, screen.scene.selected) == ("round", 4)


async def test_in_the_tables_up_and_down_scroll() -> None:
    """The selection stays, the lines move."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        screen = await press(pilot, "t", "down", "down", "up")
        assert screen.scene.selected == 18
        assert screen.query_one("#inspector").scroll_offset.y == 1
        await press(pilot, "pagedown")
        assert screen.query_one("#inspector").scroll_offset.y > 1


async def test_a_page_of_requests_is_a_screenful() -> None:
    """The list is 8 lines high: 7 requests below r18 (r19, r4, r6, r7, r8, r9, r10) is r10, and 7 above it r18."""
    async with app_at().run_test(size=(120, 20)) as pilot:
        screen = await settle(pilot)
        assert screen.query_one("#requests").size.height == 8
        assert (await press(pilot, "pagedown")).scene.selected == 10
        assert (await press(pilot, "pageup")).scene.selected == 18


async def test_tab_walks_the_panes() -> None:
    """Requests, round, inspector, timeline, and around; shift+tab back; digits and t go straight."""
    async with app_at().run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        seen = [
            (await press(pilot, key)).scene.focus for key in ("tab", "tab", "tab", "shift+tab", "1", "2", "3", "1", "t")
        ]
        assert seen == [
            "round",
            "inspector",
            "timeline",
            "inspector",
            "requests",
            "round",
            "inspector",
            "requests",
            "inspector",
        ]
        assert screen.focused is not None
        assert screen.focused.id == "inspector"


async def test_zoom_gives_the_screen_to_one_pane() -> None:
    """z shows only the focused pane; z or escape brings the others back."""
    async with app_at().run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await press(pilot, "2", "z")
        shown = [pane for pane in ("requests-box", "round", "inspector-box") if screen.query_one(f"#{pane}").display]
        assert shown == ["round"]
        assert screen.query_one("#round").size.width > 110
        await press(pilot, "escape")
        assert all(screen.query_one(f"#{pane}").display for pane in ("requests-box", "round", "inspector-box"))


async def test_the_filter_filters_while_typing_and_escape_clears_it() -> None:
    """`r1` leaves r10 to r19 of the round's requests; enter keeps it, escape shows all."""
    async with app_at().run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        all_of_them = screen.scene.frame.listing.shown  # type: ignore[union-attr]
        await press(pilot, "slash", "r", "1")
        assert screen.scene.frame.listing.shown == 10  # type: ignore[union-attr]
        assert "10 of" in pane_text(pilot.app, "requests-title")
        await press(pilot, "enter")
        assert screen.focused is not None
        assert screen.focused.id == "requests"
        assert screen.scene.filter == "r1"
        await press(pilot, "escape")
        assert screen.scene.frame.listing.shown == all_of_them  # type: ignore[union-attr]


async def test_a_filter_that_nothing_passes_says_so() -> None:
    """An empty list is a designed state."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        await press(pilot, "slash", *"zzz")
        assert "No request passes this filter" in pane_text(pilot.app, "requests")


async def test_orders_go_round() -> None:
    """o: state, arrival, age, pages, retractions, id, state; the list says which."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        seen = [(await press(pilot, "o")).scene.order for _ in range(6)]
        assert seen == ["arrival", "age", "pages", "retractions", "id", "state"]
        await press(pilot, "o", "o")
        assert "oldest first" in pane_text(pilot.app, "requests-title")
        assert "age" in pane_text(pilot.app, "requests-title")


async def test_play_goes_forward_and_stops_at_the_end() -> None:
    """Playing from 290 of 300 ends at 300 and says so."""
    async with app_at(290).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        for _ in range(9):
            await press(pilot, "greater_than_sign")
        screen.action_play()
        assert screen.scene.play_rounds_per_second == 1000
        assert "playing 1,000 rounds/s" in pane_text(pilot.app, "header")
        for _ in range(100):
            await pilot.pause(0.05)
            await settle(pilot)
            if not screen.scene.play_rounds_per_second:
                break
        assert (screen.scene.round, screen.scene.play_rounds_per_second) == (300, 0)


async def test_space_stops_playing_and_less_than_slows_down() -> None:
    """10 rounds/s is where it starts; < gives 5."""
    async with app_at(1).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await pilot.press("space", "less_than_sign")
        assert screen.scene.play_rounds_per_second == 5
        await pilot.press("space")
        assert screen.scene.play_rounds_per_second == 0


async def test_the_position_is_copied_as_commands_take_it() -> None:
    """trace@round; with several parts, trace@node/rank:round."""
    for head, position in ((HEAD, f"{HEAD.name}@62"), (replace(HEAD, parts=("P/0", "D/0")), f"{HEAD.name}@P/0:62")):
        async with app_at(view=FullView(head)).run_test(size=SIZE) as pilot:
            await settle(pilot)
            await press(pilot, "n", "y")
            assert pilot.app.clipboard == position


@pytest.mark.parametrize(("key", "holds"), [("question_mark", "One round forward"), ("l", "lost its pages to others")])
async def test_sheets_open_scroll_and_close(key: str, holds: str) -> None:
    """Help and legend lie over the screen; their keys scroll, escape closes."""
    async with app_at().run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await pilot.press(key)
        sheet = pilot.app.screen
        assert isinstance(sheet, Sheet)
        pane = sheet.query_one(Pane)
        assert any(holds in pane.document.line(y).text for y in range(pane.document.height))
        await pilot.press("down", "pagedown")
        assert pane.scroll_offset.y == 11
        await pilot.press("home")
        assert pane.scroll_offset.y == 0
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_the_theme_goes_round() -> None:
    """ctrl+t goes through light, deuteranopia, tritanopia and plain, and back to dark."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        seen = []
        for _ in range(7):
            await pilot.press("ctrl+t")
            seen.append(pilot.app.theme.removeprefix("tsviz-"))
        assert seen == [
            "light",
            "deuteranopia",
            "deuteranopia-light",
            "tritanopia",
            "tritanopia-light",
            "plain",
            "dark",
        ]


async def choose(pilot: Pilot[None], words: str) -> None:
    """Choose an action in the palette."""
    await pilot.press("ctrl+p")
    await pilot.pause(0.2)
    await pilot.press(*words)
    await pilot.pause(0.5)
    await pilot.press("enter")
    await pilot.pause(0.2)
    await settle(pilot)


async def test_the_palette_offers_every_action() -> None:
    """Typing the help text of an action finds it, and enter does it."""
    async with app_at().run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await choose(pilot, "Ten rounds forward")
        assert screen.scene.round == 71


async def test_the_palette_offers_the_actions_of_another_screen() -> None:
    """Over the pages it knows the keys of the pages, and does what they do."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        await pilot.press("m")
        await settle(pilot)
        pages = pilot.app.screen
        assert isinstance(pages, PagesScreen)
        await choose(pilot, "Ten rounds forward")
        assert pilot.app.screen is pages
        assert pages.scene.round == 71


@pytest.mark.parametrize("key", ["ctrl+q"])
async def test_quit_quits(key: str) -> None:
    """Either key ends the application with success, also while a view hangs."""
    view = FullView()
    async with app_at(view=view).run_test(size=SIZE) as pilot:
        await settle(pilot)
        view.gate = threading.Event()
        await pilot.press("end", key)
        await pilot.pause()
        assert not pilot.app.is_running or pilot.app._exit
        view.gate.set()


async def test_keys_are_rebound_by_id() -> None:
    """h steps where n did, n does nothing any more, and help and the last line show h."""
    async with app_at(keymap={"round.next": "h"}).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        assert (await press(pilot, "h")).scene.round == 62
        assert (await press(pilot, "n")).scene.round == 62
        assert pane_text(pilot.app, "bottom").startswith(" h next")
        assert next(key for key in screen.keys if key.id == "round.next").keys == "h"


def test_every_binding_has_help_and_an_id_of_its_own() -> None:
    """Main screen, sheets and boxes: a description, a tooltip, and an id to rebind it by."""
    every = [*bindings(), *Sheet.BINDINGS, *GoTo.BINDINGS]
    for binding in every:
        assert isinstance(binding, Binding)
        assert binding.description
        assert binding.tooltip
        assert binding.id
    assert len({b.id for b in every if isinstance(b, Binding)}) == len(every)


def test_no_key_is_bound_twice() -> None:
    """Each key of the main screen has one meaning."""
    keys = [key for each in KEYS for key in each.keys.split(",")]
    assert len(set(keys)) == len(keys)


def test_every_action_exists() -> None:
    """Each binding names a method of the screen or of the application."""
    for key in KEYS:
        name = key.action.partition("(")[0]
        owner = DebuggerApp if name.startswith("app.") else MainScreen
        assert hasattr(owner, f"action_{name.removeprefix('app.')}"), key


async def test_retry_reads_a_broken_round_again() -> None:
    """A round that could not be read is said to be so, the last good one stays, and r reads it once it can be."""
    view = FullView()
    view.broken[71] = OSError("segment 3: crc 0x12, expected 0x34")
    async with app_at(view=view).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await press(pilot, "N")
        assert "Round 71 could not be read, still showing 61" in pane_text(pilot.app, "bottom")
        assert "OSError: segment 3: crc" in pane_text(pilot.app, "bottom")
        assert "round 71 unreadable" in pane_text(pilot.app, "header")
        view.broken.clear()
        await press(pilot, "r")
        assert screen.scene.frame is not None
        assert screen.scene.frame.snapshot.round == 71
        assert "unreadable" not in pane_text(pilot.app, "header")


async def test_a_broken_round_can_be_stepped_over() -> None:
    """From the unreadable 62 n goes on to 63."""
    view = FullView()
    view.broken[62] = OSError("damaged")
    async with app_at(view=view).run_test(size=SIZE) as pilot:
        await settle(pilot)
        screen = await press(pilot, "n", "n")
        assert (screen.scene.round, screen.scene.error) == (63, "")


async def test_start_round_and_request_are_taken() -> None:
    """Opened at the last round with r50 selected: the tables are those of r50."""
    async with app_at(200, request="r50").run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        assert (screen.scene.round, screen.scene.selected) == (200, 50)
    async with app_at(-1).run_test(size=SIZE) as pilot:
        assert (await settle(pilot)).scene.round == 300
    async with app_at(5000).run_test(size=SIZE) as pilot:
        assert (await settle(pilot)).scene.round == 300


async def test_plus_and_minus_zoom_the_timeline_and_the_braces_pan_it() -> None:
    """Round 151 of 300: half as wide is 76 to 225, a quarter of that to the right is 113 to 262; 0 shows all."""
    async with app_at(151).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        for key, window in (
            ("plus", (76, 225)),
            ("right_curly_bracket", (113, 262)),
            ("left_curly_bracket", (76, 225)),
            ("minus", (1, 300)),
            ("equals_sign", (76, 225)),
            ("0", (1, 300)),
        ):
            await press(pilot, key)
            assert (screen.scene.window.first, screen.scene.window.last) == window


async def test_the_window_of_the_timeline_follows_the_cursor() -> None:
    """Zoomed in around 151 (76 to 225), the last round of the trace is in sight behind end."""
    async with app_at(151).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        await press(pilot, "plus", "end")
        assert screen.scene.window.last == 300
        assert screen.scene.window.size == 150


async def test_a_pinned_request_stands_first_and_again_in_its_place() -> None:
    """r4, the third of the list in round 61, goes to the top under a heading of its own; * takes it back."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        await press(pilot, "down", "down")
        screen = await press(pilot, "asterisk")
        text = pane_text(pilot.app, "requests").split("\n")
        assert text[0].startswith(" ★ pinned")
        assert "r4" in text[1]
        assert screen.scene.selected == 4
        await press(pilot, "asterisk")
        assert "pinned" not in pane_text(pilot.app, "requests")


async def test_lanes_are_ordered_in_four_ways() -> None:
    """O: by arrival, those at the cursor first, the longest first, by id, and around."""
    async with app_at().run_test(size=SIZE) as pilot:
        await settle(pilot)
        seen = [(await press(pilot, "O")).scene.lane_order for _ in range(4)]
        assert seen == ["here", "longest", "id", "arrival"]


async def test_the_timeline_has_the_screen_as_a_tab() -> None:
    """4 at 80x24: the lanes take the room of the panes."""
    async with app_at().run_test(size=(80, 24)) as pilot:
        screen = await settle(pilot)
        assert screen.query_one("#timeline").size.height == 3
        await press(pilot, "4")
        assert screen.query_one("#timeline").size.height > 12
        assert not screen.query_one("#panes").display
        await press(pilot, "1")
        assert screen.query_one("#panes").display
