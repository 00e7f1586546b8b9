"""Breakpoints, notes and the way back."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.tui.desks import FakeDesk
from tests.tui.fakes import FullView
from tests.tui.helpers import compare, compare_both, main_screen, pane_text, press, rest, screen_text
from tsviz.replay.survey.ask import HitPlaces, HitTotal, Refused
from tsviz.replay.survey.child import Survey
from tsviz.tui.app import DebuggerApp
from tsviz.tui.screens.main import MainScreen
from tsviz.tui.screens.notes import NotesScreen
from tsviz.tui.screens.watches import WatchesScreen
from tsviz.tui.trail import Spot, Trail
from tsviz.tui.watches import Places

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
TRACE = str(Path(__file__).parents[2] / "traces" / "head-of-line")


def app_on(desk: FakeDesk, round_: int = 61) -> DebuggerApp:
    """Return the application on the formula's trace with a desk."""
    return DebuggerApp(FullView(), start_round=round_, desk=desk)


async def typed(pilot: Pilot[None], text: str) -> None:
    """Fill the line that is asked for."""
    pilot.app.screen.query_one(Input).value = text
    await pilot.press("enter")
    await rest(pilot)


async def watching(pilot: Pilot[None], *predicates: str) -> WatchesScreen:
    """Open the breakpoints and add some."""
    await rest(pilot)
    await pilot.press("b")
    await rest(pilot)
    for predicate in predicates:
        await pilot.press("a")
        await rest(pilot)
        await typed(pilot, predicate)
    screen = pilot.app.screen
    assert isinstance(screen, WatchesScreen)
    return screen


@pytest.mark.parametrize("size", SIZES)
async def test_breakpoints(size: str) -> None:
    """Four hits at 20, 80, 80 and 200; one predicate is none; one is off; others are offered."""
    desk = FakeDesk()
    desk.hit_lists["pool.fre < 4"] = (Refused("failed", "pool has no column fre", (5, 3), ("pool.free", "pool.group")),)
    async with app_on(desk).run_test(size=SIZES[size]) as pilot:
        await watching(pilot, "rounds.retracted_requests > 1", "pool.fre < 4", "pool.free < 4")
        await pilot.press("home", "space", "down", "down")
        await rest(pilot)
        compare(pilot.app, f"breakpoints-{size}")
        await pilot.press("up")
        await rest(pilot)
        compare(pilot.app, f"breakpoints-error-{size}")


async def test_no_breakpoints_yet() -> None:
    """What could be one is offered, and enter adds it."""
    desk = FakeDesk()
    async with app_on(desk).run_test(size=(80, 24)) as pilot:
        screen = await watching(pilot)
        await compare_both(pilot, "breakpoints-none")
        await pilot.press("enter")
        await rest(pilot)
        assert desk.predicates == ["rounds.round = 61"]
        assert screen.height() == 7


async def test_continue_goes_from_hit_to_hit() -> None:
    """From 61: c goes to 80, once for both hits of it, then to 200, then nowhere; C goes back to 80 and 20."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = main_screen(pilot.app)
        await watching(pilot, "pool.free < 4")
        await pilot.press("escape")
        rounds = []
        for key in ("c", "c", "c", "C", "C", "C"):
            await press(pilot, key)
            await rest(pilot)
            rounds.append(screen.scene.round)
        assert rounds == [80, 200, 200, 80, 20, 20]
        assert "No breakpoint has a hit before here." in pane_text(pilot.app, "bottom")


async def test_a_breakpoint_that_is_off_does_not_count() -> None:
    """Nothing is left to go to."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await watching(pilot, "pool.free < 4")
        await pilot.press("space", "escape")
        await press(pilot, "c")
        assert "There is no breakpoint: b adds one." in pane_text(pilot.app, "bottom")


async def test_while_hits_are_sought() -> None:
    """c says so; R looks again."""
    desk = FakeDesk()
    desk.hit_gate = threading.Event()
    async with app_on(desk).run_test(size=(120, 40)) as pilot:
        await watching(pilot, "pool.free < 4")
        await pilot.press("escape")
        await press(pilot, "c")
        assert "The hits are being looked for." in pane_text(pilot.app, "bottom")
        desk.hit_gate.set()
        await rest(pilot)
        await press(pilot, "c")
        await rest(pilot)
        assert main_screen(pilot.app).scene.round == 80


async def test_enter_and_p_jump_from_the_list() -> None:
    """From 61 the next is 80, the previous 20."""
    for key, round_ in (("enter", 80), ("p", 20)):
        async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
            await watching(pilot, *(["pool.free < 4"] if key == "enter" else []))
            await pilot.press("home")
            await rest(pilot)
            await pilot.press(key)
            while not isinstance(pilot.app.screen, MainScreen):  # the hits of a kept predicate are looked for again
                await rest(pilot)
            await rest(pilot)
            assert main_screen(pilot.app).scene.round == round_


async def test_a_jump_waits_for_the_hits() -> None:
    """Enter while they are looked for says so, and goes to 80 when they are there."""
    desk = FakeDesk()
    desk.hit_gate = threading.Event()
    async with app_on(desk).run_test(size=(120, 40)) as pilot:
        screen = await watching(pilot, "pool.free < 4")
        await press(pilot, "enter")
        assert pilot.app.screen is screen
        assert "this goes to the first that comes" in screen_text(pilot.app)
        desk.hit_gate.set()
        while pilot.app.screen is screen:
            await rest(pilot)
        await rest(pilot)
        assert main_screen(pilot.app).scene.round == 80


async def test_predicates_are_kept_by_trace(kept: Path) -> None:
    """The text and whether it counts; hits are looked for again in the next session; a deleted one is gone."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await watching(pilot, "pool.free < 4", "rounds.round = 7", "rounds.round = 8")
        await pilot.press("d")
        await pilot.press("home", "space")
        await rest(pilot)
    path = kept / "state" / "traces" / "mooncake" / "watches.json"
    assert json.loads(path.read_text()) == [
        {"predicate": "pool.free < 4", "enabled": False},
        {"predicate": "rounds.round = 7", "enabled": True},
    ]
    desk = FakeDesk()
    async with app_on(desk).run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        assert desk.predicates == ["pool.free < 4", "rounds.round = 7"]


async def test_a_predicate_is_changed() -> None:
    """e asks for it again; the same one twice is told."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await watching(pilot, "rounds.round = 7")
        await pilot.press("e")
        await rest(pilot)
        assert pilot.app.screen.query_one(Input).value == "rounds.round = 7"
        await typed(pilot, "rounds.round = 9")
        assert [watch.predicate for watch in screen._all] == ["rounds.round = 9"]
        await pilot.press("a")
        await rest(pilot)
        await typed(pilot, "rounds.round = 9")
        assert screen.message == "That one is there already."


@pytest.mark.parametrize("damaged", ["{", '{"a": 1}', '[{"predicate": 7}, null]'])
async def test_damaged_breakpoints_are_told_or_left_out(kept: Path, damaged: str) -> None:
    """What is no JSON is told and not written over; entries that are none are left out."""
    path = kept / "state" / "traces" / "mooncake" / "watches.json"
    path.parent.mkdir(parents=True)
    path.write_text(damaged)
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await watching(pilot)
        assert screen._all == []
        assert ("not read and not kept" in screen._study.watches.problem) == (damaged == "{")
    assert path.read_text() == damaged


@pytest.mark.parametrize(("file", "key", "what"), [("watches", "b", "breakpoints"), ("notes", '"', "notes")])
async def test_the_reason_is_read_to_its_end_on_a_narrow_terminal(kept: Path, file: str, key: str, what: str) -> None:
    """At 80 columns the file's name comes first, then what to do, and the whole path is on the lines below."""
    path = kept / "state" / "traces" / "mooncake" / f"{file}.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    async with app_on(FakeDesk()).run_test(size=(80, 24)) as pilot:
        await rest(pilot)
        await pilot.press(key)
        await rest(pilot)
        lines = screen_text(pilot.app).splitlines()
    assert lines[1].startswith(f" {file}.json is damaged: {what} are not read and not kept; mend or delete")
    assert f"({path})" in "".join(text.strip() for text in lines[1:6])


async def test_notes_are_kept_listed_and_marked(kept: Path) -> None:
    """A note at 61 and a bookmark at 71; they stand in the list and in the timeline, and enter goes there."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        for keys, text in (("", "here [b]it[/b] begins"), ("N", "")):
            for key in keys:
                await press(pilot, key)
            await pilot.press("'")
            await rest(pilot)
            await typed(pilot, text)
        assert "Noted at 71." in pane_text(pilot.app, "bottom")
        assert "note" in main_screen(pilot.app).scene.strip.marks  # type: ignore[union-attr]
        await pilot.press('"')
        await rest(pilot)
        assert isinstance(pilot.app.screen, NotesScreen)
        await compare_both(pilot, "notes", "120x40", "80x24")
        await pilot.press("enter")
        await rest(pilot)
        assert main_screen(pilot.app).scene.round == 61
    stored = json.loads((kept / "state" / "traces" / "mooncake" / "notes.json").read_text())
    assert [(note["round"], note["text"]) for note in stored] == [(61, "here [b]it[/b] begins"), (71, "")]


async def test_a_note_is_changed_and_forgotten() -> None:
    """e changes the words, d forgets; without a note the screen says how to make one."""
    async with app_on(FakeDesk()).run_test(size=(80, 24)) as pilot:
        await rest(pilot)
        await pilot.press("'")
        await rest(pilot)
        await typed(pilot, "one")
        await pilot.press('"', "e")
        await rest(pilot)
        await typed(pilot, "two")
        screen = pilot.app.screen
        assert isinstance(screen, NotesScreen)
        assert [note.text for note in screen._study.notes.all] == ["two"]
        await pilot.press("d")
        await rest(pilot)
        await compare_both(pilot, "notes-none")


async def test_the_way_back_and_forward() -> None:
    """Jumps are remembered, steps are not: from 61 to 300, a step back, to 1; u goes 299, 61; U forward again."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await press(pilot, "end", "p", "home")
        rounds = []
        for key in ("u", "u", "u", "U", "U", "U"):
            await press(pilot, key)
            rounds.append(screen.scene.round)
        assert rounds == [299, 61, 61, 299, 1, 1]
        assert "no place to go forward" in pane_text(pilot.app, "bottom")


def test_a_jump_forgets_what_was_gone_back_from() -> None:
    """As in a browser."""
    trail = Trail()
    trail.left(Spot(1))
    trail.left(Spot(5))
    assert trail.back(Spot(9)) == Spot(5)
    trail.left(Spot(5))
    assert trail.forward(Spot(7)) is None
    assert trail.back(Spot(7)) == Spot(5)
    assert trail.back(Spot(5)) == Spot(1)
    assert trail.back(Spot(1)) is None


@pytest.mark.parametrize(
    ("round_", "stop", "step", "index"),
    [(1, None, 1, 0), (10, 2, 1, 1), (10, 3, 1, 1), (10, None, 1, 3), (12, None, 1, None), (12, None, -1, 2),
     (10, None, -1, 1), (10, 5, -1, 0), (10, 3, -1, 0), (10, 1, -1, None)],
)  # fmt: skip
def test_places_beside(round_: int, stop: int | None, step: int, index: int | None) -> None:
    """Hits at 10.2, 10.5, the end of 10, and the end of 12; a place without a stop is the end of its round."""
    places = Places()
    places.add(HitPlaces((10, 10, 10, 12), (2, 5, -1, -1), (-1,) * 4, ("",) * 4))
    assert places.beside(round_, stop, step) == index
    assert places.between(10, 11) == 3


def test_hits_come_from_a_process_of_their_own() -> None:
    """head-of-line has 55 rounds, 3 of them below 4; a wrong name is refused at its place."""
    ask = {"what": "hits", "trace": TRACE, "node": "F", "rank": 0}
    answers = list(Survey(ask | {"predicate": "rounds.round < 4"}))
    assert isinstance(answers[0], HitPlaces)
    assert answers[0].rounds == (1, 2, 3)
    assert answers[-1] == HitTotal(3, True)
    refused = list(Survey(ask | {"predicate": "rounds.rond < 4"}))
    assert isinstance(refused[0], Refused)
    assert refused[0].at == (7, 4) or refused[0].at is not None
