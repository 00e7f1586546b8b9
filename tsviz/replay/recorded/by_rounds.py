"""What the tables of a large part tell of single rounds, by group of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from tsviz.trace.grouped import Large, grouped
from tsviz.trace.groups import Groups, Longs
from tsviz.trace.reader import Part
from tsviz.trace.tables import RECORDED

from .snapshot import Row
from .source import by_group

_ROUNDS = (
    "round", "start_ns", "scheduled_tokens", "bootstrapping_requests", "waiting_requests", "prefilling_requests",
    "decoding_requests", "pd_transfer_requests", "retracted_requests", "empty_pages",
)  # fmt: skip
_TRANSFERS = ("round", "op_id", "kind", "source_pinned")
_ROWS = (
    "round", "kind", "submission", "request", "slot", "begin_tokens", "input_tokens", "replay_tokens", "prefill_tokens"
)  # fmt: skip
_EVENTS = ("round", "kind", "request", "op_id", "value", "token_count", "cause_round")


class ByRounds:
    """What does not depend on the rows of a plan."""

    def __init__(self, part: Part, store: Large, numbers: Longs | None = None) -> None:
        """`numbers` are the rounds, if they are known. Raises `TraceError`."""
        self._part = part
        self._rounds = grouped(store, RECORDED["rounds"], _ROUNDS)
        self._transfers = grouped(store, RECORDED["transfers"], _TRANSFERS)
        self._zeroed = grouped(store, RECORDED["zeroed"], ("round", "group", "page"))
        self._store, self._wide = store, dict[str, Groups]()
        self.numbers: Longs = self._rounds.column("round") if numbers is None else numbers

    def of_rounds(self, name: str) -> npt.NDArray[Any]:
        """Return a column of table `rounds`."""
        return self._rounds.column(name)

    def round_row(self, index: int) -> dict[str, Any]:
        """Return a row of table `rounds` by its number."""
        row: dict[str, Any] = self._rounds.slice(index, index + 1).to_pylist()[0]
        return row

    def transfers(self, number: int) -> list[dict[str, Any]]:
        """Return the rows of table `transfers` of a plan."""
        rows: list[dict[str, Any]] = self._transfers.between(number, number).to_pylist()
        return rows

    def zeroed(self, number: int) -> dict[str, frozenset[int]]:
        """Return the pages that a plan zeroes, by group."""
        return by_group(self._zeroed.between(number, number))

    def operations(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Return the columns `op_id` and `round` of table `transfers`."""
        return self._transfers.column("op_id"), self._transfers.column("round")

    def recorded(self, name: str, first: int, last: int, key: str = "") -> list[dict[str, Any]]:
        """Return the rows of a table whose key (round, or submission) lies from `first` to `last`, as recorded.

        `key` is another column in whose order its rows are.
        """
        table = RECORDED[name]
        if name not in self._wide:
            self._wide[name] = grouped(self._store, table, table.names, key=key or table.key)
        rows: list[dict[str, Any]] = self._wide[name].between(first, last).to_pylist()
        return rows


class RawRows(ByRounds):
    """Rows and events as they were recorded."""

    def __init__(self, part: Part, store: Large, numbers: Longs | None = None) -> None:
        """As `ByRounds`."""
        super().__init__(part, store, numbers)
        self._operations = grouped(store, RECORDED["operations"], _ROWS)
        self._events = grouped(store, RECORDED["events"], _EVENTS)

    def rows(self, number: int) -> tuple[Row, ...]:
        """Return the rows of a plan."""
        found = self._operations.between(number, number)
        read = (found[name].to_pylist() for name in _ROWS if name != "round")
        return tuple(
            Row(kind, request, submission, slot, begin, size, replay, prefill)
            for kind, submission, request, slot, begin, size, replay, prefill in zip(*read, strict=True)
        )

    def events(self, number: int) -> Sequence[Mapping[str, Any]]:
        """Return the events before a plan, as rows of table `events`."""
        rows: list[dict[str, Any]] = self._events.between(number, number).to_pylist()
        return rows
