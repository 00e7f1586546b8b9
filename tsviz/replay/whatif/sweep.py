"""Many what-ifs over one study: a grid of one or two knobs, and the smallest value for which something holds.

Every cell is one run. A search says which values it ran: that a value between two of them behaves like its neighbours
is the user's conclusion, not ours (debugger.md, section 4).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, fields

import duckdb
import pyarrow as pa

from tsviz.query.locked import Limits, connect
from tsviz.replay.figures.run import Figures

from .knobs import BadKnob, Change, Knob, knob_of, parse_change
from .study import Outcome, Study
from .turn import RefusedConfig

GRID_VALUES = 9
"""How many values of a range without a step a grid runs."""


NOTHING_RAN = Figures(**{field.name: 0 for field in fields(Figures)})
"""Figures to try a condition on before anything ran."""


class BadPredicate(ValueError):
    """A condition that is no SQL over the figures; the message is the engine's."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A knob and the changes that it goes through, in order; `whole`: every whole number of a range is among them."""

    knob: Knob
    changes: tuple[Change, ...]
    whole: range | None = None


def parse_axis(text: str) -> Axis:
    """Parse `KNOB=A..B[:STEP|:log]` or `KNOB=V,V,...`. Raises BadKnob.

    `log` doubles. A range without a step has some nine values; a search goes through all its whole numbers.
    """
    name, equals, value = text.partition("=")
    knob = knob_of(name)
    if not equals:
        raise BadKnob(f"expected KNOB=A..B[:STEP|:log] or KNOB=V,V,..., found {text!r}")
    if ".." not in value:
        words = [value] if knob.kind == "groups" else value.split(",")
        return Axis(knob, tuple(parse_change(f"{knob.name}={word}") for word in words))
    if knob.kind not in ("number", "budget"):
        raise BadKnob(f"{knob.name}: a range needs a knob with whole numbers; expected V,V,..., found {value!r}")
    span, _, step = value.partition(":")
    low_text, _, high_text = span.partition("..")
    low, high = (_whole(parse_change(f"{knob.name}={word}"), word) for word in (low_text, high_text))
    if high < low:
        raise BadKnob(f"{knob.name}: expected a range that rises, found {span!r}")
    if step == "log":
        values = list(itertools.takewhile(lambda v: v < high, (max(low, 1) << i for i in range(32))))
        return Axis(knob, tuple(Change(knob, v) for v in [*values, high]))
    if step and not (step.isascii() and step.isdigit() and int(step)):
        raise BadKnob(f"{knob.name}: expected a whole number or log behind the colon, found {step!r}")
    width = int(step) if step else max(1, -(-(high - low) // (GRID_VALUES - 1)))
    stepped = [*range(low, high, width), high]
    return Axis(knob, tuple(Change(knob, v) for v in stepped), None if step else range(low, high + 1))


def _whole(change: Change, word: str) -> int:
    if not isinstance(change.value, int):
        raise BadKnob(f"{change.knob.name}: expected a whole number at the end of a range, found {word!r}")
    return change.value


@dataclass(frozen=True, slots=True)
class Cell:
    """One run of a grid; without an outcome the scheduler refused the configuration, in its words."""

    changes: tuple[Change, ...]
    outcome: Outcome | None
    refusal: str = ""


def sweep(study: Study, fixed: Sequence[Change], axes: Sequence[Axis]) -> Iterator[Cell]:
    """Run every combination of the axes' values on top of the fixed changes, the last axis fastest."""
    for combination in itertools.product(*(axis.changes for axis in axes)):
        yield run_cell(study, (*fixed, *combination))


def run_cell(study: Study, changes: tuple[Change, ...]) -> Cell:
    """Run one cell."""
    try:
        return Cell(changes, study.run(changes))
    except RefusedConfig as error:
        return Cell(changes, None, str(error))


class Predicate:
    """A condition in SQL over the columns of `Figures`, such as `retractions = 0 and live = 0`; null does not hold."""

    def __init__(self, where: str, example: Figures) -> None:
        """Try the condition on `example`. Raises BadPredicate."""
        self.where = where
        self.holds(example)

    def holds(self, figures: Figures) -> bool:
        """Return whether the figures satisfy it. Raises BadPredicate."""
        connection = connect(Limits(seconds=10))
        try:
            connection.register("figures", pa.Table.from_pylist([asdict(figures)]))
            connection.execute("BEGIN TRANSACTION READ ONLY")
            sql = f"SELECT coalesce(({self.where})::BOOLEAN, false) AS holds FROM figures"
            if len(connection.extract_statements(sql)) != 1:
                raise BadPredicate(f"expected one condition, found {self.where!r}")
            rows = connection.sql(sql).fetchall()
        except duckdb.Error as error:
            raise BadPredicate(f"{self.where!r} is no condition over the figures: {error}") from error
        finally:
            connection.close()
        return len(rows) == 1 and rows[0] == (True,)


@dataclass(frozen=True, slots=True)
class Trial:
    """One value that a search ran, and whether the condition held; a refused configuration does not hold it."""

    cell: Cell
    holds: bool


@dataclass(frozen=True, slots=True)
class Search:
    """Outcome of a search. `trials` are all values that were run, in rising order of the axis; `candidates` counts all.

    `found` holds the condition and the candidate before it does not, or there is none before it; it is the smallest of
    all only if no smaller candidate that was not run holds it. `exhaustive`: all were run. `reversals`: values that
    hold the condition below one that does not.
    """

    found: Trial | None
    before: Trial | None
    trials: tuple[Trial, ...]
    candidates: int
    reversals: int

    @property
    def exhaustive(self) -> bool:
        """Whether every candidate was run."""
        return len(self.trials) == self.candidates


def find_smallest(
    study: Study,
    fixed: Sequence[Change],
    axis: Axis,
    predicate: Predicate,
    *,
    scan: bool = False,
    told: Callable[[Trial], None] | None = None,
) -> Search:
    """Find the smallest value of the axis with which the condition holds: by halving, or with `scan` by running all.

    Halving starts at the largest value; if the condition does not hold there, nothing else is run.
    """
    candidates: Sequence[Change] = axis.changes
    if axis.whole is not None:
        candidates = [Change(axis.knob, value) for value in axis.whole]
    ran: dict[int, Trial] = {}

    def holds(index: int) -> bool:
        if index not in ran:
            cell = run_cell(study, (*fixed, candidates[index]))
            fulfilled = cell.outcome is not None and predicate.holds(cell.outcome.figures)
            ran[index] = Trial(cell, fulfilled)
            if told is not None:
                told(ran[index])
        return ran[index].holds

    if scan:
        for index in range(len(candidates)):
            holds(index)
    elif holds(len(candidates) - 1) and not holds(0):
        low, high = 0, len(candidates) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if holds(middle) else (middle, high)
    order = sorted(ran)
    found = next((index for index in order if ran[index].holds), None)
    last_without = max((index for index in order if not ran[index].holds), default=-1)
    return Search(
        found=None if found is None else ran[found],
        before=None if found is None else ran.get(found - 1),
        trials=tuple(ran[index] for index in order),
        candidates=len(candidates),
        reversals=sum(ran[index].holds and index < last_without for index in order),
    )
