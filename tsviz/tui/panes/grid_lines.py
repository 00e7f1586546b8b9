"""The rows of a result: a header that stays, rows by line on demand, numbers to the right, one row under the cursor."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.tui.clean import clean, fit
from tsviz.tui.grid import Grid
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span

_GAP = "  "


def shown_columns(grid: Grid, first: int, width: int) -> tuple[int, ...]:
    """Return the columns that have room from `first` on; at least one, and the last one may be cut."""
    shown: list[int] = []
    used = 1
    for column in range(first, len(grid.columns.names)):
        if shown and used + 3 > width:
            break
        shown.append(column)
        used += grid.widths()[column] + len(_GAP)
    return tuple(shown)


def grid_head(grid: Grid | None, first: int, column: int, width: int) -> Document:
    """Return the names of the columns, the chosen one marked."""
    if grid is None or not grid.columns.names:
        return Lines((Line(),))
    spans = [Span("‹" if first else " ", "accent")]
    columns = shown_columns(grid, first, width)
    for each in columns:
        name = clean(grid.columns.names[each])
        spans.append(Span(_cell(grid, each, name, columns, width), "position" if each == column else "column"))
        spans.append(Span(_GAP))
    if columns[-1] + 1 < len(grid.columns.names):
        spans[-1] = Span(" ›", "accent")
    return Lines((Line(tuple(spans)),))


def grid_rows(grid: Grid | None, first: int, cursor: int, width: int) -> Document:
    """Return the rows; a click puts the cursor on one."""
    if grid is None:
        return Lines(())
    columns = shown_columns(grid, first, width)

    def row(y: int) -> Line:
        here = y == cursor
        spans = [Span("▸" if here else " ", "accent")]
        for each in columns:
            value = grid.text(y, each)
            role = "dim" if value == "∅" else "text"
            spans += [Span(_cell(grid, each, value, columns, width), role), Span(_GAP)]
        return Line(tuple(spans), "cursor" if here else "", ("line", y))

    return Lazy(grid.rows, row, cursor if grid.rows else None)


def _cell(grid: Grid, column: int, text: str, columns: Sequence[int], width: int) -> str:
    """Return a text in the cells of its column; a single column takes the line if it needs it."""
    cells = grid.widths()[column] if len(columns) > 1 else max(width - 3, 1)
    return fit(text, cells, "right" if grid.columns.is_number(column) and len(columns) > 1 else "left")
