"""Two recordings side by side, as values: what `side_by_side` says, on the wire and on the screen (debugger.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

TIMES = ("queue_ns", "ttft_ns", "tpot_ns", "end_to_end_ns")
COUNTS = ("generated_tokens", "restarts", "recomputed_tokens")


@dataclass(frozen=True, slots=True)
class Lane:
    """One number of one side over the rounds: its greatest in each column, -1 behind the end of the trace."""

    name: str
    side: str
    values: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of the fleet on both sides; None where nothing can be said."""

    name: str
    left: float | None
    right: float | None


@dataclass(frozen=True, slots=True)
class Sides:
    """What two recordings have in common and where they part."""

    left: str
    right: str
    rounds: tuple[int, int]
    equal_rounds: int
    parts_at: int | None
    """The first round with another plan; None where all are equal."""
    rows_at: int | None
    """The first round that schedules another row; None where none does."""
    field: str
    """`table[row].column` of the first difference."""
    request: str
    values: tuple[str | None, str | None]
    words: tuple[str, ...]
    figures: tuple[Figure, ...]
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Met:
    """One request on both sides: numbers of `TIMES` and `COUNTS` by side, None where there are none."""

    request: str
    submission: int
    first_round: int
    """The round in front of which it was submitted on the left; 0 where it was not."""
    left: tuple[float | None, ...]
    right: tuple[float | None, ...]

    def change(self, number: int) -> float | None:
        """Return right minus left."""
        before, after = self.left[number], self.right[number]
        return None if before is None or after is None else after - before


@dataclass(frozen=True, slots=True)
class MetSome:
    """Some of the requests, the largest change of the time to the end first."""

    requests: tuple[Met, ...]


def sides_from_json(data: dict[str, object]) -> Sides:
    """Read `Sides` from the plain values of `dataclasses.asdict`. Raises TypeError on anything else."""
    values = dict(data)
    values["figures"] = tuple(Figure(**figure) for figure in _list(values["figures"]))
    values["lanes"] = tuple(Lane(**lane | {"values": tuple(lane["values"])}) for lane in _list(values["lanes"]))
    for name in ("rounds", "values", "words"):
        values[name] = tuple(_list(values[name]))
    return Sides(**values)  # type: ignore[arg-type]


def met_from_json(data: dict[str, object]) -> MetSome:
    """Read `MetSome` likewise."""
    rows = _list(data["requests"])
    return MetSome(tuple(Met(**row | {"left": tuple(row["left"]), "right": tuple(row["right"])}) for row in rows))


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError(f"expected a list, found {type(value).__name__}")
    return value
