"""The window of rounds that the timeline shows, and what was fetched for it. No toolkit: pure values.

While the next strip is on its way the last one stays on the screen, drawn with its own columns, so nothing flickers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

LEAST_ROUNDS = 8
"""A window is never narrower than this (unless the trace is)."""

LANE_ORDERS = {
    "arrival": "by arrival",
    "here": "those there at the cursor first",
    "longest": "longest first",
    "id": "by id",
}
"""Orders of the lanes, and what they are called."""


@dataclass(frozen=True, slots=True)
class Window:
    """Rounds `first` to `last`, both included."""

    first: int = 1
    last: int = 0

    @property
    def size(self) -> int:
        """Number of rounds."""
        return max(self.last - self.first + 1, 0)

    def zoomed(self, step: int, at: int, rounds: int) -> Window:
        """Return a window half as wide (`step` 1) or twice as wide (-1), with round `at` where it was."""
        size = self.size // 2 if step > 0 else self.size * 2
        size = min(max(size, LEAST_ROUNDS), rounds)
        share = (at - self.first) / max(self.size - 1, 1)
        return _placed(at - round(share * (size - 1)), size, rounds)

    def panned(self, rounds_right: int, rounds: int) -> Window:
        """Return the window moved to the right (left, if negative), held to the trace."""
        return _placed(self.first + rounds_right, self.size, rounds)

    def with_round(self, round_: int, rounds: int) -> Window:
        """Return the window itself if it holds a round, otherwise moved so that it does, a quarter from its edge."""
        if self.first <= round_ <= self.last:
            return self
        left_of_it = self.size // 4 if round_ > self.last else self.size - 1 - self.size // 4
        return _placed(round_ - left_of_it, self.size, rounds)


NO_WINDOW = Window()


def _placed(first: int, size: int, rounds: int) -> Window:
    size = max(min(size, rounds), 0)
    first = min(max(first, 1), max(rounds - size + 1, 1))
    return Window(first, first + size - 1)


@dataclass(frozen=True, slots=True)
class Lane:
    """One request of the window: a code of `CELLS` a terminal cell; empty where it was not fetched."""

    submission: int
    request: str
    cells: bytes = b""


@dataclass(frozen=True, slots=True)
class StripAsk:
    """What the timeline wants: a window in so many terminal cells, and which lanes of it."""

    window: Window
    cells: int
    lanes: int
    selected: int | None = None
    filter: str = ""
    order: str = "arrival"
    pinned: frozenset[int] = frozenset()
    here: int = 0
    """Where the cursor is, for the order that depends on it; 0 for the others."""


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """A fetched window; equal to itself only, so that what is drawn of it can be kept.

    Everything is a value a terminal cell; a round may be several cells wide, or many in one.
    """

    ask: StripAsk
    lanes: tuple[Lane, ...]
    top: int
    total: int
    """Lanes of the window that pass the filter, of which `lanes` are those from `top` on."""
    marks: Mapping[str, tuple[int, ...]]
    """Per mark, in how many rounds of the cell's column it stands. One that is missing is not known."""
    decided_to: int
    """Last round up to which the marks of decisions are known."""
    occupied_pages: tuple[int, ...]
    active_pages: tuple[int, ...]
    """Most pages that live tables held; -1 where decisions do not tell."""

    @property
    def columns(self) -> int:
        """Columns that differ: one a round where the window is narrower than the screen."""
        return max(min(self.ask.cells, self.ask.window.size), 1)

    def round_at(self, cell: int) -> int:
        """Return the first round that a terminal cell shows."""
        return round_of(self.ask, column_of_cell(self.ask, cell))

    def cells_of(self, round_: int) -> range:
        """Return the terminal cells that show a round; empty outside of the window."""
        window, cells = self.ask.window, self.ask.cells
        if not window.first <= round_ <= window.last:
            return range(0)
        column = min((round_ - window.first) * self.columns // window.size, self.columns - 1)
        while column + 1 < self.columns and round_of(self.ask, column + 1) <= round_:
            column += 1
        first = -(-column * cells // self.columns)
        return range(first, max(-(-(column + 1) * cells // self.columns), first + 1))


def column_of_cell(ask: StripAsk, cell: int) -> int:
    """Return the column that a terminal cell belongs to."""
    columns = max(min(ask.cells, ask.window.size), 1)
    return min(max(cell, 0), ask.cells - 1) * columns // ask.cells


def round_of(ask: StripAsk, column: int) -> int:
    """Return the first round of a column."""
    columns = max(min(ask.cells, ask.window.size), 1)
    return ask.window.first + column * ask.window.size // columns
