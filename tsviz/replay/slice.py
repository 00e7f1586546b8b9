"""A few rounds of a trace as a trace of its own (debugger.md, section 5).

A slice holds everything that was recorded for its rounds and, of the requests that live at its start, what opening and
stepping asks of their past: their submission, results and pages, their last row, and their block tables in full as
fresh `table_changes` of the round before the first; also the operations between the tiers that are out, and where
decisions are recorded what these left open (`carried.py`). Requests that had ended are gone and the others numbered
anew; who was retracted at the start had no pages left, so that neither a last row nor tables of it are there.
It also holds the state of the twin at its start as a keyframe, so that its rounds are made again and proven. Where the
twin leaves the recording before that, or the recording has no start, there is none: such a slice opens, steps and takes
SQL, and is refused by what re-executes.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.keyframes.book import Keyframe
from tsviz.replay.keyframes.keyframe import keyframe_table
from tsviz.replay.recorded.life_of import HeldTables, life_of
from tsviz.replay.recorded.lives import Lives
from tsviz.replay.reexecution.left_open import state_of
from tsviz.replay.reexecution.reach import reach
from tsviz.replay.rows.lifetimes import Lifetimes, column
from tsviz.replay.rows.rows_from import RowsFrom, large
from tsviz.scheduler.states import RETRACTED
from tsviz.trace import compact, layout
from tsviz.trace.catalogue import TABLES
from tsviz.trace.errors import CannotRecord
from tsviz.trace.reader import Bundle, Part
from tsviz.trace.rounds import BookState
from tsviz.trace.segments import HotSegments

from .carried import operations_out, with_carried
from .view import open_view


class BadRange(Exception):
    """The rounds asked for are not in the trace; the message says which are."""


@dataclass(frozen=True, slots=True)
class Sliced:
    """What was written: first and last round, requests carried, rows by table."""

    first_round: int
    last_round: int
    requests: int
    submissions: tuple[int, ...]
    """Which submissions of the trace they are, in order."""
    rows: dict[str, int]
    no_keyframe: str
    """Why it cannot be re-executed; empty when it can."""
    carried_verdicts: int
    """Rows of verdicts that are not of the recording: what holds at the start begins anew there."""


def write_slice(
    bundle: Bundle, part: Part, first: int, last: int, out: Path, progress: Callable[[int, int], None] | None = None,
    *, keyframe: Keyframe | str | None = None,
) -> Sliced:  # fmt: skip
    """Write rounds `first` to `last` of a part into the new bundle `out`; `progress` is told rounds made again, of all.

    `keyframe`: the state in front of `first`, or why there is none, where that is known already.

    Raises `BadRange`, `CannotRecord` when the path is taken, `TraceError` when a table cannot be read, OSError.
    Nothing is left at `out` when it does.
    """
    begin = part.meta.get("starts_at", 1)
    if not begin <= first <= last <= part.last_round:
        raise BadRange(f"expected rounds A:B with {begin} <= A <= B <= {part.last_round}, found {first}:{last}")
    if out.exists():
        raise CannotRecord(f"{out}: expected a path that is free, found something there")
    life, block_tables = life_of(part)
    if keyframe is None:
        keyframe = reach(part, first, progress=progress) if first > 1 else ""
    live = [] if isinstance(keyframe, str) else [number for number, _, _ in keyframe.book.submissions.values()]
    kept = np.union1d(_kept(life, first, last), np.array(live, np.int64))
    holding = kept[~np.isin(kept, _retracted(bundle, part, first, keyframe))]
    tables = {name: _cut(part, name, kept, first, last) for name in TABLES}
    past = _last_rows(part, life, holding, first)
    tables["operations"] = pa.concat_tables([past, tables["operations"]])
    base = _base(block_tables, life, holding, first)
    tables["table_changes"] = pa.concat_tables([base, tables["table_changes"]])
    ended = life.end_round[kept] <= first
    tables["transfers"] = pa.concat_tables([operations_out(part, first), tables["transfers"]])
    decided, anew = with_carried(part, tables, kept, kept[~ended], first)
    tables |= decided
    numbers = np.full(life.count + 1, -1, np.int64)
    numbers[kept] = np.arange(len(kept))
    tables = {name: _renumbered(table, numbers) for name, table in tables.items()}
    if isinstance(keyframe, Keyframe):
        here = _renumbered_keyframe(keyframe, int(np.searchsorted(life.submitted, first)), numbers)
        tables["keyframes"] = keyframe_table([here])
    try:
        _write(bundle, part, tables, first, last, out)
    except BaseException:
        shutil.rmtree(out, ignore_errors=True)  # half a slice is no trace, and stands in the way of the next try
        raise
    rows_written = {name: rows.num_rows for name, rows in tables.items() if rows.num_rows}
    carried = tuple(kept.tolist())
    why = keyframe if isinstance(keyframe, str) else ""
    return Sliced(first, last, len(kept), carried, rows_written, why, anew)


def _write(bundle: Bundle, part: Part, tables: dict[str, pa.Table], first: int, last: int, out: Path) -> None:
    """Write the tables as a bundle of one part that was closed."""
    directory = layout.part_directory(out, part.node, part.rank)
    segments = HotSegments(directory / layout.HOT)
    for name, rows in tables.items():
        for batch in rows.unify_dictionaries().combine_chunks().to_batches():
            segments.append(TABLES[name], batch)
    calls = tables["calls"]
    segments.commit(last, calls["seq"][-1].as_py() if calls.num_rows else -1)
    segments.close()
    start = {"starts_at": first} if first > 1 else {}
    layout.write_json(directory / layout.PART_FILE, {**part.meta, **start})
    meta = {**bundle.meta, "slice": {"of": bundle.name, "part": f"{part.node}/{part.rank}", "rounds": [first, last]}}
    parts = [{"node": part.node, "rank": part.rank}]
    layout.write_json(out / layout.BUNDLE_FILE, {**bundle.description, "parts": parts, "meta": meta})
    compact.compact_part(directory)
    layout.write_json(out / layout.END_FILE, {"parts": {}, "error": None})


def _renumbered_keyframe(keyframe: Keyframe, first_inside: int, numbers: npt.NDArray[np.int64]) -> Keyframe:
    """Return a keyframe with submissions numbered anew; digests keep the numbers of the whole trace."""
    book = keyframe.book
    submissions = {
        request: (int(numbers[number]), original, computed)
        for request, (number, original, computed) in book.submissions.items()
    }
    dropped = int(np.count_nonzero(numbers[:first_inside] < 0))
    owner = np.where(book.owner >= 0, numbers[book.owner], -1)
    return replace(keyframe, book=BookState(submissions, book.shift + dropped, owner, book.tables))


def _kept(life: Lifetimes | Lives, first: int, last: int) -> npt.NDArray[np.int64]:
    """Return the submissions that live at some point of the rounds, refused ones included."""
    there = (life.submitted <= last) & np.where(life.accepted, life.end_round >= first, life.submitted >= first)
    return np.flatnonzero(there).astype(np.int64)


def _retracted(bundle: Bundle, part: Part, first: int, keyframe: Keyframe | str) -> list[int]:
    """Return who had lost its pages behind the plan before the first round; without a keyframe as the rows tell."""
    if first == 1:
        return []
    if isinstance(keyframe, Keyframe):
        numbers = keyframe.book.submissions
        gone = [request.request_id for request in keyframe.snapshot.requests if state_of(request) == RETRACTED]
        return [numbers[request][0] for request in gone]
    lines = open_view(bundle, part.node, part.rank).snapshot(first - 1).requests
    return [line.submission for line in lines if line.state == "retracted"]


def _cut(part: Part, name: str, kept: npt.NDArray[np.int64], first: int, last: int) -> pa.Table:
    names = TABLES[name].names
    if large(part, name) is None:
        return _inside(part.table(name), name, kept, first, last)
    rows = RowsFrom(part, name, names, key="round")
    if name not in _CARRIED:
        return rows.between(first, last)
    found = [_inside(pa.Table.from_batches([batch]), name, kept, first, last) for batch in rows.pieces(None)]
    return pa.concat_tables(found).unify_dictionaries().combine_chunks()


_CARRIED = frozenset(("keyframes", "prefix_pages", "key_prefixes", "gaps", "submissions", "grown_pages", "events"))
"""Tables of which a slice has rows from before its rounds, or none."""


def _inside(table: pa.Table, name: str, kept: npt.NDArray[np.int64], first: int, last: int) -> pa.Table:
    """Return the rows of a table that a slice has."""
    rounds = column(table, "round")
    inside = (rounds >= first) & (rounds <= last)
    if name == "keyframes":
        inside = rounds < 0
    elif name == "prefix_pages":
        inside = rounds <= last
    elif name == "key_prefixes":
        inside = rounds >= 0
    elif name == "gaps":
        inside = (rounds <= last) & (column(table, "last_round") >= first)
    elif name in ("submissions", "grown_pages", "events"):
        carried = np.isin(column(table, "submission"), kept) & (rounds <= last)
        inside = carried if name == "submissions" else inside | carried
    return table.filter(pa.array(inside))


def _last_rows(part: Part, life: Lifetimes | Lives, holding: npt.NDArray[np.int64], first: int) -> pa.Table:
    """Return the last operations of requests before the first round, in order."""
    last = life.op_rows.last(holding, first - 1)
    at: dict[int, list[int]] = {}
    for submission, row in zip(holding.tolist(), last.tolist(), strict=True):
        if row >= 0:
            at.setdefault(life.row_rounds(row, first - 1)[1], []).append(submission)
    operations = RowsFrom(part, "operations", TABLES["operations"].names, key="round")
    found = [TABLES["operations"].schema.empty_table()]
    for round_ in sorted(at):
        rows = operations.between(round_, round_)
        found.append(rows.filter(np.isin(column(rows, "submission"), at[round_])))
    return pa.concat_tables(found).unify_dictionaries()


def _base(tables: HeldTables, life: Lifetimes | Lives, holding: npt.NDArray[np.int64], first: int) -> pa.Table:
    """Return the block tables behind the plan before the first round, each as one fresh run."""
    rows = []
    for submission in holding.tolist() if first > 1 else ():
        for group, pages in tables.at(submission, first - 1).items():
            rows.append(
                {"round": first - 1, "group": group, "request": life.names[submission], "submission": submission,
                 "fresh": True, "first_slot": 0, "pages": pages, "length_slots": len(pages)}
            )  # fmt: skip
    return pa.Table.from_pylist(rows, TABLES["table_changes"].schema)


def _renumbered(table: pa.Table, numbers: npt.NDArray[np.int64]) -> pa.Table:
    """Return a table with submissions numbered anew; nulls stay, and who is not carried becomes -1."""
    index: Any = table.schema.get_field_index("submission")
    if index < 0:
        return table
    gone = np.asarray(table.column(index).is_null())
    changed = pa.array(numbers[column(table, "submission")].astype(np.int32), mask=gone)
    return table.set_column(index, table.schema.field(index), changed)
