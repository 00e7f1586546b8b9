"""Fetches a strip: runs on the fetching thread, asks the view for a window, and spreads its columns over cells."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tsviz.replay.recorded.snapshot import NotPrepared, RecordedView
from tsviz.tui.clean import clean
from tsviz.tui.lane_list import lane_list
from tsviz.tui.strip import TIME, Lane, LaneGroup, Strip, StripAsk, even_firsts
from tsviz.tui.view import Clocked, PoolHistory, PoolSplit, TimelineView

_Columns = tuple[tuple[int, int, int], ...]
"""First round, last round and number of cells of each column."""
_Pool = tuple[tuple[int, ...], tuple[int, ...], str]
"""Most occupied and most active pages (of one group: parents) a cell, and what is to be said of them."""


def fetch_strip(view: RecordedView, ask: StripAsk) -> Strip:
    """Return what a window shows; what the view does not offer is left empty."""
    window = ask.window
    firsts, begins_ns = _timed(view, ask) if ask.axis == TIME and window.size else (even_firsts(ask), None)
    columns = _columns(firsts, window.last) if window.size else ()
    lanes: tuple[Lane | LaneGroup, ...] = ()
    top = total = decided_to = 0
    marks: dict[str, tuple[int, ...]] = {}
    if isinstance(view, TimelineView) and window.size:
        listed, top, total = lane_list(view, ask, firsts)
        drawn = iter(_drawn(view, columns, [lane.submission for lane in listed if isinstance(lane, Lane)]))
        lanes = tuple([
            lane if isinstance(lane, LaneGroup) else Lane(lane.submission, lane.request, next(drawn)) for lane in listed
        ])  # fmt: skip
        marks = _marks(view, columns)
        decided_to = view.decided_to
    occupied, active, words = _pool(view, columns) if ask.pool_group is None else _group(view, columns, ask.pool_group)
    return Strip(ask, lanes, top, total, marks, decided_to, occupied, active, firsts, words, begins_ns)


def _pool(view: RecordedView, columns: _Columns) -> _Pool:
    occupied: list[int] = []
    active: list[int] = []
    for first, last, many, cells in _runs(columns):
        if isinstance(view, PoolHistory):
            occupied += _spread(view.pool_history(first, last, many), cells)
        if isinstance(view, PoolSplit):
            active += _spread(view.active_history(first, last, many), cells)
    return tuple(occupied), tuple(active), ""


def _group(view: RecordedView, columns: _Columns, group: int) -> _Pool:
    """Return the pool of one group; without values where they are not known, with the reason."""
    from tsviz.tui.pages_scene import PagesView

    if not isinstance(view, PagesView):
        return (), (), "this view does not tell its pages"
    occupied: list[int] = []
    active: list[int] = []
    words = ""
    for first, last, many, cells in _runs(columns):
        try:
            found = view.pages.group_pool(group, first, last, many)
        except NotPrepared:
            return (), (), "being prepared"
        except Exception as error:  # whatever a view raises is shown, and the screen lives on
            return (), (), clean(str(error))
        words = found.words
        if not found.occupied_parents:
            return (), (), words
        occupied += _spread(found.occupied_parents, cells)
        active += _spread(found.active_parents, cells)
    return tuple(occupied), tuple(active), words


def _timed(view: RecordedView, ask: StripAsk) -> tuple[tuple[int, ...], tuple[int, int] | None]:
    """Return the round that is under way when each cell begins, and when the first and the last one began."""
    first, last = ask.window.first, ask.window.last
    if not isinstance(view, Clocked):
        return even_firsts(ask), None
    from tsviz.replay.moments import AtRound

    start_ns, end_ns = (view.snapshot(round_).start_ns - view.head.zero_ns for round_ in (first, last))
    firsts = []
    for cell in range(ask.cells):
        at_ns = start_ns + (end_ns - start_ns) * cell // max(ask.cells - 1, 1)
        found = view.round_at(at_ns, wall=False)
        firsts.append(min(max(found.round, first), last) if isinstance(found, AtRound) else first)
    return tuple(firsts), (start_ns, end_ns)


def _columns(firsts: Sequence[int], last: int) -> _Columns:
    """Return the columns that cells with these first rounds are."""
    found = [(first, sum(1 for _ in cells)) for first, cells in groupby(firsts)]
    ends = [first - 1 for first, _ in found[1:]] + [last]
    return tuple([(first, end, cells) for (first, cells), end in zip(found, ends, strict=True)])


def _runs(columns: _Columns) -> list[tuple[int, int, int, list[int]]]:
    """Return stretches of columns that a view cuts the same way: first and last round, how many, the cells of each.

    A view cuts rounds `first` to `last` into n columns evenly; columns of uneven lengths are asked for one by one.
    """
    if not columns:
        return []
    first, last = columns[0][0], columns[-1][1]
    rounds, many = last - first + 1, len(columns)
    if all(column[0] == first + number * rounds // many for number, column in enumerate(columns)):
        return [(first, last, many, [cells for _, _, cells in columns])]
    return [(begin, end, 1, [cells]) for begin, end, cells in columns]


def _drawn(view: TimelineView, columns: _Columns, submissions: Sequence[int]) -> list[bytes]:
    lanes = [bytearray() for _ in submissions]
    for first, last, many, cells in _runs(columns):
        for lane, codes in zip(lanes, view.timeline(first, last, many, submissions), strict=True):
            lane += bytes(_spread(codes, cells))
    return [bytes(lane) for lane in lanes]


def _marks(view: TimelineView, columns: _Columns) -> dict[str, tuple[int, ...]]:
    marks: dict[str, list[int]] = {}
    for first, last, many, cells in _runs(columns):
        for name, counts in view.marks(first, last, many).items():
            marks.setdefault(name, []).extend(_spread(counts, cells))
    return {name: tuple(counts) for name, counts in marks.items() if counts}


def _spread(values: Sequence[int], cells: Sequence[int]) -> list[int]:
    return [value for value, many in zip(values, cells, strict=False) for _ in range(many)]
