"""Compares two recordings as they are looked at: where they part, timelines on one axis, changes (debugger.md)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tsviz.replay.figures.requests import RequestDelta
from tsviz.replay.figures.run import FIGURE_NAMES
from tsviz.replay.rows.lifetimes import Longs, column
from tsviz.trace.reader import Bundle, Part

from .compare import diff
from .sides import COUNTS, TIMES, Figure, Lane, Met, MetSome, Sides
from .words import diff_words

COLUMNS = 240
"""Columns of a timeline; a screen has fewer."""
_AT_ONCE = 500


def side_by_side(left: tuple[Bundle, Part], right: tuple[Bundle, Part]) -> Iterator[Sides | MetSome]:
    """Compare two parts. Raises `TraceError`."""
    names = _names(left, right)
    found = diff(left[1], right[1], names)
    plans = found.plans
    last = max(left[1].last_round, right[1].last_round)
    yield Sides(
        left=names[0],
        right=names[1],
        rounds=(left[1].last_round, right[1].last_round),
        equal_rounds=found.equal_rounds,
        parts_at=None if plans is None else plans.round,
        rows_at=None if found.rows is None else found.rows.round,
        field="" if plans is None else f"{plans.table}[{plans.row}].{plans.column}",
        request="" if plans is None else plans.request or "",
        values=(None, None) if plans is None else (plans.left, plans.right),
        words=tuple(diff_words(found)),
        figures=tuple(
            Figure(name, _number(getattr(found.left_figures, name)), _number(getattr(found.right_figures, name)))
            for name in FIGURE_NAMES
        ),
        lanes=tuple(
            Lane(name, side, values)
            for name in ("tokens", "occupied", "retracted")
            for side, part in (("left", left[1]), ("right", right[1]))
            for values in (_lane(part, name, last),)
        ),
    )
    begins = column(left[1].table("submissions"), "round").astype(np.int64)
    met = [_met(delta, begins) for delta in found.requests.deltas]
    met.sort(key=lambda one: (-abs(one.change(TIMES.index("end_to_end_ns")) or 0.0), one.request))
    for first in range(0, len(met), _AT_ONCE):
        yield MetSome(tuple(met[first : first + _AT_ONCE]))


def _names(left: tuple[Bundle, Part], right: tuple[Bundle, Part]) -> tuple[str, str]:
    one, other = left[0].name, right[0].name
    return (one, other) if one != other else (f"{one} (left)", f"{other} (right)")


def _number(value: float | None) -> float | None:
    return None if value is None else float(value)


def _lane(part: Part, name: str, last: int) -> tuple[int, ...]:
    """Return the greatest value in each piece of rounds 1 to `last`."""
    rounds = part.table("rounds")
    usable = max(0, int(part.config["num_device_pages"]) - 1)
    match name:
        case "tokens":
            values = column(rounds, "scheduled_tokens").astype(np.int64)
        case "occupied":
            values = usable - column(rounds, "empty_pages").astype(np.int64)
        case _:
            values = column(rounds, "retracted_requests").astype(np.int64)
    cells = max(min(COLUMNS, last), 1)
    place = np.minimum((column(rounds, "round").astype(np.int64) - 1) * cells // max(last, 1), cells - 1)
    found = np.full(cells, -1, np.int64)
    np.maximum.at(found, place, values)
    return tuple(found.tolist())


def _met(delta: RequestDelta, begins: Longs) -> Met:
    either = delta.left or delta.right
    assert either is not None
    sides = [
        tuple(_number(None if side is None else getattr(side, name)) for name in (*TIMES, *COUNTS))
        for side in (delta.left, delta.right)
    ]
    first = 0 if delta.left is None else int(begins[delta.left.submission])
    return Met(delta.request, either.submission, first, *sides)
