"""The time axis that all charts of a part share: rounds, in columns of equal width, with the time of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .chart import bars
from .subject import Row, Source

MOST_COLUMNS = 10_000
"""Columns of a timeline: every round of a trace of 10,000, in a file of less than 5 MB. The page joins them to what a
screen can show, and takes them apart when one looks closer."""


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

    def means(self, source: Source, relation: str, *columns: str, where: str = "true") -> list[Row]:
        """Return the mean of columns of a relation of rounds, a row a column of the axis."""
        chosen = ", ".join(f"avg({c}) AS {c}" for c in columns)
        return source.rows(f"{self.column()} AS bin, {chosen}", relation, where, "GROUP BY bin ORDER BY bin")

    def coarse(self, most: int) -> int:
        """Return the width in rounds at which there are at most `most` columns."""
        return max(1, -(-(self.last - self.first + 1) // most))

    def bars(self, name: str, role: str, rows: list[Row], value: str, width: int, scale: float = 1) -> dict[str, Any]:
        """Return bars of `width` rounds from rows that have `bin`."""
        heights = [round(scale * float(row[value]), 1) for row in rows]
        x = [self.first + row["bin"] * width for row in rows]
        return bars(name, role, heights, x=x, width=width, offset=0)

    @property
    def says(self) -> str:
        """How rounds are put together, for the reader."""
        smallest = "one round" if self.width == 1 else f"{self.width} rounds"
        return (
            f"A column is the mean of as many rounds as a screen cannot tell apart, and of {smallest} at the closest."
        )


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
