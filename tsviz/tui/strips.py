"""Fetches a strip: runs on the fetching thread, asks the view for a window, and spreads its columns over cells."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.replay.snapshot import RecordedView
from tsviz.tui.strip import Lane, Strip, StripAsk, column_of_cell
from tsviz.tui.view import LaneLike, PoolHistory, PoolSplit, TimelineView


def fetch_strip(view: RecordedView, ask: StripAsk) -> Strip:
    """Return what a window shows; what the view does not offer is left empty."""
    window = ask.window
    columns = max(min(ask.cells, window.size), 1)
    of_cell = [column_of_cell(ask, cell) for cell in range(ask.cells)]
    lanes: tuple[Lane, ...] = ()
    top = total = decided_to = 0
    marks: dict[str, tuple[int, ...]] = {}
    if isinstance(view, TimelineView) and window.size:
        listed = _listed(view.lanes(window.first, window.last), ask)
        total, top = len(listed), _top(listed, ask)
        shown = listed[top : top + ask.lanes]
        drawn = view.timeline(window.first, window.last, columns, [lane.submission for lane in shown])
        lanes = tuple(
            Lane(lane.submission, lane.request, bytes([cells[c] for c in of_cell]))
            for lane, cells in zip(shown, drawn, strict=True)
        )
        found = view.marks(window.first, window.last, columns)
        marks = {name: tuple([counts[c] for c in of_cell]) for name, counts in found.items() if counts}
        decided_to = view.decided_to
    occupied: Sequence[int] = ()
    active: Sequence[int] = ()
    if isinstance(view, PoolHistory) and window.size:
        occupied = view.pool_history(window.first, window.last, columns)
    if isinstance(view, PoolSplit) and window.size:
        active = view.active_history(window.first, window.last, columns)
    return Strip(ask, lanes, top, total, marks, decided_to, _spread(occupied, of_cell), _spread(active, of_cell))


def _spread(values: Sequence[int], of_cell: Sequence[int]) -> tuple[int, ...]:
    return tuple([values[c] for c in of_cell]) if values else ()


def _listed(lanes: Sequence[LaneLike], ask: StripAsk) -> list[LaneLike]:
    words = ask.filter.lower().split()
    found = [lane for lane in lanes if all(word in lane.request.lower() for word in words)]
    if ask.order == "id":
        found.sort(key=lambda lane: (lane.request, lane.submission))
    elif ask.order == "longest":
        found.sort(key=lambda lane: (lane.first_round - (lane.last_round or ask.window.last), lane.submission))
    elif ask.order == "here":
        found.sort(key=lambda lane: not lane.first_round <= ask.here <= (lane.last_round or ask.here))
    found.sort(key=lambda lane: lane.submission not in ask.pinned)
    return found


def _top(listed: Sequence[LaneLike], ask: StripAsk) -> int:
    """The first lane that is shown: by pages, so that lanes stand still while the selection moves among them."""
    at = next((i for i, lane in enumerate(listed) if lane.submission == ask.selected), 0)
    page = max(ask.lanes, 1)
    return min(at // page * page, max(len(listed) - page, 0))
