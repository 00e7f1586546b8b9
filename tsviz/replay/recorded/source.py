"""Where the recorded view of a part reads: tables held whole, which is simple and right for all but large traces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import Lifetimes, Longs, column, words
from tsviz.trace.reader import Part
from tsviz.trace.tables import RECORDED

from .block_tables import RecordedTables
from .lives import Lives
from .retractions import absences, before_slice, shared_with
from .snapshot import BlockTable, Row
from .states import Absences


class Source(Protocol):
    """What the recorded view asks, round by round."""

    @property
    def life(self) -> Lifetimes | Lives:
        """What happened to every request."""
        ...

    @property
    def absent(self) -> Absences:
        """Which retraction took which request."""
        ...

    @property
    def numbers(self) -> Longs:
        """The rounds of table `rounds`, rising."""
        ...

    def of_rounds(self, name: str) -> npt.NDArray[Any]:
        """Return a column of table `rounds`."""
        ...

    def replayed(self) -> Longs:
        """Return the rounds with re-fed rows."""
        ...

    def round_row(self, index: int) -> dict[str, Any]:
        """Return a row of table `rounds` by its number."""
        ...

    def rows(self, number: int) -> tuple[Row, ...]:
        """Return the rows of a plan."""
        ...

    def events(self, number: int) -> Sequence[Mapping[str, Any]]:
        """Return the events before a plan, as rows of table `events`."""
        ...

    def transfers(self, number: int) -> list[dict[str, Any]]:
        """Return the rows of table `transfers` of a plan."""
        ...

    def operations(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the columns `op_id` and `round` of table `transfers`."""
        ...

    def recorded(self, name: str, first: int, last: int, key: str = "") -> list[dict[str, Any]]:
        """Return the rows of a table whose key (round, or submission) lies from `first` to `last`, as recorded.

        `key` is another column in whose order its rows are.
        """
        ...

    def acknowledged(self, op_id: int) -> int | None:
        """Return the round in which an operation was acknowledged."""
        ...

    def zeroed(self, number: int) -> dict[str, frozenset[int]]:
        """Return the pages that a plan zeroes, by group."""
        ...

    def held(self, submissions: Longs, number: int) -> Sequence[tuple[int, ...]]:
        """Return how many pages stand in the tables of requests behind a plan, by group of the config."""
        ...

    def tables(self, submission: int, number: int, zeroed: dict[str, frozenset[int]]) -> tuple[BlockTable, ...]:
        """Return the tables of a request behind a plan."""
        ...


class WholeTables:
    """A part whose tables are read whole, each when it is first needed."""

    def __init__(self, part: Part, retracted: Longs | None = None) -> None:
        """`retracted`: who is known to have been without pages where a slice begins. Raises `TraceError`."""
        self._part, self._retracted = part, np.zeros(0, np.int64) if retracted is None else retracted
        self._rounds = part.table("rounds")
        self.numbers: Longs = column(self._rounds, "round").astype(np.int64)
        self.life = Lifetimes(part)
        self._tables = RecordedTables(part.table("table_changes"), part.config)
        operations = part.table("operations")
        self._op_slot, self._op_replay = column(operations, "slot"), column(operations, "replay_tokens")
        self._op_submission = column(operations, "submission")
        self._event_round = column(part.table("events"), "round")
        self._transfer_round = column(part.table("transfers"), "round")
        self._zeroed_round = column(part.table("zeroed"), "round")

    @cached_property
    def absent(self) -> Absences:
        """Which retraction took which request."""
        counts = self.of_rounds("retracted_requests")
        retracted = {int(self.numbers[i]): int(counts[i]) for i in np.flatnonzero(counts)}
        transfers = self._part.table("transfers")
        saved: dict[int, set[tuple[int, int]]] = {}
        ordered = np.array(transfers["source_pinned"].fill_null(True).to_numpy(zero_copy_only=False), np.bool_)
        groups, pages = column(transfers, "group_index"), column(transfers, "src_page")
        for row in np.flatnonzero(~ordered).tolist():
            saved.setdefault(int(self._transfer_round[row]), set()).add((int(groups[row]), int(pages[row])))
        held = self._tables.held
        shared = shared_with({round_: frozenset(pairs) for round_, pairs in saved.items()}, held)

        def held_at(submissions: Longs, round_: int) -> Longs:
            return np.array([len(held(submission, round_)) for submission in submissions.tolist()], np.int64)

        found, _ = absences(self.life, retracted, held_at, shared)
        begin = self._part.meta.get("starts_at", 1)
        if begin > 1:
            found += before_slice(self.life, begin, found, self._retracted)
        return Absences(found)

    def of_rounds(self, name: str) -> npt.NDArray[Any]:
        """Return a column of table `rounds`."""
        return column(self._rounds, name)

    def replayed(self) -> Longs:
        """Return the rounds with re-fed rows."""
        rounds: Longs = np.unique(self.life.op_round[self._op_replay > 0]).astype(np.int64)
        return rounds

    def round_row(self, index: int) -> dict[str, Any]:
        """Return a row of table `rounds` by its number."""
        row: dict[str, Any] = self._rounds.slice(index, 1).to_pylist()[0]
        return row

    def rows(self, number: int) -> tuple[Row, ...]:
        """Return the rows of a plan."""
        life = self.life
        low, high = np.searchsorted(life.op_round, (number, number + 1))
        return tuple(
            Row(
                kind=str(life.op_kind[i]),
                request=life.names[self._op_submission[i]],
                submission=int(self._op_submission[i]),
                slot=int(self._op_slot[i]),
                begin_tokens=None if life.op_begin[i] < 0 else int(life.op_begin[i]),
                input_tokens=int(life.op_input[i]),
                replay_tokens=int(self._op_replay[i]),
                prefill_tokens=int(life.op_prefill[i]),
            )
            for i in range(low, high)
        )

    def events(self, number: int) -> Sequence[Mapping[str, Any]]:
        """Return the events before a plan, as rows of table `events`."""
        low, high = np.searchsorted(self._event_round, (number, number + 1))
        rows: list[dict[str, Any]] = self._part.table("events").slice(low, high - low).to_pylist()
        return rows

    def transfers(self, number: int) -> list[dict[str, Any]]:
        """Return the rows of table `transfers` of a plan."""
        low, high = np.searchsorted(self._transfer_round, (number, number + 1))
        rows: list[dict[str, Any]] = self._part.table("transfers").slice(low, high - low).to_pylist()
        return rows

    def operations(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the columns `op_id` and `round` of table `transfers`."""
        return column(self._part.table("transfers"), "op_id"), self._transfer_round

    def recorded(self, name: str, first: int, last: int, key: str = "") -> list[dict[str, Any]]:
        """Return rows of a table as recorded."""
        table = self._part.table(name)
        low, high = np.searchsorted(column(table, key or RECORDED[name].key), (first, last + 1))
        rows: list[dict[str, Any]] = table.slice(low, high - low).to_pylist()
        return rows

    @cached_property
    def _acknowledged(self) -> dict[int, int]:
        """When each operation was acknowledged: by its first answer; behind that the scheduler knows it no longer."""
        op_ids = column(self._part.table("events"), "op_id")
        return {int(op_ids[i]): int(self._event_round[i]) for i in np.flatnonzero(op_ids >= 0)[::-1]}

    def acknowledged(self, op_id: int) -> int | None:
        """Return the round in which an operation was acknowledged."""
        return self._acknowledged.get(op_id)

    def zeroed(self, number: int) -> dict[str, frozenset[int]]:
        """Return the pages that a plan zeroes, by group."""
        low, high = np.searchsorted(self._zeroed_round, (number, number + 1))
        return by_group(self._part.table("zeroed").slice(low, high - low))

    def held(self, submissions: Longs, number: int) -> Sequence[tuple[int, ...]]:
        """Return how many pages stand in the tables of requests behind a plan, by group of the config."""
        return [self._tables.counts(submission, number) for submission in submissions.tolist()]

    def tables(self, submission: int, number: int, zeroed: dict[str, frozenset[int]]) -> tuple[BlockTable, ...]:
        """Return the tables of a request behind a plan."""
        return self._tables.tables(submission, number, zeroed)


class CallsTables(WholeTables):
    """A part of which only calls were recorded: its rounds and events are there, and nothing is told of requests."""

    def __init__(self, part: Part) -> None:
        """Raises `TraceError`."""
        super().__init__(part)
        self.life.accepted = np.zeros_like(self.life.accepted)


def by_group(rows: Any) -> dict[str, frozenset[int]]:
    """Return the pages of rows of table `zeroed` by group."""
    pages: dict[str, set[int]] = {}
    for group, page in zip(words(rows, "group"), rows["page"].to_pylist(), strict=True):
        pages.setdefault(group or "", set()).add(page)
    return {group: frozenset(found) for group, found in pages.items()}
