"""The result of a query as it is looked at: cells made on demand from what arrived, however many rows there are."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from rich.cells import cell_len

from tsviz.tui.clean import clean

_MEASURED_ROWS = 200
_LEAST_CELLS, _MOST_CELLS = 3, 48
_NUMBERS = ("int", "uint", "float", "double", "half", "decimal")
_CELL_CHARACTERS = 500
_DECIMALS = 4
"""Digits behind the point that are shown of a number from 1 on; a copy of the file has all."""


@dataclass(frozen=True, slots=True)
class Columns:
    """What a result is made of: names, and the types of the engine."""

    names: tuple[str, ...]
    types: tuple[str, ...]

    def is_number(self, column: int) -> bool:
        """Whether the values of a column are numbers."""
        return self.types[column].startswith(_NUMBERS)


class Grid:
    """Rows that have arrived so far; batches are those of the engine and stay as they are."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self._batches: list[Any] = []
        self._starts = [0]
        self._widths: tuple[int, ...] | None = None

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return self._starts[-1]

    def add(self, batch: Any) -> None:
        """Take in a batch."""
        self._batches.append(batch)
        self._starts = [0, *accumulate(each.num_rows for each in self._batches)]
        if self._starts[-2] < _MEASURED_ROWS:
            self._widths = None

    def value(self, row: int, column: int) -> Any:
        """Return one value as Python has it, or as text (`tsviz.query.values`)."""
        from tsviz.query.values import column_values

        index = bisect_right(self._starts, row) - 1
        return column_values(self._batches[index].column(column).slice(row - self._starts[index], 1))[0]

    def text(self, row: int, column: int) -> str:
        """Return one value as text for a screen."""
        return told(self.value(row, column))

    def widths(self) -> tuple[int, ...]:
        """Return the cells of each column: as wide as its name and its first values, within bounds."""
        if self._widths is None:
            few = range(min(self.rows, _MEASURED_ROWS))
            self._widths = tuple(
                min(max([_LEAST_CELLS, cell_len(clean(name)), *(cell_len(self.text(r, c)) for r in few)]), _MOST_CELLS)
                for c, name in enumerate(self.columns.names)
            )
        return self._widths

    def numbers(self, column: int) -> list[float]:
        """Return a column as numbers; what is none is NaN."""
        from tsviz.query.values import column_values

        found: list[float] = []
        for value in (value for batch in self._batches for value in column_values(batch.column(column))):
            try:
                found.append(float(value))
            except (TypeError, ValueError, OverflowError):
                found.append(float("nan"))
        return found

    def find(self, names: Sequence[str]) -> int | None:
        """Return the first column with one of these names, in the order of `names`."""
        lower = [name.lower() for name in self.columns.names]
        return next((lower.index(name) for name in names if name in lower), None)


def told(value: Any) -> str:
    """Return a value as a person reads it, harmless."""
    if value is None:
        return "∅"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{round(value, _DECIMALS):.12g}" if abs(value) >= 1 else f"{value:.6g}"
    if isinstance(value, bytes):
        return value[:_CELL_CHARACTERS].hex()
    return clean(str(value)[:_CELL_CHARACTERS])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a row of a result points: a round, and what else it says of the place."""

    round: int
    part: str = ""
    request: str = ""
    submission: int | None = None


def place_of(grid: Grid, row: int) -> Place | None:
    """Return the place that a row names: its column `round`, or the first that ends so; None where there is none."""
    column = grid.find(("round",))
    columns = [column] if column is not None else [
        c for c, name in enumerate(grid.columns.names) if name.lower().endswith("_round")
    ]  # fmt: skip
    rounds = [value for c in columns if isinstance(value := grid.value(row, c), int) and value > 0]
    if not rounds:
        return None

    def named(*names: str) -> Any:
        found = grid.find(names)
        return None if found is None else grid.value(row, found)

    node, rank, submission = named("node"), named("rank"), named("submission")
    part = f"{node}/{rank}" if isinstance(node, str) and isinstance(rank, int) else ""
    request = named("request")
    return Place(
        rounds[0], part, request if isinstance(request, str) else "",
        submission if isinstance(submission, int) and submission >= 0 else None,
    )  # fmt: skip
