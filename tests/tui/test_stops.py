"""The round from the inside: stepping through its stops, and the views of the inspector, on recordings that ship."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.tui.conftest import Incident
from tests.tui.fakes import HEAD, FullView
from tests.tui.helpers import compare, pane_text, press, settle
from tsviz.replay.recorded.snapshot import Frontier
from tsviz.replay.stops.story import NotKnown
from tsviz.tui.app import DebuggerApp
from tsviz.tui.panes.header import header
from tsviz.tui.panes.inspector import VIEWS
from tsviz.tui.scene import Scene

SIZES = {"80x24": (80, 24), "120x40": (120, 40), "200x60": (200, 60)}


async def test_s_steps_through_every_stop_and_on_into_the_next_round(incident: Incident) -> None:
    """Round 101 has stops 1 to 21; the next s is stop 1 of round 102, and S comes back to 101.21."""
    view = incident("retract-and-grant")
    async with DebuggerApp(view, start_round=101).run_test(size=SIZES["120x40"]) as pilot:
        screen = await settle(pilot)
        assert screen.scene.position == "101"
        seen = []
        for _ in range(21):
            await press(pilot, "s")
            seen.append(screen.scene.position)
        assert seen == [f"101.{stop}" for stop in range(1, 22)]
        await press(pilot, "s")
        assert screen.scene.position == "102.1"
        await press(pilot, "S")
        assert screen.scene.position == "101.21"


async def test_a_round_key_leaves_the_stops(incident: Incident) -> None:
    """From 101.2, n is round 102 as a whole; S from there is the last stop of 101."""
    view = incident("retract-and-grant")
    async with DebuggerApp(view, start_round=101, start_stop=2).run_test(size=SIZES["120x40"]) as pilot:
        screen = await settle(pilot)
        assert screen.scene.position == "101.2"
        assert (await press(pilot, "n")).scene.position == "102"
        assert (await press(pilot, "S")).scene.position == "101.21"


async def test_a_stop_selects_the_request_it_is_about(incident: Incident) -> None:
    """Stop 16 is the turn in which r3 is taken: r3 is selected, and the header says 101.16."""
    view = incident("retract-and-grant")
    async with DebuggerApp(view, start_round=101, start_stop=16).run_test(size=SIZES["120x40"]) as pilot:
        screen = await settle(pilot)
        assert screen.scene.selected_id == "r3"
        assert "round 101.16 of 310" in pane_text(pilot.app, "header")


async def test_the_position_is_copied_with_its_stop(incident: Incident) -> None:
    """As `tsviz open` takes it."""
    view = incident("retract-and-grant")
    async with DebuggerApp(view, start_round=101, start_stop=16).run_test(size=SIZES["120x40"]) as pilot:
        await settle(pilot)
        await press(pilot, "y")
        assert pilot.app.clipboard == "retract-and-grant@101.16"


async def test_go_to_takes_a_stop_and_refuses_one_that_is_not_there(incident: Incident) -> None:
    """101.20 exists; 101.22 does not: the round has stops 1 to 21."""
    view = incident("retract-and-grant")
    async with DebuggerApp(view).run_test(size=SIZES["120x40"]) as pilot:
        screen = await settle(pilot)
        await press(pilot, "g", *"101.20", "enter")
        assert screen.scene.position == "101.20"
        await press(pilot, "g", *"101.22", "enter")
        assert "Round 101 has stops 1 to 21." in pane_text(pilot.app, "bottom")
        assert screen.scene.position == "101"


async def test_in_the_round_up_and_down_walk_the_entries_and_enter_opens_one(incident: Incident) -> None:
    """From the newcomer r6 (stop 3) down are the decodes r1 (5) and r2 (7); enter closes the one at the cursor."""
    view = incident("retract-and-grant")
    async with DebuggerApp(view, start_round=101, start_stop=3).run_test(size=SIZES["200x60"]) as pilot:
        screen = await settle(pilot)
        await press(pilot, "2", "down")
        assert screen.scene.position == "101.5"
        assert (await press(pilot, "down")).scene.position == "101.7"
        assert "attempt decode: needs 1 full" in pane_text(pilot.app, "round")
        await press(pilot, "enter")
        assert "attempt decode: needs 1 full" not in pane_text(pilot.app, "round")
        assert (await press(pilot, "up", "up", "up")).scene.position == "101.3"


async def test_a_click_opens_an_entry_and_another_puts_the_cursor_on_it(incident: Incident) -> None:
    """The triangle at the end of a line folds; the line itself is a stop."""
    view = incident("retract-and-grant")
    async with DebuggerApp(view, start_round=101, start_stop=1).run_test(size=SIZES["200x60"]) as pilot:
        screen = await settle(pilot)
        pane = screen.query_one("#round")
        document = pane.document  # type: ignore[attr-defined]
        y = next(y for y in range(document.height) if document.line(y).text.startswith("  11 "))
        x = document.line(y).text.index("▸", 20)
        await pilot.click(pane, offset=(x, y))
        await settle(pilot)
        assert 11 in screen.scene.folds
        assert "attempt decode" in pane_text(pilot.app, "round")
        await pilot.click(pane, offset=(8, y))
        assert (await settle(pilot)).scene.position == "101.11"


@pytest.mark.parametrize(
    ("key", "view", "says"),
    [
        ("w", "why", "who could give way"),
        ("i", "request", "retracted 1 time"),
        ("t", "tables", "17 slots"),
        ("v", "retraction", "turn 2 of 2, stop 19"),
        ("a", "admission", "lacking 1"),
        ("x", "transfers", "out from before"),
        ("d", "device", "forwards around it"),
        ("e", "raw", "digest_structural"),
    ],
)
async def test_each_view_has_a_key(incident: Incident, key: str, view: str, says: str) -> None:
    """At 101 with r6 selected every view says what the incident is about."""
    trace = incident("retract-and-grant")
    async with DebuggerApp(trace, start_round=101, request="r6").run_test(size=SIZES["200x60"]) as pilot:
        screen = await settle(pilot)
        await press(pilot, key)
        assert (screen.scene.view, screen.scene.focus) == (view, "inspector")
        text = " ".join(pane_text(pilot.app, "inspector").split("\n"))
        assert " ".join(says.split()) in " ".join(text.split())


async def test_views_go_round(incident: Incident) -> None:
    """`.` is the next tab, `,` the one before, around the ends; a click on a tab opens it."""
    async with DebuggerApp(incident("mixed-stall"), start_round=3).run_test(size=SIZES["120x40"]) as pilot:
        screen = await settle(pilot)
        names = list(VIEWS)
        at = names.index(screen.scene.view)
        for step, key in ((1, "full_stop"), (2, "full_stop"), (1, "comma")):
            await press(pilot, key)
            assert screen.scene.view == names[(at + step) % len(names)]


@pytest.mark.parametrize("size", SIZES)
async def test_the_main_screen_on_an_incident(incident: Incident, size: str) -> None:
    """retract-and-grant at 101.16, the retraction view open; at 80x24 the round is the open tab."""
    view = incident("retract-and-grant")
    async with DebuggerApp(view, start_round=101, start_stop=16).run_test(size=SIZES[size]) as pilot:
        await settle(pilot)
        await press(pilot, "v", "2")
        compare(pilot.app, f"incident-{size}")


@pytest.mark.parametrize("size", ["80x24", "120x40"])
async def test_not_recorded_at_this_level(incident: Incident, size: str) -> None:
    """Without an index the round says what is missing and which command derives it."""
    view = incident("retract-and-grant", derived=False)
    async with DebuggerApp(view, start_round=101).run_test(size=SIZES[size]) as pilot:
        await settle(pilot)
        await press(pilot, "w", "2")
        compare(pilot.app, f"not-recorded-{size}")


@pytest.mark.parametrize(
    ("frontier", "says"),
    [
        (Frontier("none", 0), "○ not verified"),
        (Frontier("recorded", 300), "✓ decisions"),
        (Frontier("derived", 300), "✓ verified"),
        (Frontier("derived", 120), "◑ verified to 120"),
        (Frontier("derived", 120, "plan: recorded a, re-executed b"), "≠ diverged at 121"),
    ],
)
def test_the_header_says_how_far_decisions_are_known(frontier: Frontier, says: str) -> None:
    """Not at all, as recorded, by re-execution to the end or to a round, or to where the twin left the recording."""
    head = replace(HEAD, frontier=frontier)
    assert says in header(Scene(head=head), 200, 2).line(0).text


@pytest.mark.parametrize("kind", ["unverified", "diverged"])
async def test_a_round_behind_the_frontier_says_so(kind: str) -> None:
    """The round pane and the views show the sentence and the command; s says it in the last line."""

    class Behind(FullView):
        def story(self, round_: int) -> NotKnown:
            return NotKnown(kind, f"Nothing is known of round {round_}.", "tsviz verify t")

    async with DebuggerApp(Behind(), start_round=61).run_test(size=SIZES["120x40"]) as pilot:
        await settle(pilot)
        await press(pilot, "v")
        for pane in ("round", "inspector"):
            assert "Nothing is known of round 61." in " ".join(pane_text(pilot.app, pane).split())
            assert "$ tsviz verify t" in pane_text(pilot.app, pane)
        screen = await press(pilot, "s")
        assert "Nothing is known of round 61." in pane_text(pilot.app, "bottom")
        assert screen.scene.stop is None
