"""The window of rounds that the timeline shows, and what was fetched for it. No toolkit: pure values.

While the next strip is on its way the last one stays on the screen, drawn with its own columns, so nothing flickers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
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

LANE_GROUPS = {"": "", "class": "by class", "state": "by state at the cursor"}
"""Groups of the lanes, and what they are called; a class is the id of a request without its number."""

ROUNDS, TIME = "rounds", "time"
"""What the axis is: as many rounds in every column, or as much time on the clock of the part."""


@dataclass(frozen=True, slots=True)
class Window:
    """Rounds `first` to `last`, both included; moved and zoomed it stays in the `whole` of what is recorded."""

    first: int = 1
    last: int = 0

    @property
    def size(self) -> int:
        """Number of rounds."""
        return max(self.last - self.first + 1, 0)

    def zoomed(self, step: int, at: int, whole: Window) -> Window:
        """Return a window half as wide (`step` 1) or twice as wide (-1), with round `at` where it was."""
        size = self.size // 2 if step > 0 else self.size * 2
        size = min(max(size, LEAST_ROUNDS), whole.size)
        share = (at - self.first) / max(self.size - 1, 1)
        return _placed(at - round(share * (size - 1)), size, whole)

    def panned(self, rounds_right: int, whole: Window) -> Window:
        """Return the window moved to the right (left, if negative), held to the trace."""
        return _placed(self.first + rounds_right, self.size, whole)

    def with_round(self, round_: int, whole: Window) -> Window:
        """Return the window itself if it holds a round, otherwise moved so that it does, a quarter from its edge."""
        if self.first <= round_ <= self.last:
            return self
        left_of_it = self.size // 4 if round_ > self.last else self.size - 1 - self.size // 4
        return _placed(round_ - left_of_it, self.size, whole)


NO_WINDOW = Window()


def _placed(first: int, size: int, whole: Window) -> Window:
    size = max(min(size, whole.size), 0)
    first = min(max(first, whole.first), max(whole.last - size + 1, whole.first))
    return Window(first, first + size - 1)


@dataclass(frozen=True, slots=True)
class Lane:
    """One request of the window: a code of `CELLS` a terminal cell; empty where it was not fetched."""

    submission: int
    request: str
    cells: bytes = b""


@dataclass(frozen=True, slots=True)
class LaneGroup:
    """The head of a group of lanes: its name, its lanes in the window, and how many are there in each terminal cell."""

    name: str
    lanes: int
    there: tuple[int, ...]


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
    """Where the cursor is, for the order and the groups that depend on it; 0 for the others."""
    group: str = ""
    reverse: bool = False
    axis: str = ROUNDS
    pool_group: int | None = None
    """The only group whose pool is drawn, by its number; None: all."""


@dataclass(frozen=True, slots=True, eq=False)
class Strip:
    """A fetched window; equal to itself only, so that what is drawn of it can be kept.

    Everything is a value a terminal cell; a round may be several cells wide, or many in one.
    """

    ask: StripAsk
    lanes: tuple[Lane | LaneGroup, ...]
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
    firsts: tuple[int, ...] = ()
    """First round of each cell, never falling; even columns of rounds unless they are given."""
    pool_words: str = ""
    """Of the pool of one group, which is in parents: why it is not there, or how far it is known."""
    begins_ns: tuple[int, int] | None = None
    """On an axis of time, when the first and the last round of the window began, since the clock's beginning."""

    def __post_init__(self) -> None:
        """Take even columns where none are given."""
        if not self.firsts:
            object.__setattr__(self, "firsts", even_firsts(self.ask))

    @property
    def columns(self) -> int:
        """Columns that differ: one a round where the window is narrower than the screen."""
        return max(len(set(self.firsts)), 1)

    def round_at(self, cell: int) -> int:
        """Return the first round that a terminal cell shows."""
        return self.firsts[min(max(cell, 0), self.ask.cells - 1)]

    def cells_of(self, round_: int) -> range:
        """Return the terminal cells that show a round; empty outside of the window."""
        if not self.ask.window.first <= round_ <= self.ask.window.last:
            return range(0)
        end = max(bisect_right(self.firsts, round_), 1)
        return range(bisect_left(self.firsts, self.firsts[end - 1]), end)

    def time_at(self, cell: int) -> int | None:
        """Return when a cell begins, in ns of the part's clock; None on an axis of rounds."""
        if self.begins_ns is None:
            return None
        first_ns, last_ns = self.begins_ns
        return first_ns + (last_ns - first_ns) * cell // max(self.ask.cells - 1, 1)


def even_firsts(ask: StripAsk) -> tuple[int, ...]:
    """Return the first round of each cell where every column holds as many rounds."""
    return tuple([round_of(ask, column_of_cell(ask, cell)) for cell in range(ask.cells)])


def column_of_cell(ask: StripAsk, cell: int) -> int:
    """Return the column that a terminal cell belongs to."""
    columns = max(min(ask.cells, ask.window.size), 1)
    return min(max(cell, 0), ask.cells - 1) * columns // ask.cells


def round_of(ask: StripAsk, column: int) -> int:
    """Return the first round of a column."""
    columns = max(min(ask.cells, ask.window.size), 1)
    return ask.window.first + column * ask.window.size // columns
