"""The findings: listed worst first, with their evidence, and a jump to where they are."""

from __future__ import annotations

import threading

import pytest
from textual.pilot import Pilot

from tests.tui.desks import CHECKED, FOUND, FakeDesk, check
from tests.tui.fakes import FullView
from tests.tui.helpers import compare, compare_both, pane_text, rest, screen_text
from tsviz.replay.survey.ask import Extent, Failed, Plan, Progress
from tsviz.tui.app import DebuggerApp
from tsviz.tui.screens.findings import FindingsScreen
from tsviz.tui.screens.main import MainScreen

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}
UNKNOWN = (Plan(2), Extent("P/0", "none", 0, 300), *CHECKED[:2])


def app_on(desk: FakeDesk, round_: int = 61) -> DebuggerApp:
    """Return the application on the formula's trace with a desk."""
    return DebuggerApp(FullView(), start_round=round_, desk=desk)


async def opened(pilot: Pilot[None], *keys: str) -> FindingsScreen:
    """Open the findings and press keys."""
    await rest(pilot)
    for key in ("f", *keys):
        await pilot.press(key)
        await rest(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, FindingsScreen)
    return screen


@pytest.mark.parametrize("size", SIZES)
async def test_found(size: str) -> None:
    """One broken, one stuck, one costly, one clean, one not checkable."""
    async with app_on(FakeDesk()).run_test(size=SIZES[size]) as pilot:
        await opened(pilot)
        compare(pilot.app, f"findings-{size}")


@pytest.mark.parametrize("size", SIZES)
async def test_while_it_checks(size: str) -> None:
    """Three of five are made, rounds are being re-executed; what is there is listed."""
    desk = FakeDesk((*FOUND[:5], Progress("rounds re-executed", 120, 300), *FOUND[5:]))
    desk.gate, desk.stop_at = threading.Event(), 6
    async with app_on(desk).run_test(size=SIZES[size]) as pilot:
        await opened(pilot)
        compare(pilot.app, f"findings-running-{size}")


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("none", (Plan(2), Extent("P/0", "recorded", 300, 300), *CHECKED[:2])),
        ("error", (Failed("runs/mooncake/parts/P.0/part.json: crc: expected 12, found 13"),)),
        ("unknown", UNKNOWN),
        ("diverged", (Plan(2), Extent("P/0", "derived", 120, 300, "the twin leaves the recording in round 121"),
                      *CHECKED[:3])),
    ],
)  # fmt: skip
async def test_other_states(name: str, answers: tuple[object, ...]) -> None:
    """Nothing found; the trace cannot be read; decisions not known; known up to the divergence."""
    async with app_on(FakeDesk(answers)).run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await compare_both(pilot, f"findings-{name}")


@pytest.mark.parametrize(
    ("keys", "round_", "selected"),
    [("down enter", 290, None), ("down e", 300, None), ("end home down down enter", 40, 4), ("j j k j e", 90, None)],
)
async def test_enter_jumps(keys: str, round_: int, selected: int | None) -> None:
    """The second is the stall of rounds 290 to 300, the third the storm of 40 to 90, whose first request is r4."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        await pilot.press("f")
        await rest(pilot)
        for key in keys.split():
            await pilot.press(key)
            await rest(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, MainScreen)
        assert screen.scene.round == round_
        if selected is not None:
            assert screen.scene.selected == selected


async def test_another_part_without_a_way_to_it_is_named() -> None:
    """The breach is in D/0, and P/0 is on the screen of a view that knows no other."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("enter")
        await rest(pilot)
        assert "That is in part D/0: tsviz open runs/mooncake@D/0:64" in screen_text(pilot.app)


@pytest.mark.parametrize(("of_device", "view"), [(True, "device"), (False, "why")])
async def test_a_finding_opens_the_view_that_says_more(of_device: bool, view: str) -> None:
    """Of a device its operations in that round; of what waits, why."""
    one = check("race", "found", "broken", "something is wrong", rounds=(40, 90), of_device=of_device)
    async with app_on(FakeDesk((Plan(1), Extent("P/0", "recorded", 300, 300), one))).run_test(size=(120, 40)) as pilot:
        await opened(pilot)
        await pilot.press("enter")
        await rest(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, MainScreen)
        assert (screen.scene.round, screen.scene.view) == (40, view)


async def test_a_check_without_a_round_says_so() -> None:
    """The last one found nothing."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "end", "enter")
        assert screen.message == "Nothing was found here: there is no round to go to."


async def test_decisions_are_derived_on_demand() -> None:
    """D asks anew, with re-execution; where all is known it says so; R asks again without."""
    desk = FakeDesk(UNKNOWN)
    async with app_on(desk).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        desk.found = FOUND
        await pilot.press("D")
        await rest(pilot)
        await pilot.press("D")
        assert screen.message == "Decisions are known as far as they can be."
        await pilot.press("R")
        await rest(pilot)
        assert desk.asked == [("findings", False), ("derive", True), ("findings", True), ("findings", False)]


async def test_checking_can_be_stopped() -> None:
    """ctrl+c ends the process; what was found stays."""
    desk = FakeDesk()
    desk.gate, desk.stop_at = threading.Event(), 5
    async with app_on(desk).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot, "ctrl+c")
        assert desk.streams[0].cancelled.is_set()
        assert "stopped" in screen_text(pilot.app)
        assert screen.height() == 3
        await pilot.press("ctrl+c")
        assert screen.message == "Nothing is being checked."


async def test_the_main_screen_counts_them() -> None:
    """Checks begin by themselves, and the header says how many were found; a click there opens them."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        assert "✗ 3 findings" in pane_text(pilot.app, "header")
        await pilot.click("#header", offset=(112, 1))
        await rest(pilot)
        assert isinstance(pilot.app.screen, FindingsScreen)


async def test_the_mouse_chooses_and_jumps() -> None:
    """A click puts the cursor on a line, another one on it jumps; a round and a request of the evidence are links."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.click("#finding-list", offset=(20, 3))
        await rest(pilot)
        assert screen.cursor == 1
        await pilot.click("#finding-list", offset=(20, 3))
        await rest(pilot)
        main = pilot.app.screen
        assert isinstance(main, MainScreen)
        assert main.scene.round == 290


async def test_hostile_strings_stay_strings() -> None:
    """A sentence with markup and escapes is shown as it is, harmless."""
    from tests.tui.desks import check

    hostile = check(
        "x", "found", "costly", "a[/red]\x1b]52;c;aGk=\x07 'b'", rounds=(3, 4), requests=("[bold]\x1b[31m",)
    )
    async with app_on(FakeDesk((Plan(1), hostile))).run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        text = screen_text(pilot.app)
        assert "\x1b" not in text
        assert "a[/red]␛]52" in text
        assert "[bold]␛[31m" in text
