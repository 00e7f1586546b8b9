"""Where two recordings first differ: by digest to the round, by row to the field, by call to the input.

The scheduler is a function of its config and calls, so a difference of plans has a difference of config or inputs at
or before it, or the two schedulers decide differently. Times are never compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tsviz.replay.reexecution.verify import recorded_rows
from tsviz.replay.rows.lifetimes import column
from tsviz.trace.catalogue import PLAN_TABLES
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Part
from tsviz.trace.tokens import FULL

_UNCOMPARED = {"call_seq", "start_ns", "digest_structural", "digest_content"}
_TOKENS = {"content_hash", "decode_input_token"}
"""Columns that only a recording with full tokens fills."""
_INPUTS = {
    "calls": ("round", "kind", "items", "outcome", "result"),
    "submissions": ("round", "request", "prompt_tokens", "max_new_tokens", "accepted", "pages"),
    "events": ("round", "kind", "request", "op_id", "value", "token_count"),
    "storage_keys": ("round", "group_index", "page_offset"),
}
_DECIDED = ("round", "kind", "request", "begin_tokens", "input_tokens", "replay_tokens", "prefill_tokens")
_SAME_PAGES = {"pages"}
"""Columns that compare only where both recordings number the prefix pages alike."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that differs. `row`: its position in the round (plan tables) or in the table (inputs).

    A side that has no such row is None; `request`: whom the row is about, if anybody.
    """

    round: int
    table: str
    row: int
    column: str
    left: str | None
    right: str | None
    request: str | None = None

    def __str__(self) -> str:
        whom = "" if self.request is None else f" ({self.request})"
        left, right = ("no row" if side is None else side for side in (self.left, self.right))
        return f"round {self.round}: {self.table}[{self.row}].{self.column}{whom}: {left} and {right}"


class NothingShared(TraceError):
    """Two recordings hold no round of the same number, as slices of different stretches do."""


def first_plan_difference(left: Part, right: Part) -> tuple[int, Difference | None]:
    """Return how many rounds that both hold are equal, and the first field behind them that differs.

    Rounds that one of the two does not hold, in front of a slice or in a gap, are not compared; content (ids, tokens,
    hashes) is if both recordings hold it. A recording that ends earlier differs where it ends. Raises `TraceError` when
    a table cannot be read, `NothingShared` where there is nothing to compare.
    """
    full = left.token_mode == right.token_mode == FULL
    both = min(left.last_round, right.last_round)
    different = np.zeros(both + 1, np.bool_)
    for name in ("digest_structural", "digest_content") if full else ("digest_structural",):
        different |= _digests(left, name, both) != _digests(right, name, both)
    shared = _held(left, both) & _held(right, both)
    if left.last_round and right.last_round and not shared.any():
        raise NothingShared(right.directory, "rounds", f"some of {_stretch(left)}", _stretch(right))
    rounds = np.flatnonzero(different & shared)
    if not len(rounds):
        equal = int(np.count_nonzero(shared))
        if left.last_round == right.last_round:
            return equal, None
        ends = (f"the last of {_stretch(p)}" for p in (left, right))
        return equal, Difference(both + 1, "rounds", 0, "(count)", *ends)
    round_ = int(rounds[0])
    equal = int(np.count_nonzero(shared[:round_]))
    for name in (*PLAN_TABLES, "rounds"):
        found = _first_field(round_, name, recorded_rows(left, name, round_), recorded_rows(right, name, round_), full)
        if found is not None:
            return equal, found
    name = "digest_content" if full else "digest_structural"
    sides = (f"{int(_digests(part, name, both)[round_]):016x}" for part in (left, right))
    return equal, Difference(round_, "rounds", 0, name, *sides)


def _stretch(part: Part) -> str:
    """Say which rounds a part holds."""
    return f"rounds {part.meta.get('starts_at', 1):,} to {part.last_round:,}"


def _held(part: Part, last: int) -> npt.NDArray[np.bool_]:
    """Return of each round whether its plan was recorded."""
    rounds = part.table("rounds")
    found = np.zeros(last + 1, np.bool_)
    numbers = column(rounds, "round")
    there = (numbers <= last) & rounds["digest_structural"].is_valid().to_numpy()
    found[numbers[there]] = True
    return found


def _digests(part: Part, name: str, last: int) -> npt.NDArray[np.uint64]:
    rounds = part.table("rounds")
    found = np.zeros(last + 1, np.uint64)
    numbers = column(rounds, "round")
    there = numbers <= last
    found[numbers[there]] = rounds[name].fill_null(0).to_numpy()[there]
    return found


def _first_field(
    round_: int, table: str, left: list[dict[str, Any]], right: list[dict[str, Any]], full: bool
) -> Difference | None:
    for row, (one, other) in enumerate(zip(left, right, strict=False)):
        for name, value in one.items():
            if name in _UNCOMPARED or (name in _TOKENS and not full):
                continue
            if value != other.get(name):
                return Difference(round_, table, row, name, str(value), str(other.get(name)), one.get("request"))
    row = min(len(left), len(right))
    if len(left) == len(right):
        return None
    shown = [_row_words(rows[row]) if row < len(rows) else None for rows in (left, right)]
    request = (left[row] if row < len(left) else right[row]).get("request")
    return Difference(round_, table, row, "(row)", shown[0], shown[1], request)


def _row_words(row: dict[str, Any]) -> str:
    return " ".join(f"{k}={v}" for k, v in row.items() if v is not None and k not in _UNCOMPARED and k != "round")


def first_input_difference(left: Part, right: Part) -> Difference | None:
    """Return the earliest difference of what the two schedulers were told; None if they were told the same.

    Raises `TraceError` when a table cannot be read.
    """
    same_pages = left.token_mode == right.token_mode and left.prefix_tokens == right.prefix_tokens
    full = left.token_mode == right.token_mode == FULL
    found = []
    for name, columns in _INPUTS.items():
        wanted = [c for c in columns if c not in _SAME_PAGES or same_pages]
        if name == "events" and full:
            wanted.append("tokens")
        difference = _first_row(name, *_from_both(left, right, name), wanted)
        if difference is not None:
            found.append(difference)
    # A call that holds one event more says less than the event.
    return min(found, key=lambda d: (d.round, d.table == "calls"), default=None)


def first_row_difference(left: Part, right: Part) -> Difference | None:
    """Return the first scheduled row that differs in whom it serves or what it computes; None if all are equal.

    Slots, pages and counters are left out: with another pool they differ from the first round on and mean nothing.
    Raises `TraceError` when a table cannot be read.
    """
    return _first_row("operations", *_from_both(left, right, "operations"), _DECIDED)


def _from_both(left: Part, right: Part, name: str) -> tuple[pa.Table, pa.Table]:
    """Return the rows of a table from the first round that both hold: a slice has some from before it, not all."""
    first = max(part.meta.get("starts_at", 1) for part in (left, right))
    tables = left.table(name), right.table(name)
    if first == 1:
        return tables
    one, other = (table.filter(pa.array(column(table, "round") >= first)) for table in tables)
    return one, other


def _first_row(name: str, left: pa.Table, right: pa.Table, columns: Sequence[str]) -> Difference | None:
    rows = min(len(left), len(right))
    at, where = rows, ""
    for column_name in columns:
        index = _first_unequal(left[column_name].slice(0, at), right[column_name].slice(0, at))
        if index is not None and index < at:
            at, where = index, column_name
    if where == "" and len(left) == len(right):
        return None
    one, other = (t.slice(at, 1).to_pylist()[0] if at < len(t) else None for t in (left, right))
    round_ = min(row["round"] for row in (one, other) if row is not None)
    request = (one or other or {}).get("request")
    if where:
        assert one is not None and other is not None, "a column differs where both tables have the row"
        return Difference(round_, name, at, where, str(one[where]), str(other[where]), request)
    shown = [None if row is None else " ".join(f"{c}={row[c]}" for c in columns) for row in (one, other)]
    return Difference(round_, name, at, "(row)", shown[0], shown[1], request)


def _first_unequal(left: pa.ChunkedArray, right: pa.ChunkedArray) -> int | None:
    """Return the first position at which two columns of one length differ; null equals null."""
    one, other = _plain(left), _plain(right)
    if pa.types.is_list(one.type):
        lengths = _first_unequal(pa.chunked_array([_lengths(one)]), pa.chunked_array([_lengths(other)]))
        until = len(one) if lengths is None else lengths
        one, other = one.slice(0, until), other.slice(0, until)
        flat = _first_unequal(pa.chunked_array([one.flatten()]), pa.chunked_array([other.flatten()]))
        return lengths if flat is None else int(pc.list_parent_indices(one)[flat].as_py())
    unequal = pc.fill_null(pc.not_equal(one, other), False)
    unequal = pc.or_(unequal, pc.xor(one.is_null(), other.is_null()))
    index = int(pc.index(unequal, True).as_py())
    return None if index < 0 else index


def _lengths(lists: pa.Array) -> pa.Array:
    return pc.fill_null(pc.list_value_length(lists), -1)


def _plain(values: pa.ChunkedArray) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    return values.combine_chunks()
