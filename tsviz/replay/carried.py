"""What is open at the start of a cut, from before it (debugger.md, section 5).

An operation between the tiers is out until it is acknowledged, so a slice has the rows of table `transfers` of those
that are out in front of its first plan. Three decided tables hold until something ends what a row says: a verdict until
the request's next one, a state until its next change, an operation until it ends. Where decisions are recorded a slice
carries what is open: a verdict begins anew in the first round, as when that is re-executed from the state in front of
it; states, operations out and the last reserves keep the round in which they were told, as the last row of a request
does. Where they are not, `reexecution/left_open.py` tells them of the state at the start.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.pages.tickets import acknowledged
from tsviz.replay.rows.lifetimes import NEVER, Longs, PerRequest, among, column
from tsviz.replay.rows.rows_from import RowsFrom, pieces, some
from tsviz.trace.catalogue import DECISIONS, TABLES
from tsviz.trace.decided import DECIDED
from tsviz.trace.reader import Part


def with_carried(
    part: Part, tables: Mapping[str, pa.Table], kept: Longs, waiting: Longs, first: int
) -> tuple[dict[str, pa.Table], int]:
    """Return a slice's decided tables with what is open at its first round, and how many verdicts begin anew there.

    `kept`: the submissions of the slice, `waiting` those of them that are there at the first plan; as the part numbers
    them. Nothing is carried where the part has no decisions. Raises `TraceError`.
    """
    if part.meta["level"] != DECISIONS or first == 1:
        return {}, 0
    made = {name: pa.concat_tables([_last(part, name, kept, first), tables[name]]) for name in ("states", "reserves")}
    made["tickets"] = pa.concat_tables([_out(part, first), tables["tickets"]])
    begun = column(tables["verdicts"], "submission")[column(tables["verdicts"], "round") == first]
    anew = _last(part, "verdicts", waiting[~np.isin(waiting, begun)], first)
    if not anew.num_rows:
        return made, 0
    whole = {name: made.get(name, tables[name]) for name in DECIDED}
    stop, item = _place(whole, first)
    made = {name: _moved(rows, first, item, anew.num_rows) for name, rows in whole.items()}
    for name, values in (
        ("round", np.full(anew.num_rows, first)), ("stop", np.full(anew.num_rows, stop)),
        ("item", item + np.arange(anew.num_rows)),
    ):  # fmt: skip
        anew = _with(anew, name, values)
    front = int(np.searchsorted(column(made["verdicts"], "round"), first))
    here = made["verdicts"]
    made["verdicts"] = pa.concat_tables([here.slice(0, front), anew, here.slice(front)])
    return made, anew.num_rows


def _last(part: Part, name: str, submissions: Longs, first: int) -> pa.Table:
    """Return the last row in front of a round of each of some submissions, in order of the table."""
    keys = some(part, name, ("submission", "round"))
    rows = PerRequest(column(keys, "submission"), column(keys, "round")).last(submissions, first - 1)
    return _rows(part, name, np.sort(rows[rows >= 0]), column(keys, "round"))


def operations_out(part: Part, first: int) -> pa.Table:
    """Return the rows of table `transfers` of operations that are out in front of the plan of a round.

    One that is acknowledged between the plan before and that one was out behind the former: it is among them. Raises
    `TraceError`.
    """
    keys = some(part, "transfers", ("round", "op_id"))
    rounds, op_ids = column(keys, "round"), column(keys, "op_id")
    before = rounds < first
    if not before.any():
        return TABLES["transfers"].schema.empty_table()
    places = np.flatnonzero(before)
    for events in pieces(part, "events", ("round", "op_id", "applied", "value"), last=first - 1):
        back, _ = acknowledged(events, op_ids[places].astype(np.int64), rounds[places].astype(np.int64))
        places = places[back == NEVER]
    return _rows(part, "transfers", places, rounds)


def _out(part: Part, first: int) -> pa.Table:
    """Return the rows of the operations that are out in front of the plan of a round."""
    keys = some(part, "tickets", ("round", "event", "op_id"))
    rounds, op_ids, began = column(keys, "round"), column(keys, "op_id"), among(keys, "event", ("started",))
    before = rounds < first
    return _rows(part, "tickets", np.flatnonzero(before & began & ~np.isin(op_ids, op_ids[before & ~began])), rounds)


def _rows(part: Part, name: str, places: Longs, rounds: npt.NDArray[np.int32]) -> pa.Table:
    """Return some rows of a table, of which only the rounds that they lie in are read."""
    reader = RowsFrom(part, name, TABLES[name].names, key="round")
    found = [TABLES[name].schema.empty_table()]
    for round_ in np.unique(rounds[places]).tolist():
        begin, end = np.searchsorted(rounds, round_), np.searchsorted(rounds, round_, side="right")
        inside = places[(places >= begin) & (places < end)] - begin
        found.append(reader.between(round_, round_).take(pa.array(inside)))
    return pa.concat_tables(found).unify_dictionaries().combine_chunks()


def _place(tables: Mapping[str, pa.Table], first: int) -> tuple[int, int]:
    """Return the stop and item of a round's first verdict, or of where it would be: in front of the pool's rows."""
    for name in ("verdicts", "pool"):
        here = tables[name].filter(pa.array(column(tables[name], "round") == first))
        if here.num_rows:
            return int(column(here, "stop")[0]), int(column(here, "item")[0])
    return 0, 0


def _moved(rows: pa.Table, first: int, item: int, count: int) -> pa.Table:
    """Return rows of which those of a round from an item on are `count` items later."""
    items = column(rows, "item")
    later = (column(rows, "round") == first) & (items >= item)
    return _with(rows, "item", items + count * later) if later.any() else rows


def _with(rows: pa.Table, name: str, values: npt.NDArray[np.int64]) -> pa.Table:
    index = rows.schema.get_field_index(name)
    field = rows.schema.field(index)
    return rows.set_column(index, field, pa.array(values, field.type))
