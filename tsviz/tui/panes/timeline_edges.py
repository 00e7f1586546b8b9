"""The edges of the timeline: above it what is shown, below it the axis, in rounds or in time."""

from __future__ import annotations

from tsviz.tui.clean import shorten
from tsviz.tui.lines import Line, Span, clip
from tsviz.tui.numbers import counted, day, duration, grouped, instant, time_of_day
from tsviz.tui.scene import Scene
from tsviz.tui.strip import LANE_GROUPS, LANE_ORDERS, TIME, Lane, Strip

_HINTS_FROM, _TALLER_FROM = 150, 110
_NONE = "no request in this window"


def title(scene: Scene, strip: Strip, label: int, width: int) -> Line:
    """Return which rounds are shown, how much a column is, which lanes, and how they are ordered and grouped."""
    window = strip.ask.window
    whole = "" if window.size == scene.whole.size else f" of {scene.rounds:,}"
    text = f"rounds {window.first:,} to {window.last:,}{whole}, {_each(strip)}{_day(scene, strip)}"
    words = _pool(scene, strip) + _lanes(strip, width)
    hints = "   + in  - out  0 all  { } pan  G group  K pool  T time" if width >= _HINTS_FROM else ""
    spans = (Span(f"{'timeline':>{label - 1}} ", "heading"), Span(text, "text"), Span(f"   {words}{hints}", "dim"))
    return clip(Line(spans), width)


def _pool(scene: Scene, strip: Strip) -> str:
    """Return whose pool is shown, where it is not that of all groups."""
    groups, number = scene.head.groups if scene.head is not None else (), strip.ask.pool_group
    if number is None or number >= len(groups):
        return ""
    return f"pool of {shorten(groups[number], 16)}{f' ({strip.pool_words})' if strip.pool_words else ''}   "


def _lanes(strip: Strip, width: int) -> str:
    """Return which lanes are shown and in what order; without room for any, how many there are and what shows them."""
    ask, lanes = strip.ask, sum(isinstance(lane, Lane) for lane in strip.lanes)
    if not lanes and strip.total:
        taller = ", or a taller terminal" if width >= _TALLER_FROM else ""
        return f"no room for lanes of {counted(strip.total, 'request')}: 4 then z{taller}"
    if not lanes:
        return _NONE
    shown = f"lanes {strip.top + 1:,} to {strip.top + lanes:,} of {strip.total:,}"
    order = f"{LANE_ORDERS[ask.order]}{', reversed' if ask.reverse else ''}"
    return f"{shown} {LANE_GROUPS[ask.group]}{', ' if ask.group else ''}{order}"


def _each(strip: Strip) -> str:
    """Return how much one column shows."""
    ask = strip.ask
    if strip.begins_ns is not None:
        return f"{duration(_cell_ns(strip))} a column"
    if ask.axis == TIME:
        return "times are not known"
    each = ask.window.size / strip.columns
    if each >= 1 and strip.columns == ask.cells:
        return f"{each:,.3g} rounds a column"
    return f"{ask.cells / strip.columns:,.3g} cells a round"


def _wall_ns(scene: Scene, strip: Strip) -> int | None:
    """Return when the trace began, where the axis is one of time and the trace has a place on the wall clock."""
    return None if scene.head is None or strip.begins_ns is None else scene.head.wall_zero_ns


def _day(scene: Scene, strip: Strip) -> str:
    """Return the day on which the window begins, on the wall clock."""
    wall_ns = _wall_ns(scene, strip)
    return "" if wall_ns is None else f" from {day(wall_ns + (strip.time_at(0) or 0))} UTC"


def _cell_ns(strip: Strip) -> float:
    first_ns, last_ns = strip.begins_ns or (0, 0)
    return (last_ns - first_ns) / max(strip.ask.cells - 1, 1)


def axis(scene: Scene, strip: Strip, label: int, here: range) -> Line:
    """Return numbers under the columns: the ends, quarters where they do not touch, and the cursor under its column."""
    cells = strip.ask.cells
    text = ["·"] * cells
    taken: list[tuple[int, int]] = []

    def put(words: str, cell: int) -> tuple[int, int] | None:
        start = min(max(cell - len(words) // 2, 0), max(cells - len(words), 0))
        end = start + len(words)
        if end > cells or any(start <= b and a <= end for a, b in taken):
            return None
        text[start:end] = words
        taken.append((start, end))
        return start, end

    wall_ns = _wall_ns(scene, strip)
    mine = put(f"◆{grouped(scene.round)}", here.start + 1) if here else None
    for cell in (0, cells - 1, *(quarter * cells // 4 for quarter in (2, 1, 3))):
        if cell not in here:  # where one round takes many columns its number stands there already
            put(_number(strip, cell, wall_ns), cell)
    joined = "".join(text)
    unit = "round" if strip.begins_ns is None else "time" if wall_ns is None else "UTC"
    lead = Span(f"{unit:>{label - 1}} ", "dim")
    if mine is None:
        return Line((lead, Span(joined, "dim")), "", ("column", 0))
    start, end = mine
    spans = (lead, Span(joined[:start], "dim"), Span(joined[start:end], "position"), Span(joined[end:], "dim"))
    return Line(spans, "", ("column", 0))


def _number(strip: Strip, cell: int, wall_ns: int | None) -> str:
    time_ns = strip.time_at(cell)
    if time_ns is not None and wall_ns is not None:
        return time_of_day(wall_ns + time_ns, _cell_ns(strip))
    if time_ns is not None:
        return instant(time_ns, _cell_ns(strip))
    return grouped(strip.ask.window.last if cell == strip.ask.cells - 1 else strip.round_at(cell))
