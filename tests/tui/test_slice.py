"""A slice in the debugger: it begins behind round 1, and nothing is drawn of rounds that it does not have."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tui.helpers import main_screen, pane_text, press, rest, screen_text, settle
from tsviz.replay.recorded.timeline import CODES
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.slice import write_slice
from tsviz.replay.view import PartView, open_view
from tsviz.trace.reader import open_bundle
from tsviz.tui.app import DebuggerApp
from tsviz.tui.screens.pages import PagesScreen
from tsviz.tui.strip import StripAsk, Window
from tsviz.tui.strips import fetch_strip

FIRST, LAST = 90, 120


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> PartView:
    """Rounds 90 to 120 of the incident of retractions, with their decisions."""
    folder = tmp_path_factory.mktemp("slice")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TSVIZ_CACHE", str(folder / "cache"))
        whole = open_bundle(Path(__file__).parents[2] / "traces" / "retract-and-grant")
        write_slice(whole, whole.parts[0], FIRST, LAST, folder / "sl")
        bundle = open_bundle(folder / "sl")
        build_index(bundle.parts[0])
        found = open_view(bundle)
    assert isinstance(found, PartView)
    return found


@pytest.mark.parametrize("cells", [7, 40, 120, 170])
def test_nothing_is_drawn_of_rounds_before_a_slice(view: PartView, cells: int) -> None:
    """In 1..120 cells of rounds 1 to 89 have no request and no pages; those of 90 to 120 have both, as the whole."""
    strip = fetch_strip(view, StripAsk(Window(1, LAST), cells, 10))
    before = [cell for cell in range(cells) if strip.cells_of(FIRST).start > cell]
    assert len(strip.occupied_pages) == len(strip.active_pages) == cells
    assert all(strip.occupied_pages[cell] == strip.active_pages[cell] == -1 for cell in before)
    assert all(set(lane.cells[: len(before)]) <= {0} and lane.cells[-1] for lane in strip.lanes)  # type: ignore[union-attr]
    assert all(pages > 0 for pages in strip.occupied_pages[len(before) :])
    assert fetch_strip(view, StripAsk(Window(3, FIRST - 1), cells, 10)).lanes == ()


def test_a_slice_shows_the_lanes_of_the_whole(view: PartView) -> None:
    """r1 decodes in round 90, as it does in the whole trace."""
    strip = fetch_strip(view, StripAsk(Window(FIRST, LAST), 31, 10))
    assert strip.lanes[0].cells[0] == CODES["decoding"]  # type: ignore[union-attr]


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_slice_opens_at_its_first_round_and_steps(view: PartView, size: tuple[int, int]) -> None:
    """Opened at round 1 it shows 90; to the last, the first, zoomed in, out and to the whole it shows 90 to 120."""
    app = DebuggerApp(view, start_round=1)
    async with app.run_test(size=size) as pilot:
        await rest(pilot)
        screen = main_screen(app)
        assert screen.scene.window == Window(FIRST, LAST)
        assert screen.scene.round == FIRST
        await press(pilot, "right")
        assert screen.scene.round == FIRST + 1
        await press(pilot, "end")
        assert screen.scene.round == LAST
        await press(pilot, "home", "+", "{", "}", "-", "-", "0", "T", "T", "G", "G", "G")
        assert (screen.scene.round, screen.scene.window) == (FIRST, Window(FIRST, LAST))
        if size[0] > 100:
            assert f"rounds {FIRST} to {LAST}, " in pane_text(app, "timeline")
        await press(pilot, "m")
        await settle(pilot)
        await pilot.pause()
        assert isinstance(pilot.app.screen, PagesScreen)
        assert "90" in screen_text(app)
