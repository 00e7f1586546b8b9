"""A trace that was recorded without decisions is re-executed beside the screen, and then looked at anew."""

from __future__ import annotations

import threading
from dataclasses import replace

from textual.pilot import Pilot

from tests.tui.desks import CHECKED, FakeDesk
from tests.tui.fakes import HEAD, FullView
from tests.tui.helpers import pane_text, rest
from tsviz.replay.recorded.snapshot import Frontier
from tsviz.replay.survey.ask import Extent, Plan, Progress
from tsviz.tui.app import DebuggerApp
from tsviz.tui.panes.finding_lines import badge
from tsviz.tui.study import Findings, Known

UNKNOWN = (Plan(2), Extent("P/0", "none", 0, 300), *CHECKED[:2])


def desk_that_derives() -> FakeDesk:
    """Return a desk on a trace without decisions; it waits at its gate after 120 of 300 rounds."""
    desk = FakeDesk(UNKNOWN)
    desk.derived = (Progress("rounds re-executed", 120, 300), Extent("P/0", "derived", 300, 300))
    desk.renewed = FullView(replace(HEAD, frontier=Frontier("derived", HEAD.rounds)))
    return desk


async def until(pilot: Pilot[None], words: str) -> None:
    """Wait until the header says so."""
    for _ in range(600):
        if words in pane_text(pilot.app, "header"):
            return
        await pilot.pause(0.02)
    raise AssertionError(pane_text(pilot.app, "header"))


async def test_decisions_are_derived_without_being_asked_for() -> None:
    """The header counts the rounds, and says `verified` when the view knows more; the round stays where it was."""
    desk, gate = desk_that_derives(), threading.Event()
    desk.derive_gate = gate
    app = DebuggerApp(FullView(), start_round=61, desk=desk)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, "verifying 40.0 %")
        assert "◌ no findings yet" in pane_text(app, "header")
        gate.set()
        await until(pilot, "✓ verified")
        assert " 61 of 300" in pane_text(app, "header")


async def test_without_decisions_the_oldest_without_a_row_is_selected() -> None:
    """In round 58 r9 is retracted (20 tokens since round 53) and r19 new: what tells why is named."""
    desk = desk_that_derives()
    desk.derive_gate = threading.Event()
    for study, remedy in ((None, "tsviz index derives why."), (desk, "why is being derived.")):
        app = DebuggerApp(FullView(), start_round=58, desk=study)
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, "verifying 40.0 %" if study else "not verified")
            await rest(pilot)
            for place, name in ((1, "r9"), (2, "r19"), (1, "r9")):
                await pilot.press("W")
                await rest(pilot)
                said = f"{name}: {place} of 2 requests without a row, oldest first; {remedy}"
                assert said in pane_text(app, "bottom")
            if study:
                desk.derive_gate.set()


async def test_nothing_found_is_no_all_clear_before_every_check_was_made() -> None:
    """Before decisions are derived, `#1` leads nowhere "so far"; a check that was stopped is not one that is clear."""
    desk, gate = desk_that_derives(), threading.Event()
    desk.derive_gate = gate
    app = DebuggerApp(FullView(), start_round=61, desk=desk)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, "verifying 40.0 %")
        await pilot.press("g", *"#1", "enter")
        await rest(pilot)
        assert "there are 0 findings so far, and not everything is checked yet" in pane_text(app, "bottom")
        gate.set()
    stopped = Findings(Known(asked=True, error="stopped"), 2, CHECKED[:1])
    assert badge(stopped) == ("? no findings, not all checked", "unknown")
    known = Known(asked=True, extents=(Extent("P/0", "derived", 300, 300),))
    assert badge(Findings(known, 2, CHECKED[:2])) == ("✓ no findings", "good")


async def test_a_trace_of_many_rounds_waits_to_be_asked() -> None:
    """Above 200,000 rounds nobody takes minutes of a processor unasked."""
    desk = desk_that_derives()
    view = FullView(replace(HEAD, rounds=200_001))
    async with DebuggerApp(view, start_round=61, desk=desk).run_test(size=(120, 40)) as pilot:
        await until(pilot, "not checked yet")
        await rest(pilot)
        assert ("findings", False) not in desk.asked
        assert ("derive", True) not in desk.asked
        await pilot.press("f")
        await rest(pilot)
        assert ("findings", False) in desk.asked
        assert ("derive", True) not in desk.asked
