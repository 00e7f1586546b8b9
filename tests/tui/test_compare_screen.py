"""Two traces side by side."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from tests.tui.desks import MET, SIDES, FakeDesk
from tests.tui.fakes import FullView
from tests.tui.helpers import compare, compare_both, main_screen, rest, screen_text
from tsviz.replay.diff.sides import MetSome, Sides
from tsviz.replay.survey.ask import Failed
from tsviz.replay.survey.child import Survey
from tsviz.tui.app import DebuggerApp
from tsviz.tui.desk import TraceDesk
from tsviz.tui.screens.ask_line import AskLine
from tsviz.tui.screens.compare import CompareScreen
from tsviz.tui.screens.main import MainScreen
from tsviz.tui.what_ifs import WhatIf, settings_of

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
TRACES = Path(__file__).parents[2] / "traces"


async def opened(pilot: Pilot[None], *keys: str) -> CompareScreen:
    """Open the comparison with a trace that is asked for, and press keys."""
    await rest(pilot)
    await pilot.press("D")
    await rest(pilot)
    assert isinstance(pilot.app.screen, AskLine)
    pilot.app.screen.query_one(Input).value = "runs/mooncake-2x"
    await pilot.press("enter")
    await rest(pilot)
    for key in keys:
        await pilot.press(key)
        await rest(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, CompareScreen)
    return screen


def app_on(desk: FakeDesk, **more: str) -> DebuggerApp:
    """Return the application on the formula's trace with a desk."""
    return DebuggerApp(FullView(), start_round=61, desk=desk, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("view", "keys"), [("fleet", ()), ("requests", ("2", "down"))])
async def test_side_by_side(size: str, view: str, keys: tuple[str, ...]) -> None:
    """The plans part in round 64 of 300; 12 retractions became none; r59 ends 5.9 s earlier."""
    async with app_on(FakeDesk()).run_test(size=SIZES[size]) as pilot:
        await opened(pilot, *keys)
        compare(pilot.app, f"compare-{view}-{size}")


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("error", (Failed("runs/mooncake-2x/bundle.json: expected a bundle, found nothing"),)),
        ("equal", (replace(SIDES, parts_at=None, rows_at=None, equal_rounds=300, values=(None, None)), MET)),
    ],
)
async def test_other_states(name: str, answers: tuple[object, ...]) -> None:
    """No comparison; no difference."""
    desk = FakeDesk()
    desk.compared = answers
    async with app_on(desk).run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        await compare_both(pilot, f"compare-{name}")
        await pilot.press("d")
        assert screen.message


async def test_while_it_compares() -> None:
    """It says so, and ctrl+c stops it."""
    desk = FakeDesk()
    desk.gate = threading.Event()
    async with app_on(desk).run_test(size=(80, 24)) as pilot:
        screen = await opened(pilot)
        assert "◌ Comparing with runs/mooncake-2x" in screen_text(pilot.app)
        await pilot.press("ctrl+c")
        await rest(pilot)
        comparison = desk.streams[desk.asked.index(("runs/mooncake-2x", False))]  # the checks may have begun behind it
        assert comparison.cancelled.is_set()
        assert "stopped" in screen_text(pilot.app)
        await pilot.press("ctrl+c")
        assert screen.message == "Nothing is being compared."


@pytest.mark.parametrize(
    ("keys", "round_"),
    [("d", 64), ("r", 70), ("2 enter", 178), ("2 down enter", 175)],
)
async def test_jumps(keys: str, round_: int) -> None:
    """d: where plans part; r: where rows do; a request: where it is submitted, 1 + 3 x 59 = 178 for r59."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        for key in keys.split():
            await pilot.press(key)
            await rest(pilot)
        assert isinstance(pilot.app.screen, MainScreen)
        assert main_screen(pilot.app).scene.round == round_


async def test_the_path_is_asked_over_a_screen_that_stays_visible() -> None:
    """D with no other trace: the dialog is translucent, and below it stands what will be compared."""
    async with app_on(FakeDesk()).run_test(size=(100, 30)) as pilot:
        await rest(pilot)
        await pilot.press("D")
        await rest(pilot)
        dialog, below = pilot.app.screen, pilot.app.screen_stack[-2]
        assert isinstance(dialog, AskLine)
        assert 0 < dialog.styles.background.a < 1
        strips = below._compositor.render_strips(pilot.app.size)
        assert "Compare this trace with another one" in "".join(segment.text for strip in strips for segment in strip)


async def test_it_opens_at_once_when_a_trace_is_named() -> None:
    """`tsviz open A --compare B`: the comparison lies over the main screen; escape goes to it."""
    desk = FakeDesk()
    async with app_on(desk, compare="runs/other").run_test(size=(80, 24)) as pilot:
        await rest(pilot)
        await rest(pilot)
        assert isinstance(pilot.app.screen, CompareScreen)
        assert ("runs/other", False) in desk.asked
        await pilot.press("escape")
        await rest(pilot)
        assert isinstance(pilot.app.screen, MainScreen)


async def test_the_mouse() -> None:
    """A column of the timelines goes there; one of B alone is told; tabs open."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.click("#compare-tabs", offset=(14, 0))
        await rest(pilot)
        assert "[2 Requests 60]" in screen_text(pilot.app)
        await pilot.click("#compare-timelines", offset=(69, 1))
        await rest(pilot)
        assert isinstance(pilot.app.screen, MainScreen)
        assert 140 <= main_screen(pilot.app).scene.round <= 160


def test_two_traces_are_compared_in_a_process_of_their_own() -> None:
    """A trace equals itself: 55 rounds, 9 requests without a change; another one parts in round 1."""
    ask = {"what": "compare", "trace": str(TRACES / "head-of-line"), "node": "F", "rank": 0}
    same = list(Survey(ask | {"other": str(TRACES / "head-of-line")}))
    assert isinstance(same[0], Sides)
    assert (same[0].parts_at, same[0].equal_rounds, same[0].rounds) == (None, 55, (55, 55))
    assert isinstance(same[1], MetSome)
    assert {met.change(0) for met in same[1].requests} == {0.0}
    other = next(iter(Survey(ask | {"other": str(TRACES / "retract-and-grant")})))
    assert isinstance(other, Sides)
    assert (other.parts_at, other.rounds) == (1, (55, 310))
    assert len(other.lanes) == 6


async def test_a_what_if_is_run_and_compared() -> None:
    """`chunk=8` is no path: the trace runs again, and what came of it stands first: the stall of A is none in B."""
    desk = TraceDesk(str(TRACES / "mixed-stall"), "F", 0)
    async with app_on(desk).run_test(size=(120, 40)) as pilot:  # type: ignore[arg-type]
        await rest(pilot)
        await pilot.press("D")
        await rest(pilot)
        pilot.app.screen.query_one(Input).value = "chunk=8"
        await pilot.press("enter")
        screen = pilot.app.screen
        assert isinstance(screen, CompareScreen)
        while screen._now.known.running:
            await pilot.pause(0.02)
        await rest(pilot)
        said = screen_text(pilot.app)
        assert "baseline: a permanent stall" in said and "what-if (chunk=8): every request ends" in said
        assert "finished 0 -> 2 of 2; retractions 0; in all 32.08 ms -> 24.24 ms (-24.4 %)" in said
        assert "5 and 4 rounds" in said


def test_what_cannot_be_run_says_why() -> None:
    """A node of a pair is no node that does both: the words of the command; a path that is there is no knob."""
    (failed,) = list(WhatIf(f"{TRACES / 'prefill-decode-pair'}@P/0", ("pages=9",), never))
    assert isinstance(failed, Failed) and "this one is role P; record it with the knob turned" in failed.error
    assert settings_of("pages=257 max_new=declared") == ("pages=257", "max_new=declared")
    assert settings_of("runs/a") == settings_of(str(TRACES)) == settings_of("a=b c") == ()


def never(_path: str) -> Survey:
    """Fail: nothing is compared where nothing was run."""
    raise AssertionError
