"""Lost time: bars by cause for the fleet, classes and requests, and a jump to the longest run."""

from __future__ import annotations

import threading

import pytest
from textual.pilot import Pilot

from tests.tui.desks import LOST, FakeDesk
from tests.tui.desks import key as lost_key
from tests.tui.fakes import FullView
from tests.tui.helpers import compare, compare_both, rest, screen_text
from tsviz.replay.lost.keys import LostCause, LostKey, LostPhase
from tsviz.replay.lost.model import Run
from tsviz.replay.survey.ask import Extent, Failed, LostTime, Progress
from tsviz.tui.app import DebuggerApp
from tsviz.tui.causes import CAUSES
from tsviz.tui.panes.known import title
from tsviz.tui.screens.lost import LostScreen
from tsviz.tui.screens.main import MainScreen
from tsviz.tui.study import Known

SIZES = {"80x24": (80, 24), "120x40": (120, 40)}


def app_on(desk: FakeDesk) -> DebuggerApp:
    """Return the application on the formula's trace with a desk."""
    return DebuggerApp(FullView(), start_round=61, desk=desk)


async def opened(pilot: Pilot[None], *keys: str) -> LostScreen:
    """Open lost time and press keys."""
    await rest(pilot)
    for key in ("L", *keys):
        await pilot.press(key)
        await rest(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, LostScreen)
    return screen


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("view", "keys"), [("fleet", ()), ("request", ("3", "down", "down", "tab", "down"))])
async def test_views(size: str, view: str, keys: tuple[str, ...]) -> None:
    """6 of 10 s are head of line: 60 %; a token took 2 s / 160."""
    async with app_on(FakeDesk()).run_test(size=SIZES[size]) as pilot:
        await opened(pilot, *keys)
        compare(pilot.app, f"lost-{view}-{size}")


@pytest.mark.parametrize(
    ("name", "answers"),
    [
        ("unknown", (Extent("P/0", "none", 0, 300),)),
        ("error", (Failed("runs/mooncake/parts/P.0/part.json: crc: expected 12, found 13"),)),
        ("none", (Extent("P/0", "recorded", 300, 300), Progress("requests split", 0, 0))),
    ],
)
async def test_other_states(name: str, answers: tuple[object, ...]) -> None:
    """Decisions not known; the trace cannot be read; no request has a span."""
    async with app_on(FakeDesk(lost=answers)).run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        await compare_both(pilot, f"lost-{name}")


async def test_requests_that_ended_without_a_token() -> None:
    """Two were aborted: of their 4 s, 3 s went with the peer and 1 s before their first plan, below those of others."""
    second = 1_000_000_000
    phase = LostPhase("ended_without_token", 4 * second, 2, 2, (
        LostCause("remote_transfer", 3 * second, "r4", 4, Run(20, 39, 3 * second)),
        LostCause("before_first_plan", second, "r9", 9, Run(64, 64, second)),
    ))  # fmt: skip
    lost = (*LOST[:2], LostTime((LostKey("fleet", "all requests", (*lost_key("fleet", "").phases, phase)),)))
    async with app_on(FakeDesk(lost=lost)).run_test(size=(80, 24)) as pilot:
        await opened(pilot, "end")
        await compare_both(pilot, "lost-ended")


async def test_who_was_in_the_way_has_a_list_of_its_own() -> None:
    """r7 held r4 up for 6 s, from round 20 to 39, and `enter` on that goes there; without holders that is said."""
    second = 10**9
    phase = LostPhase("ttft", 6 * second, 1, 1, (LostCause("head_of_line", 6 * second, "r4", 4, RUN),))
    lost = (*LOST, LostTime((LostKey("holder", "r7", (phase,)),)))
    async with app_on(FakeDesk(lost=lost)).run_test(size=(120, 40)) as pilot:
        await opened(pilot, "4")
        said = screen_text(pilot.app)
        assert "4 Holders" in said and "r7" in said and "behind r7" in said
        await pilot.press("tab", "enter")
        await rest(pilot)
        assert isinstance(pilot.app.screen, MainScreen)
        assert (pilot.app.screen.scene.round, pilot.app.screen.scene.selected) == (20, 4)
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await opened(pilot, "4")
        assert "nobody was in another's way" in screen_text(pilot.app)


RUN = Run(20, 39, 6 * 10**9, "r7")


async def test_while_it_splits() -> None:
    """The progress stands at the top, and leaving does not stop it."""
    desk = FakeDesk()
    desk.gate, desk.stop_at = threading.Event(), 2
    async with app_on(desk).run_test(size=(80, 24)) as pilot:
        await opened(pilot)
        assert "◌ Splitting" in screen_text(pilot.app)
        await pilot.press("escape")
        desk.gate.set()
        await rest(pilot)
        await opened(pilot)
        assert "head of line" in screen_text(pilot.app)
        assert [what for what, _ in desk.asked].count("lost") == 1


@pytest.mark.parametrize(
    ("keys", "round_", "selected"),
    [
        ("enter", 20, 4), ("down enter", 64, 9), ("end enter", 45, 4), ("2 enter enter", 20, 4),
        ("3 down enter down down enter", 40, 4), ("3 end tab pagedown enter", 45, 4),
        ("2 right left right enter", 20, 4),
    ],
)  # fmt: skip
async def test_enter_jumps_to_the_longest_run(keys: str, round_: int, selected: int) -> None:
    """Head of line held r4 longest from round 20, capacity r9 in round 64, rows of r4 from round 40 and 45."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        await pilot.press("L")
        await rest(pilot)
        for key in keys.split():
            await pilot.press(key)
            await rest(pilot)
        screen = pilot.app.screen
        assert isinstance(screen, MainScreen)
        assert (screen.scene.round, screen.scene.selected) == (round_, selected)


async def test_the_mouse() -> None:
    """Tabs open views, a line of the list opens it, a bar is chosen with one click and jumped to with another."""
    async with app_on(FakeDesk()).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        await pilot.click("#lost-views", offset=(28, 0))
        await rest(pilot)
        assert "[3 Requests 60]" in screen_text(pilot.app)
        await pilot.click("#lost-list", offset=(5, 4))
        await rest(pilot)
        assert screen._key == 3
        await pilot.click("#lost-bars", offset=(5, 3))
        await rest(pilot)
        assert screen.cursor == 1
        await pilot.click("#lost-bars", offset=(5, 3))
        await rest(pilot)
        assert isinstance(pilot.app.screen, MainScreen)


async def test_ways_to_ask_anew() -> None:
    """D derives where nothing is known, R asks again, ctrl+c stops; in the fleet tab has nowhere to go."""
    desk = FakeDesk(lost=(Extent("P/0", "none", 0, 300),))
    async with app_on(desk).run_test(size=(120, 40)) as pilot:
        screen = await opened(pilot)
        desk.lost = LOST
        await pilot.press("D")
        await rest(pilot)
        await pilot.press("D")
        assert screen.message == "Decisions are known as far as they can be."
        await pilot.press("R")
        await rest(pilot)
        assert [ask for ask in desk.asked if ask[0] == "lost"] == [("lost", False), ("lost", True), ("lost", False)]
        await pilot.press("tab")
        assert screen.message.startswith("There is one list here")
        await pilot.press("ctrl+c")
        assert screen.message == "Nothing is at work."


def test_the_title_counts_rounds_from_the_first_that_is_kept() -> None:
    """Of rounds 757 to 1,500, which a ring kept, there are 744."""
    extent = Extent("F/0", "recorded", 1_500, 1_500, first_round=757)
    _, ground = title("Lost time", "ring", Known(extents=(extent,)), (), 120)
    assert "recorded, all 744 rounds" in "".join(span.text for span in ground.spans)


def test_every_cause_has_a_mark() -> None:
    """Causes of verdicts and of lost time, none more."""
    from tsviz.replay.lost.model import OWN_CAUSES
    from tsviz.scheduler.decisions import CAUSES as DECIDED

    assert set(CAUSES) == {*DECIDED, *OWN_CAUSES}
