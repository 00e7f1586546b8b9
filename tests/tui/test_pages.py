"""The pages screen on a shipped incident: whole screens, keys, mouse, and what it costs to draw 50,000 pages."""

from __future__ import annotations

from array import array
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.tui.fakes import HEAD, FakeView
from tests.tui.helpers import compare, compare_both, main_screen, screen_text, settle
from tsviz.replay.pages import large
from tsviz.replay.pages import values as v
from tsviz.replay.pages.values import PageEvent, PageGroup, PageLife, PagesMap
from tsviz.replay.recorded import life_of
from tsviz.replay.recorded.snapshot import NotPrepared, Preparing
from tsviz.replay.reexecution.index import build_index
from tsviz.replay.view import PartView, open_view
from tsviz.trace.reader import open_bundle
from tsviz.tui.app import DebuggerApp
from tsviz.tui.pages_keys import PAGES_KEYS
from tsviz.tui.pages_scene import PagesScene
from tsviz.tui.panes.page_card import page_facts, page_life
from tsviz.tui.panes.pages import Drawn, geometry, pages_map, parent_at, under
from tsviz.tui.panes.pages_sheets import pages_help, pages_legend
from tsviz.tui.screens import pages
from tsviz.tui.screens.main import MainScreen
from tsviz.tui.screens.pages import PagesScreen
from tsviz.tui.widgets.pane import Pane

INCIDENTS = Path(__file__).parents[2] / "traces"
SIZES = {"80x24": (80, 24), "120x40": (120, 40)}


@pytest.fixture(autouse=True)
def recorded_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is re-executed unless a test wants it: what it finds comes when it comes."""
    monkeypatch.setattr(pages, "_LIVE_REST_S", 1e6)


def app_of(incident: str, round_: int, *, decided: bool = True, theme: str = "tsviz-dark") -> DebuggerApp:
    """Return the application on a shipped incident, with its decisions derived or not."""
    bundle = open_bundle(INCIDENTS / incident)
    if decided:
        build_index(bundle.parts[0])
    return DebuggerApp(open_view(bundle), start_round=round_, theme=theme)


async def opened(pilot: Pilot[None], *keys: str) -> PagesScreen:
    """Open the pages screen, press keys, and return it when everything that was asked for is shown."""
    await settle(pilot)
    for key in ("m", *keys):
        await pilot.press(key)
        await settle(pilot)
        await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, PagesScreen)
    return screen


@pytest.mark.parametrize("size", SIZES)
async def test_the_pages_of_a_retraction(size: str) -> None:
    """Round 101 of retract-and-grant: r6 takes what r1 and r3 lost, its pages lit; the life of page 1 beside it."""
    async with app_of("retract-and-grant", 101).run_test(size=SIZES[size]) as pilot:
        await opened(pilot)
        compare(pilot.app, f"pages-{size}")


async def test_pages_of_a_trace_that_is_being_indexed_follow_by_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """While what tells of requests is built the map says how far that is, and no error; then it is there, unasked."""
    read, being_built = PartView.pages.func, [Preparing(1, 4)]  # type: ignore[attr-defined]

    def found(view: PartView) -> object:
        if being_built:
            raise NotPrepared(Path("part"), being_built[0])
        return read(view)

    monkeypatch.setattr(PartView, "pages", property(found))
    monkeypatch.setattr(pages, "_LIVE_AGAIN_S", 0.01)
    async with app_of("retract-and-grant", 101).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot)
        while "once: 25.0 %" not in screen_text(pilot.app):
            await pilot.pause(0.01)
        assert "unreadable" not in screen_text(pilot.app)
        being_built.clear()
        while screen.scene.map is None:
            await pilot.pause(0.01)
        assert screen.scene.preparing is None
        assert screen.scene.map.round == 101


async def test_the_pages_of_two_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Round 25 of bounded-replay: each parent with the letter of its group; nothing decided, so much is ?."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))  # others may have derived its decisions
    app = app_of("bounded-replay", 25, decided=False)
    app_size = SIZES["120x40"]
    async with app.run_test(size=app_size) as pilot:
        await opened(pilot, "down", "right")
        await compare_both(pilot, "pages-groups", "120x40", "80x24")
        screen = await opened_again(pilot, "tab")
        assert screen.scene.group == 0
        assert (await opened_again(pilot, "tab")).scene.group == 1
        assert (await opened_again(pilot, "tab")).scene.group is None


async def opened_again(pilot: Pilot[None], *keys: str) -> PagesScreen:
    """Press keys on the pages screen."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)
        await pilot.pause()
    screen = pilot.app.screen
    assert isinstance(screen, PagesScreen)
    return screen


async def test_a_view_without_pages_says_so() -> None:
    """The error stands where the map would be, and the screen can be left."""
    async with DebuggerApp(FakeView(), start_round=3).run_test(size=SIZES["80x24"]) as pilot:
        await opened(pilot)
        assert "does not tell its pages" in screen_text(pilot.app)
        await pilot.press("escape")
        assert isinstance(pilot.app.screen, MainScreen)


async def test_keys_move_over_pages_and_rounds() -> None:
    """n, N, p, P, home and end move the round; arrows the page; [ and ] follow the page's life."""
    async with app_of("retract-and-grant", 101).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot)
        for key, round_ in (("n", 102), ("N", 112), ("p", 111), ("P", 101), ("]", 102), ("]", 164), ("[", 102)):
            assert (await opened_again(pilot, key)).scene.round == round_, key
        for key, parent in (("right", 2), ("down", 26), ("left", 25), ("up", 1), ("up", 1), ("right", 2), ("left", 1)):
            assert (await opened_again(pilot, key)).scene.parent == parent, key
        assert (await opened_again(pilot, "pagedown")).scene.parent == 49
        assert (await opened_again(pilot, "pageup")).scene.parent == 1
        assert (await opened_again(pilot, "end")).scene.round == 310
        await pilot.press("n")
        assert "is the last round" in screen.scene.message
        assert (await opened_again(pilot, "home")).scene.round == 1


async def test_a_request_lights_up_and_is_taken_back() -> None:
    """Enter lights the owner of a page, . and , walk its pages; the main screen takes over round and request."""
    async with app_of("retract-and-grant", 101).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot, "enter")
        assert screen.scene.lit is None
        screen = await opened_again(pilot, "right", "right", *["right"] * 8, "enter")
        assert (screen.scene.lit_name, screen.scene.parent) == ("r2", 11)
        lit = sorted(screen.scene.lit_pages[0])
        assert (await opened_again(pilot, "full_stop")).scene.parent == lit[lit.index(11) + 1]
        assert (await opened_again(pilot, "comma")).scene.parent == 11
        await opened_again(pilot, "n")
        await pilot.press("escape")
        await settle(pilot)
        main = main_screen(pilot.app)
        assert (main.scene.round, main.scene.selected_id) == (102, "r2")


async def test_go_to_takes_a_round_or_a_request() -> None:
    """g 200 goes there; g r2 lights r2; a request without pages is said to have none."""
    async with app_of("retract-and-grant", 101).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot)
        for typed, said in (("200", ""), ("r2", ""), ("nobody", "nobody holds no page in this round.")):
            await pilot.press("g")
            await pilot.pause()
            pilot.app.screen.query_one(Input).value = typed
            await pilot.press("enter")
            await settle(pilot)
            await pilot.pause()
            assert screen.scene.message == said
        assert (screen.scene.round, screen.scene.lit_name) == (200, "r2")


async def test_the_mouse_does_everything() -> None:
    """Hover tells, a click moves, a second lights, an event of the life goes to its round."""
    async with app_of("retract-and-grant", 101).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot)
        await pilot.hover("#pages-map", offset=(9, 1))
        await pilot.pause()
        assert screen.scene.hover == (2, 0)
        assert "page 2 of full" in screen.query_one("#pages-under", Pane).document.line(0).text
        await pilot.click("#pages-map", offset=(24, 1))
        await settle(pilot)
        assert screen.scene.parent == 9
        was = screen.scene.lit
        await pilot.click("#pages-map", offset=(24, 1))
        await settle(pilot)
        assert screen.scene.lit != was
        await pilot.click("#page-life", offset=(4, 3))
        await settle(pilot)
        await pilot.pause()
        assert screen.scene.round in {event.round for event in screen.scene.life.events}  # type: ignore[union-attr]
        await pilot._post_mouse_events(
            [__import__("textual.events").events.MouseScrollDown], "#pages-header", offset=(3, 0)
        )
        await settle(pilot)


async def test_re_execution_settles_what_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without decisions parents are ? in round 25; once the round was made again none is, and each page has a turn."""
    monkeypatch.setenv("TSVIZ_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(pages, "_LIVE_REST_S", 0.05)
    async with app_of("bounded-replay", 25, decided=False).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot)
        for _ in range(600):
            await pilot.pause(0.1)
            if screen.scene.live_words == "":
                break
        assert screen.scene.map is not None
        assert (screen.scene.map.source, screen.scene.map.unknown_parents) == ("live", 0)
        assert "caching: re-executed and verified" in screen_text(pilot.app)
        await pilot.press("right")
        await settle(pilot)
        assert "In the index: " in screen_text(pilot.app)


async def test_sheets_and_copy() -> None:
    """? and L open sheets, y copies the query that tells the page's life."""
    async with app_of("retract-and-grant", 101).run_test(size=SIZES["120x40"]) as pilot:
        await opened(pilot, "y")
        assert pilot.app.clipboard == "FROM page_life('full', 1)"
        for key, holds in (("question_mark", "Light all pages"), ("l", "prefix index until it is evicted")):
            await pilot.press(key)
            await pilot.pause()
            assert holds in screen_text(pilot.app)
            await pilot.press("escape")


def big_map(parents: int) -> PagesMap:
    """Return a map of one group whose page p has code p mod 11."""
    codes = bytes([0, *(p % 11 for p in range(1, parents + 1))])
    return PagesMap(
        round=1, groups=(PageGroup("full", "full", 1, 16),), parents=array("b", bytes(parents + 1)), codes=(codes,),
        owners=(array("i", [-1] * (parents + 1)),), shares=(bytes([3] * (parents + 1)),), counts=({},), tickets={},
        names={}, empty_parents=0, unknown_parents=0, unknown_cached=0, source="none",
    )  # fmt: skip


def test_only_visible_lines_are_made() -> None:
    """50,000 pages are 782 lines of 64; line 781 holds the last 16, and each cell's place is found again."""
    scene = PagesScene(HEAD, 1, map=big_map(50_000))
    document = pages_map(scene, Drawn(), 80, 30)
    assert document.height == 782
    text = document.line(781).text
    assert text.startswith(" 49985 ")
    assert len(text.split(maxsplit=1)[1].replace(" ", "")) == 16
    shape = geometry(scene.map, 80, 30)  # type: ignore[arg-type]
    for index in (0, 7, 8, 63):
        assert parent_at(scene, (80, 30), shape.x_of(index, 0), 2) == (129 + index, 0)
    assert parent_at(scene, (80, 30), shape.x_of(8, 0) - 1, 2) is None
    assert parent_at(scene, (80, 30), shape.x_of(20, 0), 781) is None


def test_packed_parents_have_a_cell_a_page() -> None:
    """Two groups of 4 and 1 pages a parent: a letter and four cells each; the fifth cell belongs to the next."""
    base = big_map(8)
    packed = replace(
        base,
        groups=(PageGroup("full", "full", 4, 16), PageGroup("state", "state", 1, 64)),
        parents=array("b", [0, 0, 1, -1, -2, 0, 0, 0, 0]),
        codes=(bytes([v.EMPTY, v.OWNED, v.SHARED, *[v.EMPTY] * 30]), bytes([0, 0, v.CACHED, *[0] * 6])),
        owners=(array("i", [-1] * 33), array("i", [-1] * 9)), shares=(bytes([2] * 33), bytes(9)),
    )  # fmt: skip
    line = pages_map(PagesScene(HEAD, 1, map=packed, parent=8), Drawn(), 60, 5).line(0)
    assert line.text == "    1 a■2·· b▒     ∙     ?    a···· a···· a···· a····"
    scene = PagesScene(HEAD, 1, map=packed)
    assert [parent_at(scene, (60, 5), x, 0) for x in (7, 10, 11, 12, 15)] == [(1, 0), (1, 3), None, (2, 0), (2, 0)]


def test_a_shared_page_says_by_how_many() -> None:
    """Three requests hold page 2; the card and the line under the map say three, as its cell does."""
    pages = replace(big_map(8), codes=(bytes([0, v.OWNED, v.SHARED, *[v.EMPTY] * 6]),))
    scene = PagesScene(HEAD, 1, map=pages, parent=2)
    assert pages_map(scene, Drawn(), 60, 5).line(0).text.startswith("    1 ■ 3 ")
    assert page_facts(scene, 40, 9).line(0).text == " page 2 of full  3 shared"
    assert "  3 shared" in under(scene, 80, 1).line(0).text


def test_help_and_legend_have_a_line_for_everything() -> None:
    """Every code of a page and every key is explained."""
    legend = "\n".join(line.text for line in pages_legend(90))
    assert all(name in legend for name in v.CODES)
    assert "escape" not in "\n".join(line.text for line in pages_help(PAGES_KEYS, 90))
    assert PageLife(0, 1, (), True).events == ()


def test_events_before_the_rounds_of_a_life_are_not_counted_among_those_in_them() -> None:
    """Of rounds 50 to 90: one event of round 40, of a request that was there in 50, and two of rounds 50 and 60."""
    events = tuple(PageEvent(round_, "taken", "r1", 0, 0, "taken") for round_ in (40, 50, 60))
    life = PageLife(0, 1, events, complete=False, rounds=(50, 90))
    document = page_life(PagesScene(HEAD, 60, map=big_map(8), life=life), 42, 9)
    text = [document.line(y).text for y in range(2)]
    assert text[0].endswith("2 events, rounds 50 to 90 ")
    assert text[1] == " and 1 event before; not all are told"


async def test_h_shows_the_host_pages_and_the_device_again() -> None:
    """Round 266 of readmission-seals: two host pages are being filled, of whose copies the card tells; H goes back."""
    async with app_of("readmission-seals", 266).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot, "H", *["right"] * 46, "right")
        assert screen.scene.map is not None and screen.scene.map.counts[0]["loading"] == 2
        assert screen.scene.map.codes[0][48] == v.LOADING
        compare(pilot.app, "pages-host-120x40")
        screen = await opened_again(pilot, "H")
        assert screen.scene.map is not None and screen.scene.map.tier == v.DEVICE
    async with app_of("retract-and-grant", 101).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot, "H")
        assert "no host tier" in screen.scene.message and screen.scene.tier == v.DEVICE


async def test_the_life_of_a_page_of_a_large_trace_is_sought_beyond_what_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Page 1 is taken in round 101 for the next time: from round 60 of a stretch to 92 one key goes there."""
    monkeypatch.setattr(life_of, "LARGE_ROWS", 0)
    monkeypatch.setattr(large, "REACH_ROUNDS", 32)
    async with app_of("retract-and-grant", 60).run_test(size=SIZES["120x40"]) as pilot:
        screen = await opened(pilot)
        assert screen.scene.life is not None and screen.scene.life.rounds == (28, 92)
        assert "rounds 28 to 92" in screen_text(pilot.app)
        assert (await opened_again(pilot, "]")).scene.round == 101
        assert (await opened_again(pilot, "[")).scene.round < 101
