"""The window of the timeline and the cells it is drawn in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from tests.tui.conftest import Incident
from tests.tui.fakes import HEAD, FakeView
from tests.tui.helpers import pane_text, press
from tsviz.replay.moments import AtRound
from tsviz.replay.recorded.snapshot import Snapshot
from tsviz.replay.recorded.timeline import Lane as TimelineLane
from tsviz.replay.stops.story import NotKnown
from tsviz.tui.app import DebuggerApp
from tsviz.tui.frame import Ask, Frame, make_listing
from tsviz.tui.panes.header import header
from tsviz.tui.panes.timeline_edges import axis, title
from tsviz.tui.scene import Scene
from tsviz.tui.strip import NO_WINDOW, TIME, Lane, Strip, StripAsk, Window
from tsviz.tui.strips import fetch_strip


def strip(window: Window, cells: int) -> Strip:
    """A strip without content."""
    return Strip(StripAsk(window, cells, 0), (), 0, 0, {}, 0, (), ())


def test_a_timeline_without_room_says_how_many_requests_there_are_and_what_shows_them() -> None:
    """Twelve requests and no line for one are not "no request"; with nothing to show it is."""
    window = Window(1, 100)
    full = Strip(StripAsk(window, 89, 0), (), 0, 12, {}, 0, (), ())
    assert "no room for lanes of 12 requests: 4 then z" in title(Scene(), full, 11, 100).text
    assert "12 requests: 4 then z, or a taller terminal" in title(Scene(), full, 11, 120).text
    assert "no request in this window" in title(Scene(), strip(window, 89), 11, 100).text
    assert title(Scene(), full, 11, 60).text.strip() == "timeline rounds 1 to 100 of 0, 1.12 rounds a column"


def test_the_number_of_the_round_of_the_cursor_stands_once() -> None:
    """Five rounds of 26 columns, the third with the cursor: 3 stands beside the cursor, and not at the middle again."""
    found = axis(Scene(round=3), strip(Window(1, 5), 130), 11, range(52, 78)).text
    assert [word for word in re.split("[· ]+", found) if word] == ["round", "1", "2", "◆3", "4", "5"]


def test_zooming_keeps_the_round_in_its_place() -> None:
    """Round 50 of 1..100 stands in the middle; half as wide it still does: 25 to 74; and back it is the whole."""
    half = Window(1, 100).zoomed(1, 50, Window(1, 100))
    assert half == Window(26, 75)
    assert half.zoomed(-1, 50, Window(1, 100)) == Window(1, 100)


def test_a_window_ends_at_the_ends_of_the_trace() -> None:
    """Zoomed around round 1, panned to the left and zoomed out beyond the trace it stays in 1..100."""
    assert Window(1, 100).zoomed(1, 1, Window(1, 100)) == Window(1, 50)
    assert Window(1, 50).panned(-7, Window(1, 100)) == Window(1, 50)
    assert Window(60, 100).panned(100, Window(1, 100)) == Window(60, 100)
    assert Window(1, 8).zoomed(1, 3, Window(1, 100)) == Window(1, 8)
    assert Window(1, 3).zoomed(-1, 3, Window(1, 3)) == Window(1, 3)
    assert NO_WINDOW.size == 0


def test_a_window_follows_a_round_that_leaves_it() -> None:
    """Round 60 enters 1..40 from the right with a quarter of the window before it; round 30 enters 50..89 from left."""
    assert Window(1, 40).with_round(20, Window(1, 100)) == Window(1, 40)
    assert Window(1, 40).with_round(60, Window(1, 100)) == Window(50, 89)
    assert Window(50, 89).with_round(30, Window(1, 100)) == Window(1, 40)


@pytest.mark.parametrize(("size", "cells"), [(1, 7), (3, 10), (10, 10), (97, 10), (22_685, 185), (8, 185)])
def test_every_round_has_cells_and_every_cell_a_round(size: int, cells: int) -> None:
    """The cells of a round hold its number between the first rounds of that cell and of the next column."""
    drawn = strip(Window(11, 10 + size), cells)
    covered = set()
    for round_ in {11, 11 + size // 3, 11 + size // 2, 10 + size}:
        mine = drawn.cells_of(round_)
        assert len(mine) >= 1
        for cell in mine:
            assert drawn.round_at(cell) <= round_
        if mine.stop < cells:
            assert drawn.round_at(mine.stop) > round_
        covered |= set(mine)
    assert max(covered) == cells - 1
    assert [drawn.round_at(c) for c in range(cells)] == sorted(drawn.round_at(c) for c in range(cells))
    assert not drawn.cells_of(10)
    assert not drawn.cells_of(11 + size)


def test_a_strip_holds_what_the_incident_is_about(incident: Incident) -> None:
    """retract-and-grant: six lanes; retractions in 38 and 101 (two in one round); a pool of 64 pages that is full."""
    view = incident("retract-and-grant")
    found = fetch_strip(view, StripAsk(Window(1, 310), 310, 10))
    assert [lane.request for lane in found.lanes] == ["r1", "r2", "r3", "r4", "r5", "r6"]
    assert found.marks["retraction"][100] == 1
    assert found.marks["grant"][100] == 1
    assert found.occupied_pages[100] == 64
    # Decided table pool, round 101: 50 blocks are held by live tables.
    assert found.active_pages[100] == 50
    assert found.decided_to == 310


def test_lanes_are_filtered_ordered_and_pinned(incident: Incident) -> None:
    """`r3` leaves one lane; a pinned one stands first; the page of lanes that holds the selected one is shown."""
    view = incident("retract-and-grant")

    def names(**more: object) -> list[str]:
        ask = StripAsk(Window(1, 310), 50, 2, **more)  # type: ignore[arg-type]
        return [lane.request for lane in fetch_strip(view, ask).lanes]

    assert names(filter="R3") == ["r3"]
    assert names(pinned=frozenset({4})) == ["r5", "r1"]
    assert names(selected=3) == ["r3", "r4"]
    assert names(order="id", selected=5) == ["r5", "r6"]
    # r4 is there to the end (round 310 is its last), r2 and r3 end before.
    assert names(order="longest")[0] in ("r1", "r4")


def test_without_an_index_the_marks_of_decisions_are_missing(incident: Incident) -> None:
    """Retractions are recorded; refusals and grants are not known, and neither is what live tables held."""
    found = fetch_strip(incident("retract-and-grant", derived=False), StripAsk(Window(1, 310), 310, 10))
    assert "retraction" in found.marks
    assert "grant" not in found.marks
    assert found.active_pages == ()


STARTS_MS = (0, 10, 20, 30, 70, 80)


class Clock(FakeView):
    """Six rounds that begin at `STARTS_MS`; chat-1 is there in rounds 1 to 2, chat-2 in 2 to 6, log-7 in 4 to 5."""

    def __init__(self) -> None:
        super().__init__(replace(HEAD, rounds=6))

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return a snapshot with the begin of the round."""
        return replace(super().snapshot(round_, selected), start_ns=STARTS_MS[round_ - 1] * 10**6)

    def round_at(self, time_ns: int, *, wall: bool) -> AtRound:
        """Return the last round that began by then."""
        assert not wall
        return AtRound(sum(start * 10**6 <= time_ns for start in STARTS_MS))

    def lanes(self, first_round: int, last_round: int) -> list[TimelineLane]:
        """Return the three requests."""
        there = (("chat-1", 1, 2), ("chat-2", 2, 6), ("log-7", 4, 5))
        found = [TimelineLane(number, name, first, last) for number, (name, first, last) in enumerate(there)]
        return [lane for lane in found if lane.first_round <= last_round and lane.last_round >= first_round]  # type: ignore[operator]

    def timeline(
        self, first_round: int, last_round: int, columns: int, submissions: Sequence[int]
    ) -> tuple[bytes, ...]:
        """Return 6 (decoding) where a request is there in the first round of a column, for one of which it waits: 2."""
        firsts = [first_round + c * (last_round - first_round + 1) // columns for c in range(columns)]
        lanes = {lane.submission: lane for lane in self.lanes(1, 6)}
        at = {s: lanes[s] for s in submissions}
        return tuple(
            bytes([(2 if r == at[s].first_round else 6) * (at[s].first_round <= r <= at[s].last_round) for r in firsts])  # type: ignore[operator]
            for s in submissions
        )

    def marks(self, first_round: int, last_round: int, columns: int) -> dict[str, tuple[int, ...]]:
        """Return a retraction in round 4."""
        firsts = [first_round + c * (last_round - first_round + 1) // columns for c in range(columns)]
        ends = [*firsts[1:], last_round + 1]
        return {"retraction": tuple(int(a <= 4 < b) for a, b in zip(firsts, ends, strict=True))}

    @property
    def decided_to(self) -> int:
        """The last round."""
        return 6


def test_an_axis_of_time_gives_a_round_the_cells_that_it_took() -> None:
    """Nine cells of 10 ms: rounds 1, 2, 3, then 4 for 40 ms, 5 and 6; lanes and marks follow, a click finds round 4."""
    found = fetch_strip(Clock(), StripAsk(Window(1, 6), 9, 3, axis=TIME))
    assert found.firsts == (1, 2, 3, 4, 4, 4, 4, 5, 6)
    assert [list(lane.cells) for lane in found.lanes if isinstance(lane, Lane)] == [
        [2, 6, 0, 0, 0, 0, 0, 0, 0],
        [0, 2, 6, 6, 6, 6, 6, 6, 6],
        [0, 0, 0, 2, 2, 2, 2, 6, 0],
    ]
    assert found.marks["retraction"] == (0, 0, 0, 1, 1, 1, 1, 0, 0)
    assert found.cells_of(4) == range(3, 7)
    assert found.round_at(5) == 4
    assert [found.time_at(cell) for cell in (0, 4, 8)] == [0, 40 * 10**6, 80 * 10**6]


def test_an_axis_of_time_puts_short_rounds_into_one_cell() -> None:
    """Five cells of 20 ms: rounds 1 and 2 share the first; 3 and what is under way to 40 ms; 4, and the last round."""
    found = fetch_strip(Clock(), StripAsk(Window(1, 6), 5, 3, axis=TIME))
    assert found.firsts == (1, 3, 4, 4, 6)
    assert found.cells_of(2) == range(1)
    assert found.cells_of(5) == range(2, 4)


def test_a_view_without_times_keeps_rounds() -> None:
    """The axis is then one of rounds, and has no times."""
    found = fetch_strip(FakeView(), StripAsk(Window(1, 300), 10, 3, axis=TIME))
    assert found.time_at(3) is None
    assert found.round_at(5) == 151


def test_lanes_are_grouped_by_class_and_by_state() -> None:
    """Two of class chat and one log, with how many are there; at round 4 chat-2 decodes, log-7 waits, chat-1 ended."""

    def lines(**more: object) -> list[object]:
        ask = StripAsk(Window(1, 6), 6, 8, here=4, **more)  # type: ignore[arg-type]
        shown = fetch_strip(Clock(), ask).lanes
        return [line.request if isinstance(line, Lane) else (line.name, line.lanes, line.there) for line in shown]

    chat, log = ("chat", 2, (1, 2, 1, 1, 1, 1)), ("log", 1, (0, 0, 0, 1, 1, 0))
    assert lines(group="class") == [chat, "chat-1", "chat-2", log, "log-7"]
    assert lines(group="class", reverse=True) == [chat, "chat-2", "chat-1", log, "log-7"]
    names = [line if isinstance(line, str) else line[0] for line in lines(group="state")]  # type: ignore[index]
    assert names == ["waiting", "log-7", "decode", "chat-2", "ended", "chat-1"]


def test_a_page_of_lanes_begins_with_the_head_of_its_group() -> None:
    """Room for three lines: the second of the class is shown under the head of its class."""
    shown = fetch_strip(Clock(), StripAsk(Window(1, 6), 6, 2, selected=1, group="class")).lanes
    assert [line.request if isinstance(line, Lane) else line.name for line in shown] == ["chat", "chat-2"]


async def test_the_keys_of_the_timeline_change_axis_groups_and_direction() -> None:
    """T: time and back; G: class, state, none; R in the timeline turns the lanes, elsewhere the requests."""
    async with DebuggerApp(Clock(), start_round=4).run_test(size=(120, 40)) as pilot:
        screen = await press(pilot, "T")
        axis = pane_text(pilot.app, "timeline").splitlines()[-1]
        assert axis.split()[0] == "time"
        assert "0.000s" in axis
        assert "0.080s" in axis
        await press(pilot, "G")
        assert "chat" in pane_text(pilot.app, "timeline")
        assert "by class" in pane_text(pilot.app, "timeline")
        await press(pilot, "G", "G", "T")
        assert (screen.scene.axis, screen.scene.lane_group) == ("rounds", "")
        await press(pilot, "4", "R")
        assert [lane.request for lane in screen.scene.strip.lanes] == ["log-7", "chat-2", "chat-1"]  # type: ignore[union-attr]
        assert not screen.scene.reverse
        await press(pilot, "1", "o", "R")
        assert "by arrival, reversed" in pane_text(pilot.app, "requests-title")
        entries = [e for e in screen.scene.frame.listing.entries if e >= 0]  # type: ignore[union-attr]
        assert entries == sorted(entries, reverse=True)
        await press(pilot, "o")
        assert not screen.scene.reverse


async def test_k_shows_the_pool_of_one_group_after_the_other(incident: Incident) -> None:
    """Of two groups each once, named in the title with its own parents, then the pool of all; with one it says so."""
    app = DebuggerApp(incident("bounded-replay"), start_round=25)
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await press(pilot, "K")
        # Round 25 of the incident: 51 pages of `full` and 5 of `sliding`, of one page a parent, stand in tables.
        whole = fetch_strip(incident("bounded-replay"), StripAsk(Window(25, 25), 1, 0)).active_pages
        assert whole == (56,)
        assert "pool of full" in pane_text(app, "timeline")
        assert (
            screen.scene.strip is not None and screen.scene.strip.active_pages[screen.scene.strip.cells_of(25)[0]] == 51
        )
        await press(pilot, "K")
        assert "pool of sliding" in pane_text(app, "timeline")
        assert screen.scene.strip.active_pages[screen.scene.strip.cells_of(25)[0]] == 5
        await press(pilot, "K")
        assert "pool of" not in pane_text(app, "timeline")
    async with DebuggerApp(incident("retract-and-grant"), start_round=25).run_test(size=(120, 40)) as pilot:
        screen = await press(pilot, "K")
        assert "one group" in screen.scene.message


class WallClock(Clock):
    """The rounds of `Clock`, of which the first began on 2026-11-30 at 02:51:07 and 990 ms, UTC."""

    def __init__(self) -> None:
        super().__init__()
        began_ns = 1_796_007_067_990 * 10**6
        self.head = replace(self.head, clock="monotonic", zero_ns=5 * 10**9, wall_zero_ns=began_ns)

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return a snapshot whose begin counts from the start of the machine."""
        shown = super().snapshot(round_, selected)
        return replace(shown, head=self.head, start_ns=shown.start_ns + 5 * 10**9)


def test_a_trace_on_the_wall_clock_has_times_of_day_under_its_axis() -> None:
    """80 ms from 02:51:07.990 on: the ends are named to a millisecond, the day stands above; a round axis has none."""
    view = WallClock()
    found = fetch_strip(view, StripAsk(Window(1, 6), 81, 3, axis=TIME))
    scene = Scene(round=1, head=view.head)
    under = axis(scene, found, 11, found.cells_of(4)).text
    assert under.split("·")[0].split() == ["UTC", "02:51:07.990"] and under.endswith("02:51:08.070")
    assert "from 2026-11-30 UTC" in title(scene, found, 11, 200).text
    assert "UTC" not in title(scene, fetch_strip(view, StripAsk(Window(1, 6), 81, 3)), 11, 200).text


def test_the_header_says_when_a_round_began_since_the_start_and_on_the_wall_clock() -> None:
    """Round 4 began 30 ms after the first, at 02:51:08.020; not what its own clock shows."""
    view = WallClock()
    frame = Frame(view.snapshot(4), make_listing((), "", "state"), Ask(4), {}, NotKnown("not_recorded", ""))
    scene = Scene(frame, view.head, round=4)
    assert "2026-11-30 02:51:08.020 UTC  +0.030 000 s" in header(scene, 120, 2).line(1).text
    assert " 02:51:08.020 UTC  +0.030 000 s" in header(scene, 80, 2).line(1).text
    unplaced = replace(view.head, wall_zero_ns=None)
    assert "0.030 000 s since the start" in header(replace(scene, head=unplaced), 120, 2).line(1).text
