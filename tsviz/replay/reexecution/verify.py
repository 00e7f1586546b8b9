"""Replay that proves itself: re-execution compared with the recording, round by round, by digest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.rows_from import RowsFrom, some
from tsviz.trace import entries as e
from tsviz.trace.builder import TableBuilder, Vocabulary
from tsviz.trace.catalogue import CALLS, PLAN_TABLES
from tsviz.trace.gaps import LostRounds
from tsviz.trace.reader import Part
from tsviz.trace.round_rows import add_plan, add_round
from tsviz.trace.rounds import RoundRecord
from tsviz.trace.tables import RECORDED

from .collecting import collecting_seldom
from .run import Executed, Reexecution

_COMPARED = (*PLAN_TABLES, "rounds")
_READ_AGAIN = frozenset(("calls", "events", "submissions", "storage_keys", "grown_pages", "prefix_pages", "rounds"))
_UNCOMPARED = {"call_seq", "start_ns", "digest_structural", "digest_content"}


@dataclass(frozen=True, slots=True)
class Divergence:
    """The first point at which re-execution left the recording. `expected` is what was recorded."""

    round: int
    seq: int
    field: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Verification:
    """Outcome of `verify`: plans compared, plans recorded, and the first divergence if there is one."""

    verified_rounds: int
    recorded_rounds: int
    calls: int
    divergence: Divergence | None
    lost: LostRounds
    """Rounds that were made again and not compared, since their plans were dropped while recording."""

    @property
    def complete(self) -> bool:
        """Whether every recorded round was compared and equal."""
        return self.divergence is None and self.verified_rounds == self.recorded_rounds


@collecting_seldom()
def verify(
    part: Part, module: Any, *, progress: Callable[[int, int], None] | None = None, until: int | None = None
) -> Verification:
    """Make the part's calls again on a fresh scheduler of `module` and compare digests and outcomes.

    Stops at the first divergence, or behind round `until`. `progress(done, of)` is called now and then.
    Raises `TraceError` when a table cannot be read, also one that re-execution does not need.
    """
    part.check(keep=_READ_AGAIN)
    comparison = compare(part)
    done = calls = 0
    execution = Reexecution(part, module)
    for executed in execution:
        calls += 1
        divergence = comparison.check(executed)
        if divergence is not None:
            return Verification(done, comparison.rounds, calls, divergence, execution.lost)
        if executed.record is not None:
            done += 1
            if progress is not None and done % 256 == 0:
                progress(done, comparison.rounds)
        if until is not None and executed.call.kind == e.PLAN and executed.call.round >= until:
            break
    return Verification(done, comparison.rounds, calls, None, execution.lost)


class Comparison:
    """Holds the recorded digests of a part against what re-execution does."""

    def __init__(self, part: Part) -> None:
        """Raises `TraceError` when the table of rounds cannot be read."""
        self._part = part
        rounds = some(part, "rounds", ("round", "digest_structural", "digest_content"))
        self.rounds = rounds.num_rows
        self._numbers = rounds["round"].to_numpy()
        self._first = int(self._numbers[0]) if self.rounds else 0
        self._digests = tuple(map(_numbers, (rounds["digest_structural"], rounds["digest_content"])))

    def _recorded(self, round_: int) -> tuple[int | None, int | None]:
        """Return the digests of a round."""
        at = round_ - self._first
        if not 0 <= at < self.rounds or self._numbers[at] != round_:  # a plan that raised has no row
            at = int(np.searchsorted(self._numbers, round_))
        if at == self.rounds or self._numbers[at] != round_:
            return None, None
        structural, content = (None if missing[at] else int(values[at]) for values, missing in self._digests)
        return structural, content

    def check(self, executed: Executed) -> Divergence | None:
        """Return how a call that was made again differs from the recorded one; None if it does not."""
        divergence = _outcome(executed)
        if divergence is not None or executed.record is None:
            return divergence
        record = executed.record
        structural, content = self._recorded(executed.call.round)
        if structural == record.structural and content == record.content:
            return None
        return _name(self._part, executed, structural, content, record)


def _numbers(values: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_]]:
    """Return 64-bit numbers, and which of them are missing."""
    return values.fill_null(0).to_numpy(), values.is_null().to_numpy()


def compare(part: Part) -> Comparison:
    """Return what checks re-executed calls of a part. Raises `TraceError`."""
    return Comparison(part)


def _outcome(executed: Executed) -> Divergence | None:
    call = executed.call
    for name, expected, got in (
        ("outcome", call.outcome, executed.outcome),
        ("result", call.result, executed.result),
        ("items", call.items, executed.items),
    ):
        if expected != got:
            shown = f"{got} ({executed.message})" if executed.message else str(got)
            return Divergence(call.round, call.seq, f"calls.{call.kind}.{name}", str(expected), shown)
    return None


def _name(
    part: Part, executed: Executed, structural: int | None, content: int | None, record: RoundRecord
) -> Divergence:
    """Say which field of which row differs; the digests themselves if no stored field does."""
    call = executed.call
    got = round_as_rows(call.round, call.seq, record)
    for name in _COMPARED if part.level != CALLS else ("rounds",):
        expected_rows = recorded_rows(part, name, call.round)
        if (found := _first_difference(name, expected_rows, got[name])) is not None:
            return Divergence(call.round, call.seq, *found)
    if structural != record.structural:
        return Divergence(
            call.round, call.seq, "rounds.digest_structural", _hexadecimal(structural), _hexadecimal(record.structural)
        )
    return Divergence(
        call.round, call.seq, "rounds.digest_content (ids, tokens or hashes of the model's input)",
        _hexadecimal(content), _hexadecimal(record.content),
    )  # fmt: skip


def _hexadecimal(digest: int | None) -> str:
    return "nothing" if digest is None else f"{digest:016x}"


def recorded_rows(part: Part, name: str, round_: int) -> list[dict[str, Any]]:
    """Return the recorded rows of one round of a table as dictionaries."""
    rows: list[dict[str, Any]] = (
        RowsFrom(part, name, RECORDED[name].names, key="round").between(round_, round_).to_pylist()
    )
    return rows


def round_as_rows(round_: int, seq: int, record: RoundRecord) -> Mapping[str, list[dict[str, Any]]]:
    """Return the rows that would be stored of a plan, by table."""
    requests, words = Vocabulary(), Vocabulary()
    for batch in record.batches:
        for name in batch.fields.ids:
            requests.code(name)
    builders = {name: TableBuilder(RECORDED[name], requests, words) for name in _COMPARED}
    add_round(builders["rounds"], round_, seq, 0, record)
    add_plan(builders, round_, record)
    return {name: builder.take().to_pylist() for name, builder in builders.items()}


def _first_difference(
    name: str, expected: list[dict[str, Any]], got: list[dict[str, Any]]
) -> tuple[str, str, str] | None:
    for index, (left, right) in enumerate(zip(expected, got, strict=False)):
        for column, value in left.items():
            if column not in _UNCOMPARED and value != right[column]:
                return f"{name}[{index}].{column}", str(value), str(right[column])
    if len(expected) != len(got):
        return f"{name} (rows)", str(len(expected)), str(len(got))
    return None
