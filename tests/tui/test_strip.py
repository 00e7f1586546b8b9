"""The window of the timeline and the cells it is drawn in."""

from __future__ import annotations

import pytest

from tests.tui.conftest import Incident
from tsviz.tui.strip import NO_WINDOW, Strip, StripAsk, Window
from tsviz.tui.strips import fetch_strip


def strip(window: Window, cells: int) -> Strip:
    """A strip without content."""
    return Strip(StripAsk(window, cells, 0), (), 0, 0, {}, 0, (), ())


def test_zooming_keeps_the_round_in_its_place() -> None:
    """Round 50 of 1..100 stands in the middle; half as wide it still does: 25 to 74; and back it is the whole."""
    half = Window(1, 100).zoomed(1, 50, 100)
    assert half == Window(26, 75)
    assert half.zoomed(-1, 50, 100) == Window(1, 100)


def test_a_window_ends_at_the_ends_of_the_trace() -> None:
    """Zoomed around round 1, panned to the left and zoomed out beyond the trace it stays in 1..100."""
    assert Window(1, 100).zoomed(1, 1, 100) == Window(1, 50)
    assert Window(1, 50).panned(-7, 100) == Window(1, 50)
    assert Window(60, 100).panned(100, 100) == Window(60, 100)
    assert Window(1, 8).zoomed(1, 3, 100) == Window(1, 8)
    assert Window(1, 3).zoomed(-1, 3, 3) == Window(1, 3)
    assert NO_WINDOW.size == 0


def test_a_window_follows_a_round_that_leaves_it() -> None:
    """Round 60 enters 1..40 from the right with a quarter of the window before it; round 30 enters 50..89 from left."""
    assert Window(1, 40).with_round(20, 100) == Window(1, 40)
    assert Window(1, 40).with_round(60, 100) == Window(50, 89)
    assert Window(50, 89).with_round(30, 100) == Window(1, 40)


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
