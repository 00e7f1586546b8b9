"""A chart over a result of SQL: a column over the rounds (or another column), or bars over names."""

from __future__ import annotations

import math
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType

from tsviz.tui.clean import clean, shorten
from tsviz.tui.grid import Grid, place_of
from tsviz.tui.key import Key
from tsviz.tui.lines import Document, Line, Span, spread
from tsviz.tui.numbers import grouped
from tsviz.tui.panes.chart import Series, bar_chart, line_chart, number
from tsviz.tui.screens.over import Jump, Over, bindings_of, keys_of
from tsviz.tui.widgets.pane import Pane

KEYS = keys_of(
    "chart",
    Key("chart.next", "y", "next_y(1)", "Next column to draw", "Chart", "next column"),
    Key("chart.back", "Y", "next_y(-1)", "Previous column to draw", "Chart"),
    Key("chart.x", "x", "next_x", "Next column to draw over", "Chart", "over another"),
    Key("chart.left", "left,h", "move(-1)", "Mark to the left", "Chart"),
    Key("chart.right", "right", "move(1)", "Mark to the right", "Chart"),
    Key("chart.jump", "enter", "choose", "Go to the round under the mark", "Chart", "go to its round"),
)
_AXES = ("round", "time_ns", "start_ns", "bucket", "submission")
_LABELS = 13


class ChartScreen(Over):
    """One chart: over numbers a line, over names bars."""

    KEYS = KEYS
    NAME = "Chart"
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(KEYS)
    DEFAULT_CSS = "ChartScreen #chart { height: 1fr; }"

    def __init__(self, grid: Grid, column: int, trace: str, keymap: dict[str, str] | None = None) -> None:
        super().__init__(keymap)
        self._grid, self._trace = grid, trace
        numbers = [c for c in range(len(grid.columns.names)) if grid.columns.is_number(c)]
        axis = grid.find(_AXES)
        names = [c for c in range(len(grid.columns.names)) if c not in numbers]
        self._x = axis if axis is not None else (names[0] if names else 0)
        self._ys = [c for c in numbers if c != self._x] or numbers
        self._y = self._ys.index(column) if column in self._ys else 0
        self._read: dict[int, list[float]] = {}

    def body(self) -> ComposeResult:
        """Place the chart."""
        yield Pane(self._chart, id="chart", focusable=True).add_class("over-box", "over-list")

    def _numbers(self, column: int) -> list[float]:
        if column not in self._read:
            self._read[column] = self._grid.numbers(column)
        return self._read[column]

    @property
    def _is_line(self) -> bool:
        return self._grid.columns.is_number(self._x)

    def _series(self) -> Series:
        names, y = self._grid.columns.names, self._ys[self._y]
        return Series(clean(names[y]), clean(names[self._x]), self._numbers(self._x), self._numbers(y))

    def _chart(self, _scene: object, width: int, height: int) -> Document:
        if not self._ys:
            return bar_chart((), (), 0, width)
        if self._is_line:
            return line_chart(self._series(), self.cursor, width, height)
        names = [self._grid.text(row, self._x) for row in range(self._grid.rows)]
        return bar_chart(names, self._numbers(self._ys[self._y]), self.cursor, width)

    def head(self, width: int) -> tuple[Line, Line]:
        """Return what is drawn over what, and the value under the mark."""
        left = [Span(" tsviz ", "brand"), Span(" "), Span("Chart", "title"), Span(" │ ", "rule")]
        left.append(Span(shorten(self._trace, max(width // 3, 8))))
        rows = Span(f"{grouped(self._grid.rows)} rows ", "dim")
        if not self._ys:
            return spread(left, (rows,), width), Line((Span(" No column of the result is a number.", "warn"),))
        names = self._grid.columns.names
        what = (
            Span(f" {clean(names[self._ys[self._y]])}", "position"),
            Span(" over ", "dim"),
            Span(clean(names[self._x])),
        )
        return spread(left, (rows,), width), spread(what, (Span(f"{self._under()} ", "strong"),), width)

    def _under(self) -> str:
        row = self._row()
        if row is None:
            return ""
        x = self._grid.text(row, self._x)
        return f"{x}: {number(self._numbers(self._ys[self._y])[row])}"

    def _row(self) -> int | None:
        """Return the row under the mark: of a line the greatest in its column of cells."""
        if not self._ys or not self._grid.rows:
            return None
        if not self._is_line:
            return min(self.cursor, self._grid.rows - 1)
        series = self._series()
        finite = [r for r in range(self._grid.rows) if math.isfinite(series.x[r]) and math.isfinite(series.y[r])]
        if not finite:
            return None
        low, high = min(series.x[r] for r in finite), max(series.x[r] for r in finite)
        cells = self.height()
        here = [
            r for r in finite
            if (int((series.x[r] - low) / (high - low) * cells) if high > low else 0)
            in ((self.cursor, cells) if self.cursor == cells - 1 else (self.cursor,))
        ]  # fmt: skip
        return max(here, key=lambda r: series.y[r], default=None)

    def height(self) -> int:
        """Columns of cells of a line; rows of bars."""
        if not self._is_line:
            return self._grid.rows
        return max(self.query_one("#chart", Pane).size.width - _LABELS - 1, 4) if self.is_mounted else 4

    def on_mount(self) -> None:
        """Take the keys."""
        self.query_one("#chart").focus()

    def action_next_y(self, step: int) -> None:
        """Draw the next column."""
        if self._ys:
            self._y = (self._y + step) % len(self._ys)
        self.redraw()

    def action_next_x(self) -> None:
        """Draw over the next column."""
        self._x = (self._x + 1) % len(self._grid.columns.names)
        self.cursor = 0
        self.redraw()

    def action_choose(self) -> None:
        """Go to the round of the row under the mark."""
        row = self._row()
        place = None if row is None else place_of(self._grid, row)
        if place is None:
            return self.say("There is no round under the mark.")
        self.dismiss(Jump(place.round, place.request, place.submission, "From the chart."))
        return None
