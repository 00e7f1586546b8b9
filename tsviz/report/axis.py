"""The time axis that all charts of a part share: rounds, in columns of equal width, with the time of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .subject import Row, Source

MOST_COLUMNS = 2_000
"""Columns of a timeline: more than a screen has pixels, few enough for the file."""


@dataclass(frozen=True, slots=True)
class Axis:
    """Rounds `first` to `last` in columns of `width` rounds."""

    first: int
    last: int
    width: int
    seconds: tuple[float, ...]
    """When the first round of each column was asked for, on the part's clock; one more for the last round."""

    @property
    def columns(self) -> int:
        """How many columns there are."""
        return max(0, (self.last - self.first) // self.width + 1)

    @property
    def rounds(self) -> list[int]:
        """The first round of each column."""
        return [self.first + self.width * column for column in range(self.columns)]

    def column(self, expression: str = "round") -> str:
        """Return SQL for the column in which a round falls."""
        return f"(({expression}) - {self.first}) // {self.width}"

    def filled(self, rows: list[Row], name: str, empty: float | None = None) -> list[Any]:
        """Return one value a column from rows that have `bin`; `empty` where there is none."""
        values: list[Any] = [empty] * self.columns
        for row in rows:
            if 0 <= row["bin"] < self.columns and row[name] is not None:
                value = row[name]
                values[row["bin"]] = round(value, 2) if isinstance(value, float) else value
        return values

    @property
    def says(self) -> str:
        """How rounds were put together, for the reader."""
        return "" if self.width == 1 else f"Each column is {self.width} rounds."


def axis_of(source: Source) -> Axis:
    """Return the axis of a part; one without rounds has no columns."""
    ends = source.row("min(round) AS first, max(round) AS last, max(start_ns) AS last_ns", "rounds")
    if ends.get("first") is None:
        return Axis(1, 0, 1, ())
    first, last = ends["first"], ends["last"]
    width = -(-(last - first + 1) // MOST_COLUMNS)
    axis = Axis(first, last, width, ())
    rows = source.rows(
        f"{axis.column()} AS bin, min(start_ns) AS start_ns", "rounds", behind="GROUP BY bin ORDER BY bin"
    )
    seconds: list[float] = []
    known = {row["bin"]: row["start_ns"] / 1e9 for row in rows}
    for column in range(axis.columns):
        seconds.append(round(known.get(column, seconds[-1] if seconds else 0.0), 4))
    return Axis(first, last, width, (*seconds, round(ends["last_ns"] / 1e9, 4)))
