"""The timeline: a lane a request, the marks, the pool over time, and the axis, for a window of rounds.

Everything is drawn from a strip (`tsviz.tui.strip`), a value a terminal cell; runs of equal cells are one span. The
column of the cursor goes through all of it. A click anywhere goes to the first round of its column.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from typing import NamedTuple

from tsviz.tui.clean import fit, told_apart
from tsviz.tui.glyphs import LANES, MARKS, PIN, SELECTED, Mark
from tsviz.tui.lines import Document, Line, Lines, Span
from tsviz.tui.numbers import grouped, level
from tsviz.tui.panes.timeline_edges import axis, title
from tsviz.tui.scene import Scene
from tsviz.tui.strip import Lane, LaneGroup, Strip

_NARROW_LABEL, _WIDE_LABEL, _WIDE_FROM = 11, 14, 150
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_CACHED = "░"
_HERE = "│"
_MOMENTS = frozenset((*(MARKS[name] for name in MARKS if name != "head_of_line"), *LANES[-2:]))
"""What happens at one moment: every mark but the line that is held, and the end of a request."""


class Rows(NamedTuple):
    """How the lines of the timeline are shared out."""

    title: int
    lanes: int
    marks: int
    pool: int


def label_cells(width: int) -> int:
    """Return the cells of the labels at the left."""
    return _WIDE_LABEL if width >= _WIDE_FROM else _NARROW_LABEL


def columns(width: int) -> int:
    """Return how many cells of rounds a timeline of `width` cells has."""
    return max(width - label_cells(width) - 1, 1)


def rows(height: int) -> Rows:
    """Return how many lines of `height` each part gets; the axis always has one."""
    if height <= 4:
        return Rows(0, 0, 1 if height > 2 else 0, 1 if height > 1 else 0)
    pool = 2 if height < 12 else (3 if height < 24 else 4)
    marks = 1 if height < 12 else min(3 + (height - 12) // 8, 6)
    return Rows(1, height - pool - marks - 2, marks, pool)


def timeline(scene: Scene, width: int, height: int) -> Document:
    """Return lanes, marks, pool and axis of the window."""
    strip, rounds = scene.strip, scene.rounds
    label = label_cells(width)
    if rounds == 0 or strip is None or not strip.ask.window.size:
        return Lines((Line((Span(f"{'rounds':>{label - 1}} ", "dim"), Span("╌" * columns(width), "rule"))),))
    shared = rows(height)
    here = strip.cells_of(scene.round)
    usable = scene.frame.snapshot.pool.usable_pages if scene.frame is not None else 0
    lines = [title(scene, strip, label, width)] if shared.title else []
    lines += _body(strip, shared, label, here.start, here.stop, scene.selected, scene.pinned, usable, scene.noted)
    lines.append(axis(scene, strip, label, here))
    return Lines(lines[:height])


@lru_cache(maxsize=4)
def _body(
    strip: Strip,
    shared: Rows,
    label: int,
    first: int,
    end: int,
    selected: int | None,
    pinned: frozenset[int],
    usable: int,
    noted: tuple[int, ...],
) -> tuple[Line, ...]:
    """Return everything between title and axis; kept, because most steps leave the cursor in its column."""
    here = range(first, end)
    return (
        *_lanes(strip, label, shared.lanes, here, selected, pinned),
        *_marks(strip, label, shared.marks, here, noted),
        *_pool(strip, label, shared.pool, here, usable),
    )


def _lanes(
    strip: Strip, label: int, most: int, here: range, selected: int | None, pinned: frozenset[int]
) -> Iterator[Line]:
    lanes = strip.lanes[:most]
    names = iter(told_apart([lane.request for lane in lanes if isinstance(lane, Lane)], label - 2))
    for lane in lanes:
        if isinstance(lane, LaneGroup):
            yield _group(lane, label, here)
            continue
        name = next(names)
        chosen = lane.submission == selected
        pin = PIN.glyph if lane.submission in pinned else " "
        lead = SELECTED.glyph if chosen else pin
        spans = [Span(lead, SELECTED.role), Span(f"{fit(name, label - 2)} ", "strong" if chosen else "dim")]
        spans += _cells(_once([LANES[code] for code in lane.cells], strip), here)
        yield Line(tuple(spans), "cursor" if chosen else "", ("lane", lane.submission))
    for _ in range(most - len(strip.lanes)):
        yield Line((Span(" " * label), *_cells([LANES[0]] * strip.ask.cells, here)), "", ("column", 0))


def _group(group: LaneGroup, label: int, here: range) -> Line:
    """Return the head of a group: its name, its lanes, and as heights how many of them are there, at most."""
    most, number = max(group.there, default=0), grouped(group.lanes)
    name = f"{fit(group.name, label - 2 - len(number))} {number} "
    heights = [Mark(level(each, most), "", "accent", "") for each in group.there]
    return Line((Span(name, "heading"), *_cells(heights, here)), "", ("column", 0))


def _cells(marks: Sequence[Mark], here: range) -> Iterator[Span]:
    """Yield runs of equal cells as spans; the column of the cursor keeps its glyph and is drawn as the position."""
    pieces = (marks[: here.start], marks[here.start : here.stop], marks[here.stop :]) if here else (marks, (), ())
    for number, piece in enumerate(pieces):
        for place, (mark, run) in enumerate(groupby(piece)):
            many = sum(1 for _ in run)
            at_cursor = number == 1
            if at_cursor and mark.glyph == " " and place == 0:
                yield Span(_HERE + " " * (many - 1), "position")
            else:
                yield Span(mark.glyph * many, "position" if at_cursor else mark.role)


def _once(marks: Sequence[Mark], strip: Strip) -> list[Mark]:
    """Return cells in which what happens at one moment stands once, where a round is several cells wide."""
    firsts = strip.firsts
    again = (cell > 0 and firsts[cell] == firsts[cell - 1] for cell in range(len(marks)))
    return [LANES[0] if wide and mark in _MOMENTS else mark for mark, wide in zip(marks, again, strict=True)]


def _marks(strip: Strip, label: int, most: int, here: range, noted: tuple[int, ...]) -> Iterator[Line]:
    """Yield a line a mark that stands in the window, the gravest first; where there is no room, one for all."""
    found = dict(strip.marks)
    if noted:
        there = {cell for round_ in noted for cell in strip.cells_of(round_)}
        found["note"] = tuple([int(cell in there) for cell in range(strip.ask.cells)])
    standing = [name for name in MARKS if any(found.get(name, ()))]
    if most < 1:
        return
    alone = standing if len(standing) <= most else standing[: most - 1]
    shared = standing[len(alone) :]
    for name in alone:
        mark = MARKS[name]
        cells = _once([mark if count else LANES[0] for count in found[name]], strip)
        yield Line((Span(f"{fit(mark.word, label - 1, 'right')} ", mark.role), *_cells(cells, here)), "", ("column", 0))
    if shared:
        graver = [
            next((MARKS[name] for name in shared if found[name][cell]), LANES[0]) for cell in range(strip.ask.cells)
        ]
        cells = _once(graver, strip)
        word = "marks" if not alone else "more"
        yield Line((Span(f"{word:>{label - 1}} ", "dim"), *_cells(cells, here)), "", ("column", 0))
    for _ in range(most - len(alone) - bool(shared)):
        yield Line((Span(f"{'marks' if not standing else '':>{label - 1}} ", "dim"),
                    *_cells([LANES[0]] * strip.ask.cells, here)), "", ("column", 0))  # fmt: skip


def _pool(strip: Strip, label: int, most: int, here: range, usable: int) -> Iterator[Line]:
    """Yield the pool as columns: what live tables hold solid, what is only cached shaded, what is empty blank."""
    if most and strip.ask.pool_group is not None and not strip.occupied_pages:
        words = fit(f"the pool of one group: {strip.pool_words}", strip.ask.cells)
        yield Line((Span(f"{'pool':>{label - 1}} ", "dim"), Span(words, "dim")), "", ("column", 0))
        return
    if not most or not usable or not strip.occupied_pages:
        return
    active_pages = strip.active_pages or (-1,) * strip.ask.cells
    for row in range(most - 1, -1, -1):
        top = usable * (row + 1) // most
        name = f"{grouped(top)} pg" if row == most - 1 else (grouped(top) if most > 2 or row else "")
        if most == 1:
            name = "pool"
        cells = [
            _pool_cell(occupied, active, usable, row, most)
            for occupied, active in zip(strip.occupied_pages, active_pages, strict=True)
        ]
        yield Line((Span(f"{fit(name, label - 1, 'right')} ", "dim"), *_cells(cells, here)), "", ("column", 0))


def _pool_cell(occupied: int, active: int, usable: int, row: int, most: int) -> Mark:
    solid = occupied if active < 0 else active
    eighths = _height(solid, usable, most) - 8 * row
    if eighths > 0:
        role = "pool-full" if active >= usable and row == most - 1 else "pool"
        return Mark(_EIGHTHS[min(eighths, 8)], "", role, "")
    if _height(occupied, usable, most) - 8 * row >= 4:
        return Mark(_CACHED, "", "pool-cached", "")
    return LANES[0]


def _height(pages: int, usable: int, most: int) -> int:
    """Return a height in eighths of `most` lines: nothing only for nothing, everything only for everything."""
    if pages <= 0:
        return 0
    whole = 8 * most
    return whole if pages >= usable else min(max(round(pages * whole / usable), 1), whole - 1)
