"""Which lanes a strip shows: filtered, ordered, grouped under heads, and cut to the page that holds the selection."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import groupby

from tsviz.replay.recorded.snapshot import STATES
from tsviz.tui.glyphs import LANES
from tsviz.tui.strip import Lane, LaneGroup, StripAsk
from tsviz.tui.view import LaneLike, TimelineView

_PINNED, _ENDED, _TO_COME = "pinned", "ended", "to come"


def lane_list(
    view: TimelineView, ask: StripAsk, firsts: Sequence[int]
) -> tuple[tuple[Lane | LaneGroup, ...], int, int]:
    """Return the lanes that are shown, without their cells, the place of the first one, and how many lanes there are.

    `firsts` are the first rounds of the cells. Where lanes are grouped the first line shown is the head of a group.
    """
    found = view.lanes(ask.window.first, ask.window.last)
    if not (ask.filter.split() or ask.group or ask.reverse or ask.pinned) and ask.order == "arrival":
        return _by_arrival(found, ask)
    listed = _listed(found, ask)
    if ask.group:
        return _grouped(view, listed, ask, firsts)
    top = _page_top([lane.submission for lane in listed], ask.selected, max(ask.lanes, 1))
    shown = listed[top : top + ask.lanes]
    return tuple([Lane(lane.submission, lane.request) for lane in shown]), top, len(listed)


def _by_arrival(lanes: Sequence[LaneLike], ask: StripAsk) -> tuple[tuple[Lane, ...], int, int]:
    """Return the lanes as they come: of those of a large trace only the ones that are shown are looked at."""
    page, at = max(ask.lanes, 1), 0
    if ask.selected is not None:
        at = bisect_left(lanes, ask.selected, key=lambda lane: lane.submission)
        at = at if at < len(lanes) and lanes[at].submission == ask.selected else 0
    top = _page(at, page, len(lanes))
    return tuple([Lane(lane.submission, lane.request) for lane in lanes[top : top + ask.lanes]]), top, len(lanes)


def _listed(lanes: Sequence[LaneLike], ask: StripAsk) -> list[LaneLike]:
    words = ask.filter.lower().split()
    found = [lane for lane in lanes if all(word in lane.request.lower() for word in words)]
    if ask.order == "id":
        found.sort(key=lambda lane: (lane.request, lane.submission))
    elif ask.order == "longest":
        found.sort(key=lambda lane: (lane.first_round - (lane.last_round or ask.window.last), lane.submission))
    elif ask.order == "here":
        found.sort(key=lambda lane: not lane.first_round <= ask.here <= (lane.last_round or ask.here))
    if ask.reverse:
        found.reverse()
    found.sort(key=lambda lane: lane.submission not in ask.pinned)
    return found


def _grouped(
    view: TimelineView, listed: Sequence[LaneLike], ask: StripAsk, firsts: Sequence[int]
) -> tuple[tuple[Lane | LaneGroup, ...], int, int]:
    names = _names(view, listed, ask)
    order = sorted(range(len(listed)), key=lambda i: names[i])
    lines: list[LaneLike | None] = []  # None is the head of a group
    starts: list[int] = []
    for _, members in groupby(order, key=names.__getitem__):
        starts.append(len(lines))
        lines += [None, *(listed[i] for i in members)]

    def head(start: int) -> LaneGroup:
        group = bisect_left(starts, start)
        lanes = [lane for lane in lines[start + 1 : (*starts, len(lines))[group + 1]] if lane is not None]
        return LaneGroup(names[order[start - group]][1], len(lanes), _there(lanes, ask, firsts))

    page = max(ask.lanes - 1, 1)
    top = _page_top([-1 if line is None else line.submission for line in lines], ask.selected, page)
    shown = [
        head(at) if lane is None else Lane(lane.submission, lane.request)
        for at, lane in enumerate(lines[top : top + ask.lanes], top)
    ]
    if shown and not isinstance(shown[0], LaneGroup):
        shown = [head(starts[bisect_right(starts, top) - 1]), *shown[: ask.lanes - 1]]
    before = top - bisect_left(starts, top)
    return tuple(shown), before, len(listed)


def _names(view: TimelineView, listed: Sequence[LaneLike], ask: StripAsk) -> list[tuple[int, str]]:
    """Return the rank and the name of the group of every lane."""
    if ask.group == "class":
        from tsviz.replay.lost.blame import class_of

        names = [(1, class_of(lane.request) or lane.request) for lane in listed]
    else:
        here = [lane.submission for lane in listed if _is_there(lane, ask.here)]
        cells = view.timeline(ask.here, ask.here, 1, here)
        codes = {submission: code[0] for submission, code in zip(here, cells, strict=True) if code}
        ended = [_ENDED if lane.first_round < ask.here else _TO_COME for lane in listed]
        names = [
            (1 + codes[lane.submission], LANES[codes[lane.submission]].word)
            if codes.get(lane.submission)
            else (len(STATES) + 1 + (word == _TO_COME), word)
            for lane, word in zip(listed, ended, strict=True)
        ]
    return [(0, _PINNED) if lane.submission in ask.pinned else n for lane, n in zip(listed, names, strict=True)]


def _is_there(lane: LaneLike, round_: int) -> bool:
    return lane.first_round <= round_ and (lane.last_round is None or round_ <= lane.last_round)


def _there(lanes: Sequence[LaneLike], ask: StripAsk, firsts: Sequence[int]) -> tuple[int, ...]:
    """Return how many of the lanes are there in some round of each cell's column."""
    import numpy as np

    at, last = np.asarray(firsts), ask.window.last
    begun = np.array([max(lane.first_round, ask.window.first) for lane in lanes], np.int64)
    ended = np.array([last if lane.last_round is None else min(lane.last_round, last) for lane in lanes], np.int64)
    begins = np.searchsorted(at, at[np.maximum(np.searchsorted(at, begun, side="right") - 1, 0)])
    ends = np.searchsorted(at, ended, side="right")
    change = np.bincount(begins, minlength=len(at) + 1) - np.bincount(ends, minlength=len(at) + 1)
    return tuple(np.cumsum(change)[:-1].tolist())


def _page_top(submissions: Sequence[int], selected: int | None, page: int) -> int:
    """The first line that is shown: by pages, so that lanes stand still while the selection moves among them."""
    at = next((i for i, submission in enumerate(submissions) if submission == selected), 0)
    return _page(at, page, len(submissions))


def _page(at: int, page: int, lines: int) -> int:
    return min(at // page * page, max(lines - page, 0))
