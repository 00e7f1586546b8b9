"""From a finding to the culprit: the request, why, and whom it keeps waiting, two keys from any screen."""

from __future__ import annotations

from tests.tui.conftest import Incident
from tests.tui.desks import FakeDesk, check
from tests.tui.helpers import compare_both, pane_text, rest
from tsviz.replay.recorded.snapshot import Cause
from tsviz.replay.survey.ask import Extent, Plan
from tsviz.tui.app import DebuggerApp
from tsviz.tui.causes import cause_text
from tsviz.tui.screens.main import MainScreen

HELD = check("head_of_line_hold", "found", "costly", "head of line: 'report' held the line in rounds 5 to 14",
             part="F/0", rounds=(5, 14), requests=("report",), numbers={"rounds": 10})  # fmt: skip
STALL = check("stall", "found", "stuck", "stall: from round 3 on every plan is empty", part="F/0",
              rounds=(3, 5), requests=("resident",), numbers={"rounds": 3})  # fmt: skip


async def test_a_jump_to_a_finding_says_why_at_once(incident: Incident) -> None:
    """`report` has a row in round 5 and holds the line; as tabs the inspector is open, beside others the list stays."""
    desk = FakeDesk((Plan(1), Extent("F/0", "derived", 55, 55), HELD))
    app = DebuggerApp(incident("head-of-line"), desk=desk)
    async with app.run_test(size=(80, 24)) as pilot:
        await rest(pilot)
        for key in ("f", "enter"):
            await pilot.press(key)
            await rest(pilot)
        screen = app.screen
        assert isinstance(screen, MainScreen)
        assert (screen.scene.view, screen.scene.focus) == ("why", "inspector")
        await compare_both(pilot, "culprit")


async def test_what_happens_once_stands_once_in_a_wide_column(incident: Incident) -> None:
    """Five rounds take 108 cells: the refusals of rounds 3 to 5 are three marks, and the finding of round 3 is one."""
    desk = FakeDesk((Plan(1), Extent("F/0", "derived", 5, 5), STALL))
    app = DebuggerApp(incident("mixed-stall"), start_round=4, desk=desk)
    async with app.run_test(size=(120, 40)) as pilot:
        await rest(pilot)
        marks = next(line for line in pane_text(app, "timeline").splitlines() if line.strip().startswith("marks"))
        assert "".join(marks.split()) == "marks✗‼✗✗"  # newcomer is refused pages from round 2 on
        await compare_both(pilot, "wide-columns", "120x40")


def test_a_cause_loses_what_is_behind_first_and_who_is_in_the_way_last() -> None:
    """Of 40, 31, 25 and 14 cells the last has no number of rounds any more; names are cut in their middle."""
    words = "behind row-0001321 (head of line), 3 rounds"
    cause = Cause("head_of_line", words, "row-0001321", 5)
    said = [cause_text(cause, 7, cells).rstrip() for cells in (43, 40, 25, 14)]
    assert said == [
        words, "behind row-…321 (head of line), 3 rounds", "behind row-…321, 3 rounds", "behind row…321"
    ]  # fmt: skip
    refused = Cause("capacity", "no pages (needs 384 of full; 0 free, 52 with evictions)", "", 7)
    assert cause_text(refused, 7, 30) == "no pages (needs 384 of full)".ljust(30)
    assert cause_text(refused, 7, 24) == "no pages".ljust(24)
    assert cause_text(Cause("from a newer trace", "from a newer trace", "", 7), 7, 10) == "from…race "


async def test_one_key_finds_who_waits_longest_and_the_next(incident: Incident) -> None:
    """In round 8 chat-1 waits since round 4, chat-2 to 4 since 5, 5 to 8 since 6; behind the last comes the first."""
    app = DebuggerApp(incident("head-of-line"), start_round=8, desk=FakeDesk())
    async with app.run_test(size=(80, 24)) as pilot:
        await rest(pilot)
        seen = []
        for _ in range(9):
            await pilot.press("W")
            await rest(pilot)
            assert isinstance(app.screen, MainScreen)
            seen.append(app.screen.scene.selected_id)
        assert seen == [*(f"chat-{number}" for number in range(1, 9)), "chat-1"]
        assert app.screen.scene.message == "chat-1: 1 of 8 requests that wait, longest first."
        assert "In round 8 chat-1 has no row: decode waits: report prefills this round" in pane_text(app, "inspector")
        await pilot.press("end")
        await rest(pilot)
        await pilot.press("W")
        await rest(pilot)
        assert app.screen.scene.message == "Nobody waits in this round."


async def test_keys_of_a_burst_act_on_the_round_that_it_leads_to(incident: Incident) -> None:
    """`end W` at once: nobody waits in the last round, whatever waits in round 8, which is still shown."""
    app = DebuggerApp(incident("head-of-line"), start_round=8, desk=FakeDesk())
    async with app.run_test(size=(80, 24)) as pilot:
        await rest(pilot)
        screen = app.screen
        assert isinstance(screen, MainScreen)
        screen.action_last()
        assert screen.scene.loading
        screen.action_waits()
        await rest(pilot)
        assert screen.scene.message == "Nobody waits in this round."
        screen.go(8)
        screen.action_waits()
        screen.action_waits()
        await rest(pilot)
        assert screen.scene.message.endswith("2 of 8 requests that wait, longest first.")
