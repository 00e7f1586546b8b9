"""Charts of a column in characters: a line of braille dots over numbers, bars over names. No colour means anything."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tsviz.tui.clean import fit
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, clip, line
from tsviz.tui.numbers import bar

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""Bits of a braille cell by row and column."""
_LABEL_CELLS = 11


@dataclass(frozen=True, slots=True)
class Series:
    """One column over another: `x` numbers of `y`, NaN where there is none."""

    name: str
    x_name: str
    x: Sequence[float]
    y: Sequence[float]


def number(value: float) -> str:
    """Return a number for an axis, short."""
    if not math.isfinite(value):
        return "–"
    if value == int(value) and abs(value) < 1e7:
        return f"{int(value):,}"
    return f"{value:,.2f}" if 0.01 <= abs(value) < 1e6 else f"{value:.3g}"


def columns(series: Series, dots: int) -> list[tuple[float, float] | None]:
    """Return the least and greatest `y` in each of `dots` equal pieces of the range of `x`; None where none is."""
    pairs = [(x, y) for x, y in zip(series.x, series.y, strict=True) if math.isfinite(x) and math.isfinite(y)]
    found: list[tuple[float, float] | None] = [None] * dots
    if not pairs:
        return found
    low, high = min(x for x, _ in pairs), max(x for x, _ in pairs)
    for x, y in pairs:
        place = min(int((x - low) / (high - low) * dots), dots - 1) if high > low else 0
        before = found[place]
        found[place] = (y, y) if before is None else (min(before[0], y), max(before[1], y))
    return found


def line_chart(series: Series, cursor: int, width: int, height: int) -> Document:
    """Return the chart with its axes; `cursor` is the column of cells that is marked."""
    cells, rows = max(width - _LABEL_CELLS - 2, 4), max(height - 3, 2)
    pieces = columns(series, cells * 2)
    known = [piece for piece in pieces if piece is not None]
    if not known:
        return Lines((line(Span(f"  ∅ No number in {series.name}.", "heading")),))
    low, high = min(piece[0] for piece in known), max(piece[1] for piece in known)
    if 0 < low < high / 2 or low == high > 0:
        low = 0.0
    grid = _raster(pieces, low, high, rows)
    lines: list[Line] = []
    for row in range(rows):
        label = number(high) if row == 0 else number(low) if row == rows - 1 else ""
        if row == rows // 2 and rows >= 5:
            label = number(high - (high - low) * row / (rows - 1))
        spans = [Span(f"{label:>{_LABEL_CELLS}} ", "dim"), Span("┤" if label else "│", "rule")]
        text = "".join(chr(0x2800 + bits) if bits else " " for bits in grid[row])
        spans += [
            Span(text[:cursor], "pool"),
            Span(text[cursor : cursor + 1], "position"),
            Span(text[cursor + 1 :], "pool"),
        ]
        lines.append(Line(tuple(spans)))
    lines.append(line(Span(" " * (_LABEL_CELLS + 1)), Span("└" + "─" * cells, "rule")))
    xs = [x for x, y in zip(series.x, series.y, strict=True) if math.isfinite(x) and math.isfinite(y)]
    left, right = number(min(xs)), number(max(xs))
    middle = series.x_name
    gap = max(cells - len(left) - len(right) - len(middle), 2)
    axis = f"{left}{' ' * (gap // 2)}{middle}{' ' * (gap - gap // 2)}{right}"
    lines.append(clip(line(Span(" " * (_LABEL_CELLS + 2)), Span(axis, "dim")), width))
    return Lines(lines)


def _raster(pieces: Sequence[tuple[float, float] | None], low: float, high: float, rows: int) -> list[list[int]]:
    """Return the bits of every cell; neighbours are joined, so that a line stays a line."""
    dots = rows * 4
    grid = [[0] * (len(pieces) // 2) for _ in range(rows)]

    def level(value: float) -> int:
        return round((high - value) / (high - low) * (dots - 1)) if high > low else dots - 1

    before: tuple[int, int] | None = None
    for place, piece in enumerate(pieces):
        if piece is None:
            continue
        top, bottom = level(piece[1]), level(piece[0])
        drawn_top, drawn_bottom = top, bottom
        if before is not None:
            drawn_top, drawn_bottom = min(top, before[1]), max(bottom, before[0])
        for dot in range(drawn_top, drawn_bottom + 1):
            grid[dot // 4][place // 2] |= _DOTS[dot % 4][place % 2]
        before = (top, bottom)
    return grid


def bar_chart(names: Sequence[str], values: Sequence[float], cursor: int, width: int) -> Document:
    """Return one bar a row, with its name and its number; a line is made when it is looked at."""
    most = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    name_cells = min(max((len(name) for name in names), default=4), max(width // 3, 6))

    def row(y: int) -> Line:
        value = values[y]
        here = y == cursor
        cells = max(width - name_cells - 18, 4)
        share = round(abs(value) / most * 1_000_000) if most and math.isfinite(value) else 0
        full, empty = bar(share, 1_000_000, cells)
        role = "pool" if not math.isfinite(value) or value >= 0 else "retracted"
        sign = "-" if role == "retracted" else " "
        spans = (
            Span("▸" if here else " ", "accent"),
            Span(fit(names[y], name_cells), "strong" if here else "text"),
            Span(f" {sign}"),
            Span(full, role),
            Span(empty),
            Span(f"{number(value):>12} ", "strong"),
        )
        return clip(Line(spans, "cursor" if here else "", ("line", y)), width)

    return Lazy(len(values), row, cursor if values else None)
