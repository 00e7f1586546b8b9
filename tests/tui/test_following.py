"""Following a recording on the screen: the follower is a fake whose looks the test decides."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from tests.tui.desks import CHECKED, FakeDesk
from tests.tui.fakes import HEAD, FullView
from tests.tui.helpers import compare_both, main_screen, pane_text, press, settle
from tsviz.replay.follow_values import ALIVE, FINISHED, GONE, KILLED, LIVE, UNKNOWN, Look
from tsviz.replay.recorded.snapshot import Frontier, RecordedView
from tsviz.replay.survey.ask import Extent, Plan
from tsviz.tui import following
from tsviz.tui.app import DebuggerApp
from tsviz.tui.following import Follow, follow_spans

SIZE = (120, 40)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look fifty times a second."""
    monkeypatch.setattr(following, "LOOK_S", 0.02)


class FakeFollower:
    """Says what it is told to say; its views have as many rounds as were committed then."""

    def __init__(self, rounds: int) -> None:
        self.now = Look(rounds, LIVE, ALIVE, 0.2)
        self.looks = 0
        self.views: list[int] = []
        self.broken: Exception | None = None
        self._lock = threading.Lock()

    def look(self) -> Look:
        """Return how far the recording is."""
        self.looks += 1
        if self.broken is not None:
            raise self.broken
        return self.now

    def view(self) -> RecordedView:
        """Return what is committed now."""
        self.views.append(self.now.rounds)
        return FullView(head_of(self.now))


def head_of(look: Look) -> object:
    """Return the head of a trace as far as it is committed."""
    return replace(HEAD, rounds=look.rounds, live=look.state != FINISHED)


def app_of(follower: FakeFollower, *, follow: bool, start: int = 1) -> DebuggerApp:
    """Return the application on a trace that is being written."""
    view = FullView(head_of(follower.now))  # type: ignore[arg-type]
    return DebuggerApp(view, start_round=start, follower=follower, follow=follow)


async def looked(pilot: Pilot[None], follower: FakeFollower) -> None:
    """Wait until the follower was asked twice more and what came of it is shown."""
    seen, until = follower.looks, time.monotonic() + 20
    while follower.looks < seen + 2:
        await pilot.pause(0.02)
        assert time.monotonic() < until
    await settle(pilot)
    await pilot.pause()
    await settle(pilot)


async def test_new_rounds_are_shown_paused_and_caught_up() -> None:
    """100 rounds, then 104; paused by a step back while 120 come; F shows the 120th, and each between is there."""
    follower = FakeFollower(100)
    async with app_of(follower, follow=True, start=-1).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        assert screen.scene.round == 100
        follower.now = replace(follower.now, rounds=104)
        await looked(pilot, follower)
        assert (screen.scene.round, screen.scene.rounds) == (104, 104)
        assert "◍ live ▶ following lag 0.2 s" in pane_text(pilot.app, "header")
        await compare_both(pilot, "following", "120x40", "80x24")
        await press(pilot, "p")
        follower.now = replace(follower.now, rounds=120)
        await looked(pilot, follower)
        assert (screen.scene.round, screen.scene.rounds) == (103, 104)
        assert "◍ live ‖ paused 16 rounds behind" in pane_text(pilot.app, "header")
        opened = len(follower.views)
        await looked(pilot, follower)
        assert len(follower.views) == opened
        await press(pilot, "F")
        await looked(pilot, follower)
        assert (screen.scene.round, screen.scene.rounds) == (120, 120)
        seen = [(await press(pilot, "p")).scene.frame.snapshot.round for _ in range(20)]  # type: ignore[union-attr]
        assert seen == list(range(119, 99, -1))


async def test_while_a_newer_view_is_opened_the_older_one_is_shown() -> None:
    """What came before stays, timeline included, and keys are answered from it; the newer one is read before it is
    looked at, not by the thread that answers keys."""

    class Gated(FakeFollower):
        gate: threading.Event | None = None
        warmed: list[str] = []  # noqa: RUF012

        def view(self) -> RecordedView:
            view = FullView(head_of(self.now))  # type: ignore[arg-type]
            view.gate = self.gate
            snapshot = view.snapshot

            def told(round_: int, selected: int | None = None) -> object:
                self.warmed.append(threading.current_thread().name)
                return snapshot(round_, selected)

            view.snapshot = told  # type: ignore[method-assign,assignment]
            return view

    follower = Gated(100)
    async with app_of(follower, follow=True, start=-1).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        strip = screen.scene.strip
        assert strip is not None
        follower.gate = threading.Event()
        follower.now = replace(follower.now, rounds=104)
        while not follower.warmed:
            await pilot.pause(0.01)
        screen = await press(pilot, "p")
        assert (screen.scene.round, screen.scene.rounds) == (99, 100)
        assert screen.scene.strip is strip
        follower.gate.set()
        await looked(pilot, follower)
        assert screen.scene.rounds == 104
        assert follower.warmed[0] == "tsviz-follow"


async def test_without_follow_new_rounds_are_counted_only() -> None:
    """`tsviz open` on a live trace starts at round 1 and counts; F goes to the end and follows, F again pauses."""
    follower = FakeFollower(100)
    async with app_of(follower, follow=False).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        follower.now = replace(follower.now, rounds=130)
        await looked(pilot, follower)
        assert (screen.scene.round, screen.scene.rounds, follower.views) == (1, 100, [])
        await press(pilot, "F")
        await looked(pilot, follower)
        assert screen.scene.round == 130
        await press(pilot, "F")
        assert "Paused" in pane_text(pilot.app, "bottom")


async def test_the_end_of_the_recording_is_told() -> None:
    """Closed by the recorder: finished, with its reason and its last round, and looking stops."""
    follower = FakeFollower(100)
    async with app_of(follower, follow=False).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        follower.now = Look(140, FINISHED, GONE, 0.0, "drained")
        for _ in range(100):
            await pilot.pause(0.02)
            if screen.scene.rounds == 140:
                break
        await settle(pilot)
        assert "The recording was closed (drained): 140 rounds in all." in pane_text(pilot.app, "bottom")
        assert "■ finished" in pane_text(pilot.app, "header")
        assert (screen.scene.round, screen.scene.rounds) == (1, 140)
        looks = follower.looks
        await pilot.pause(0.2)
        assert follower.looks == looks


async def test_a_killed_recorder_is_told() -> None:
    """What was committed is shown, and the header and a sentence say that the recorder was killed."""
    follower = FakeFollower(100)
    async with app_of(follower, follow=True, start=-1).run_test(size=SIZE) as pilot:
        screen = await settle(pilot)
        follower.now = Look(111, KILLED, GONE, 3.0)
        for _ in range(100):
            await pilot.pause(0.02)
            if screen.scene.rounds == 111:
                break
        await settle(pilot)
        assert screen.scene.round == 111
        assert "recorder killed" in pane_text(pilot.app, "header")
        assert "111 rounds up to its last commit are whole" in pane_text(pilot.app, "bottom")


async def test_a_trace_that_cannot_be_followed_says_why_and_goes_on() -> None:
    """Damage is told in the last line; what is open can be stepped through."""
    follower = FakeFollower(100)
    async with app_of(follower, follow=False).run_test(size=SIZE) as pilot:
        await settle(pilot)
        follower.broken = OSError("commits.jsonl, line 7: a line that contradicts it")
        await looked(pilot, follower)
        assert "commits.jsonl, line 7" in pane_text(pilot.app, "bottom")
        assert "cannot be followed" in pane_text(pilot.app, "header")
        assert (await press(pilot, "n")).scene.round == 2


async def test_nothing_is_followed_on_a_finished_trace() -> None:
    """F says so."""
    async with DebuggerApp(FullView()).run_test(size=SIZE) as pilot:
        await settle(pilot)
        await press(pilot, "F")
        assert "is not being written" in main_screen(pilot.app).scene.message


def test_the_header_says_what_is_known() -> None:
    """Lag, silence, a recorder of which nothing is known; short forms on a narrow terminal."""

    def said(look: Look | None, width: int, rounds: int = 100, running: bool = True) -> str:
        return "".join(span.text for span in follow_spans(Follow(look, running), rounds, width))

    assert said(None, 120) == "◍ live"
    assert said(Look(100, LIVE, ALIVE, 12.0), 120) == "◍ live ▶ following no commit for 12 s"
    assert said(Look(100, LIVE, UNKNOWN, 12.0), 120).endswith("(process not known)")
    assert said(Look(1300, LIVE, ALIVE, 0.1), 80, running=False) == "◍ live ‖ +1,200"
    assert said(Look(100, KILLED, GONE, 9.0), 80) == "✗ killed"


async def said(pilot: Pilot[None], words: str) -> None:
    """Wait until the header says so."""
    until = time.monotonic() + 20
    while words not in pane_text(pilot.app, "header"):
        await pilot.pause(0.02)
        assert time.monotonic() < until, pane_text(pilot.app, "header")


async def test_a_recording_that_was_followed_to_its_end_is_verified_as_one_that_is_opened_then() -> None:
    """Findings are those of round 100 while it grows; once it is closed, 300 rounds are checked anew and verified."""
    follower, desk = FakeFollower(100), FakeDesk()
    desk.found = (Plan(2), Extent("P/0", "none", 0, 100), *CHECKED[:2])
    desk.derived = (Extent("P/0", "derived", 300, 300),)
    desk.renewed = FullView(replace(HEAD, frontier=Frontier("derived", HEAD.rounds)))
    view = FullView(head_of(follower.now))  # type: ignore[arg-type]
    app = DebuggerApp(view, start_round=-1, follower=follower, follow=True, desk=desk)
    async with app.run_test(size=(160, 40)) as pilot:
        await said(pilot, "no findings as of round 100")
        assert ("derive", True) not in desk.asked
        desk.found = (Plan(2), Extent("P/0", "none", 0, 300), *CHECKED[:2])
        follower.now = Look(300, FINISHED, GONE, 0.2, "closed")
        await said(pilot, "✓ verified")
        await said(pilot, "no findings")
        assert "as of" not in pane_text(app, "header")
        assert desk.asked.count(("derive", True)) == 1


async def test_a_recording_without_rounds_is_checked_once_it_has_some() -> None:
    """Opened before its first round, the findings are asked for when there is one."""
    follower, desk = FakeFollower(0), FakeDesk()
    view = FullView(head_of(follower.now))  # type: ignore[arg-type]
    app = DebuggerApp(view, start_round=-1, follower=follower, follow=True, desk=desk)
    async with app.run_test(size=(160, 40)) as pilot:
        await looked(pilot, follower)
        assert desk.asked == []
        follower.now = replace(follower.now, rounds=4)
        await said(pilot, "3 findings")
