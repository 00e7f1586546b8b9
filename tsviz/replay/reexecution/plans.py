"""Plans that were not recorded, made again from the calls and proven round by round, as tables (level `calls`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.rows.lifetimes import column
from tsviz.scheduler import compat
from tsviz.trace import entries as e
from tsviz.trace.builder import TableBuilder, Vocabulary
from tsviz.trace.catalogue import PLAN_TABLES
from tsviz.trace.columns import Table
from tsviz.trace.reader import Part
from tsviz.trace.round_rows import add_plan
from tsviz.trace.rounds import RoundRecord
from tsviz.trace.tables import RECORDED

from .collecting import collecting_seldom
from .run import NoKeyframe, Reexecution
from .verify import compare

_FLUSH_ROWS = 1 << 18


class PlanRows:
    """Turns plans into rows of the plan tables; `write` is given batches as they come together."""

    def __init__(self, write: Callable[[Table, pa.RecordBatch], None]) -> None:
        requests, words = Vocabulary(), Vocabulary()
        self._write, self.last_round = write, 0
        self._builders = {name: TableBuilder(RECORDED[name], requests, words) for name in PLAN_TABLES}

    def add(self, round_: int, record: RoundRecord) -> None:
        """Take a plan."""
        add_plan(self._builders, round_, record)
        self.last_round = round_
        if sum(builder.rows for builder in self._builders.values()) > _FLUSH_ROWS:
            self.flush()

    def flush(self) -> None:
        """Write what has come together."""
        for builder in self._builders.values():
            if builder.rows:
                self._write(builder.table, builder.take())


def carried(part: Part, name: str) -> pa.Table:
    """Return the rows of a plan table that a part of calls has all the same: of rounds in front of its first one.

    A ring that keeps calls has the last row of every live request, and its block tables. Raises `TraceError`.
    """
    rows = part.table(name)
    return rows.filter(pa.array(column(rows, "round") < part.meta.get("starts_at", 1)))


@dataclass(frozen=True, slots=True)
class PlansAgain:
    """The plan tables of the rounds in front of one, with what a slice carries, and the state there or why not."""

    tables: dict[str, pa.Table]
    keyframe: Keyframe | str


@collecting_seldom()
def plans_again(part: Part, until: int) -> PlansAgain:
    """Make the plans of a part again up to the one in front of round `until`, as far as the twin says the same.

    Raises `TraceError`.
    """
    found = {name: [carried(part, name)] for name in PLAN_TABLES}
    rows = PlanRows(lambda table, batch: found[table.name].append(pa.Table.from_batches([batch], table.schema)))
    keyframe = _run(part, until, rows)
    rows.flush()
    return PlansAgain({name: pa.concat_tables(pieces).unify_dictionaries() for name, pieces in found.items()}, keyframe)


def _run(part: Part, until: int, rows: PlanRows) -> Keyframe | str:
    try:
        execution = Reexecution(part, compat)
    except NoKeyframe as error:
        return error.found
    digests = compare(part)
    for executed in execution:
        if (divergence := digests.check(executed)) is not None:
            return f"the twin leaves the recording in round {divergence.round} ({divergence.field})"
        if executed.record is not None:
            rows.add(executed.call.round, executed.record)
        if executed.call.kind == e.PLAN and executed.call.round == until - 1:
            return execution.keyframe()
    return f"the recording ends before round {until}"
