"""The strip under the header: the pool over the whole trace, and a scrubber with the position.

One column is one bucket of rounds; a click on a column goes to its first round. Lanes, marks and zoom come to stand
here with the level-of-detail index.
"""

from __future__ import annotations

from tsviz.tui.lines import Document, Line, Lines, Span, Target
from tsviz.tui.numbers import grouped, level
from tsviz.tui.scene import Scene

LABEL_CELLS = 7


def columns(width: int) -> int:
    """Return how many buckets a strip of `width` cells has."""
    return max(width - LABEL_CELLS - 1, 1)


def first_round(column: int, cells: int, rounds: int) -> int:
    """Return the first round of a column, 1-based; the last column ends with the last round."""
    return min(1 + column * rounds // cells, rounds)


def column_of(round_: int, cells: int, rounds: int) -> int:
    """Return the column that holds a round."""
    if rounds <= 0:
        return 0
    column = min(max((round_ - 1) * cells // rounds, 0), cells - 1)
    while column + 1 < cells and first_round(column + 1, cells, rounds) <= round_:
        column += 1
    return column


def timeline(scene: Scene, width: int, height: int) -> Document:
    """Return the pool strip (where the view offers it) and the scrubber."""
    cells, rounds = columns(width), scene.rounds
    if rounds == 0:
        return Lines((Line((Span(" rounds ", "dim"), Span("╌" * (cells - 1), "rule"))),))
    here = column_of(scene.round, cells, rounds)
    lines = [_scrubber(here, cells, rounds), _axis(here, scene.round, cells, rounds)]
    if scene.pool_history is not None and scene.frame is not None:
        lines.insert(0, _pool(scene.pool_history, scene.frame.snapshot.pool.usable_pages, here, cells, rounds))
    return Lines(lines[:height])


def _go(column: int, cells: int, rounds: int) -> Target:
    return ("round", first_round(column, cells, rounds))


def _pool(history: tuple[int, ...], usable: int, here: int, cells: int, rounds: int) -> Line:
    spans = [Span(f"{'pool':>{LABEL_CELLS - 1}} ", "dim")]
    for column in range(cells):
        bucket = column * len(history) // cells
        occupied = history[bucket] if history else 0
        role = "position" if column == here else ("pool-full" if occupied >= usable else "pool")
        glyph = level(occupied, usable)
        if column == here and glyph == " ":
            glyph = "▁"
        spans.append(Span(glyph, role, _go(column, cells, rounds)))
    return Line(tuple(spans))


def _scrubber(here: int, cells: int, rounds: int) -> Line:
    spans = [Span(f"{'round':>{LABEL_CELLS - 1}} ", "dim")]
    for column in range(cells):
        glyph, role = ("◆", "position") if column == here else (("━", "past") if column < here else ("─", "rule"))
        spans.append(Span(glyph, role, _go(column, cells, rounds)))
    return Line(tuple(spans))


def _axis(here: int, round_: int, cells: int, rounds: int) -> Line:
    """Numbers under the scrubber: the ends, quarters where they do not touch, and the position under its mark."""
    text = [" "] * cells
    here_label = grouped(round_)
    taken: list[tuple[int, int]] = []

    def put(label: str, column: int) -> tuple[int, int] | None:
        start = min(max(column - len(label) // 2, 0), max(cells - len(label), 0))
        end = start + len(label)
        if end > cells or any(start <= b and a <= end for a, b in taken):
            return None
        text[start:end] = label
        taken.append((start, end))
        return start, end

    mine = put(here_label, here)
    put("1", 0)
    put(grouped(rounds), cells - 1)
    for quarter in (2, 1, 3):
        column = quarter * cells // 4
        put(grouped(first_round(column, cells, rounds)), column)
    joined = "".join(text)
    lead = Span(" " * LABEL_CELLS)
    if mine is None:
        return Line((lead, Span(joined, "dim")))
    start, end = mine
    return Line((lead, Span(joined[:start], "dim"), Span(joined[start:end], "position"), Span(joined[end:], "dim")))
