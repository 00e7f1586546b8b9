"""Other parts of a trace: another rank at the same round, another node at the same moment, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from textual.pilot import Pilot

from tests.tui.conftest import Incident
from tests.tui.desks import FakeDesk, check
from tests.tui.fakes import HEAD, FullView
from tests.tui.helpers import compare_both, pane_text, rest, screen_text
from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.replay.survey.ask import Extent, Plan
from tsviz.tui.app import DebuggerApp
from tsviz.tui.opening import Subject
from tsviz.tui.screens.main import MainScreen

FAILED = check("failed_transfers", "found", "costly", "a transfer failed: 'q4' in front of round 10", part="P/0",
               rounds=(10,), requests=("q4",), numbers={"requests": 1})  # fmt: skip


def opener(views: dict[str, RecordedView]) -> Callable[[str], Callable[[], Subject]]:
    """Return what opens a part that is there."""
    return lambda part: lambda: Subject(views[part], FakeDesk())


async def at(pilot: Pilot[None], *keys: str) -> tuple[str, int, str]:
    """Press keys; return the part on the screen, its round and the selected request."""
    await rest(pilot)
    for key in keys:
        await pilot.press(key)
        await rest(pilot)
    screen = pilot.app.screen
    assert isinstance(screen, MainScreen)
    head = screen.scene.head
    assert head is not None
    return f"{head.node}/{head.rank}", screen.scene.round, screen.scene.selected_id


async def test_another_node_is_shown_at_the_same_moment_and_one_comes_back(incident: Incident) -> None:
    """Round 13 of D begins at 100.22 ms, when round 8 of P (from 86.12 ms) is under way; q4 is selected in both."""
    views = {"P/0": incident("prefill-decode-pair", "P"), "D/0": incident("prefill-decode-pair", "D")}
    app = DebuggerApp(views["D/0"], start_round=13, request="q4", desk=FakeDesk(), others=opener(views))
    async with app.run_test(size=(80, 24)) as pilot:
        assert await at(pilot) == ("D/0", 13, "q4")
        assert await at(pilot, "1", "A") == ("P/0", 8, "q4")
        await compare_both(pilot, "other-part")
        assert await at(pilot, "A") == ("D/0", 13, "q4")
        assert await at(pilot, "n", "A") == (
            "P/0",
            9,
            "q4",
        )  # round 14 of D begins at 108.28 ms, round 9 of P at 103.22


async def test_a_position_of_another_part_is_gone_to(incident: Incident) -> None:
    """`D/0:13` leads from P to round 13 of D, whose last round 71 it is for what lies behind; X/1 is no part."""
    views = {"P/0": incident("prefill-decode-pair", "P"), "D/0": incident("prefill-decode-pair", "D")}
    app = DebuggerApp(views["P/0"], start_round=8, desk=FakeDesk(), others=opener(views))
    async with app.run_test(size=(80, 24)) as pilot:
        assert (await at(pilot, "g", *"D/0:13", "enter"))[:2] == ("D/0", 13)
        assert (await at(pilot, "g", *"P/0:2", "enter"))[:2] == ("P/0", 2)
        assert (await at(pilot, "g", *"D/0:999", "enter"))[:2] == ("D/0", 71)
        assert "D/0 at round 999: that has rounds 1 to 71." in screen_text(app)
        assert (await at(pilot, "g", *"X/1:3", "enter"))[:2] == ("D/0", 71)
        assert "the parts are P/0, D/0, not X/1" in screen_text(app)


async def test_another_rank_is_shown_at_the_same_round() -> None:
    """Ranks plan the same rounds; what was chosen in one rank is still chosen when one comes back."""
    heads = {f"P/{rank}": replace(HEAD, rank=rank, parts=("P/0", "P/1", "P/2")) for rank in range(3)}
    views: dict[str, RecordedView] = {part: FullView(head) for part, head in heads.items()}
    app = DebuggerApp(views["P/0"], start_round=61, desk=FakeDesk(), others=opener(views))
    async with app.run_test(size=(120, 40)) as pilot:
        assert (await at(pilot, "t", "1"))[:2] == ("P/0", 61)
        assert "P/0 fused  beside P/1, P/2 (A)" in pane_text(app, "header")
        assert (await at(pilot, "A"))[:2] == ("P/1", 61)
        assert (await at(pilot, "n", "A"))[:2] == ("P/2", 62)
        assert (await at(pilot, "A"))[:2] == ("P/0", 62)
        assert app.main.scene.view == "tables"


async def test_a_finding_of_another_part_is_gone_to(incident: Incident) -> None:
    """The failed transfer is in round 10 of P: enter shows it there, and why q4 is gone."""
    views = {"P/0": incident("prefill-decode-pair", "P"), "D/0": incident("prefill-decode-pair", "D")}
    desk = FakeDesk((Plan(1), Extent("P/0", "derived", 13, 13), Extent("D/0", "derived", 71, 71), FAILED))
    app = DebuggerApp(views["D/0"], start_round=13, desk=desk, others=opener(views))
    async with app.run_test(size=(120, 40)) as pilot:
        assert (await at(pilot, "f", "enter"))[:2] == ("P/0", 10)
        assert "q4 aborted (its transfer failed) in front of round 10." in " ".join(
            pane_text(app, "inspector").replace("│", "").split()
        )
        assert "a transfer failed: 'q4'" in screen_text(app)


async def test_a_trace_of_one_part_says_so() -> None:
    """There is nothing to go to."""
    app = DebuggerApp(FullView(), desk=FakeDesk())
    async with app.run_test(size=(120, 40)) as pilot:
        await at(pilot, "A")
        assert "This trace has one part, P/0." in screen_text(app)
