"""What `why` looks up: decided rows at a moment, who holds pages then, which operations are out.

A *moment* is (round, item): decided rows are told in that order, events between two plans behind those of the plan
before (architecture.md, section 5, *Decided*).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.decided.view import DecidedTables
from tsviz.replay.recorded.life_of import Life, life_of
from tsviz.replay.rows.lifetimes import ENDS, NEVER, Longs, PerRequest, among, column, words
from tsviz.replay.rows.rows_from import RowsFrom, some
from tsviz.scheduler import decisions as d
from tsviz.scheduler.states import STATE_NAMES, holds_pages
from tsviz.trace.decided import DECIDED
from tsviz.trace.reader import Part
from tsviz.trace.tables import RECORDED

HOLDING = frozenset(name for state, name in enumerate(STATE_NAMES) if holds_pages(state))
"""States in which a request owns tables and a slot."""
_LAST_ITEM = 0xFFFF_FFFF


@dataclass(frozen=True, slots=True)
class Said:
    """The verdict that holds for a request in a round."""

    cause: str
    holder: str
    rule: str
    op_id: int
    since_round: int
    at_least: bool = False
    """It may hold since before the trace begins, so that its rounds are at least those since then."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Pages of one request: per group, and the LCM blocks that they lie in."""

    submission: int
    request: str
    state: str
    pages: tuple[int, ...]
    blocks: frozenset[int]


@dataclass(frozen=True, slots=True)
class Ticket:
    """An operation between the tiers that is out."""

    op_id: int
    kind: str
    pages: int
    since_round: int


class Facts:
    """Recorded and decided tables of one part, looked up by request and round."""

    def __init__(
        self, part: Part, decided: DecidedTables, source: str, last_round: int, life: Life | None = None
    ) -> None:
        """Decisions are known up to `last_round`; `life` is what `life_of` returns. Raises `TraceError`."""
        self.part, self.decided, self.source, self.last_round = part, decided, source, last_round
        self.config: dict[str, Any] = part.config
        self.groups = [str(group["group_id"]) for group in part.config["cache_groups"]]
        self.packing = [int(group["cache_blocks_per_lcm_block"]) for group in part.config["cache_groups"]]
        self.parents = max(0, int(part.config["num_device_pages"]) - 1)
        self.life, self.tables = life or life_of(part)
        self._decided_rows: dict[str, RowsFrom] = {}
        self._recorded_rows: dict[str, RowsFrom] = {}
        states = some(self.decided, "states", ("submission", "round", "item", "after"))
        self._state_rows = PerRequest(column(states, "submission"), column(states, "round"))
        self._state_round, self._state_item = column(states, "round"), column(states, "item")
        self._after = words(states, "after")
        verdicts = some(self.decided, "verdicts", ("submission", "round", "cause", "holder", "rule", "op_id"))
        self._verdict_owner = column(verdicts, "submission")
        self._verdict_rows = PerRequest(column(verdicts, "submission"), column(verdicts, "round"))
        self._verdict_round = column(verdicts, "round")
        self._verdicts = tuple(words(verdicts, name) for name in ("cause", "holder", "rule"))
        self._verdict_op = column(verdicts, "op_id")

    # Names

    def submission_of(self, request: str, round_: int) -> int:
        """Return the latest submission of an id at or before a round, else its first; -1 for an unknown id."""
        numbers = self._by_name.get(request, ())
        there = [s for s in numbers if self.life.submitted[s] <= round_ and self.life.accepted[s]]
        return there[-1] if there else (numbers[0] if numbers else -1)

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for submission, name in enumerate(self.life.names):
            found.setdefault(name, []).append(submission)
        return found

    def names(self) -> Sequence[str]:
        """Return all request ids."""
        return list(self._by_name)

    # Decided rows

    def at(self, table: str, round_: int) -> list[dict[str, Any]]:
        """Return the rows of a decided table that carry a round, in order."""
        return self.between(table, round_, round_)

    def between(self, table: str, first: int, last: int) -> list[dict[str, Any]]:
        """Return the rows of a decided table from round `first` to `last`, both included."""
        if table not in self._decided_rows:
            self._decided_rows[table] = RowsFrom(self.decided, table, DECIDED[table].names, key="round")
        rows: list[dict[str, Any]] = self._decided_rows[table].between(first, last).to_pylist()
        return rows

    def _recorded(self, table: str, first: int, last: int) -> pa.Table:
        """Return the rows of a recorded table from round `first` to `last`, both included."""
        if table not in self._recorded_rows:
            self._recorded_rows[table] = RowsFrom(self.part, table, RECORDED[table].names, key="round")
        return self._recorded_rows[table].between(first, last)

    def retracted(self, request: str) -> Sequence[int]:
        """Return the rounds in which a request was retracted, once for each time."""
        return self._retracted.get(request, ())

    @cached_property
    def _retracted(self) -> dict[str, list[int]]:
        rows = some(self.decided, "retractions", ("round", "outcome", "victim"))
        found: dict[str, list[int]] = {}
        each = zip(column(rows, "round").tolist(), words(rows, "outcome"), words(rows, "victim"), strict=True)
        for round_, outcome, victim in each:
            if outcome == d.RETRACTED:
                found.setdefault(victim or "", []).append(round_)
        return found

    def own(self, table: str, submission: int, round_: int) -> list[dict[str, Any]]:
        """Return the rows of one request in a round."""
        return [row for row in self.at(table, round_) if row["submission"] == submission]

    def verdict(self, submission: int, round_: int) -> Said | None:
        """Return what became of a request in a round; None where nothing was said of it."""
        (row,) = self._verdict_rows.last(np.array([submission], np.int64), round_).tolist()
        return None if row < 0 else self._said(row)

    def verdicts_in(self, round_: int) -> dict[int, Said]:
        """Return what became of every request that was there in a round, by submission."""
        live = self.live(round_)
        rows = self._verdict_rows.last(np.array(live, np.int64), round_).tolist()
        return {submission: self._said(row) for submission, row in zip(live, rows, strict=True) if row >= 0}

    def verdicts(self, submission: int, round_: int) -> list[Said]:
        """Return every verdict on a request up to a round, oldest first."""
        return [self._said(row) for row in self._verdict_rows.until(submission, round_).tolist()]

    def _said(self, row: int) -> Said:
        cause, holder, rule = (texts[row] or "" for texts in self._verdicts)
        since, owner = int(self._verdict_round[row]), int(self._verdict_owner[row])
        return Said(cause, holder, rule, int(self._verdict_op[row]), since, since == self.begin and self.carried(owner))

    @cached_property
    def begin(self) -> int:
        """The first round of the trace: later than 1 for a slice, and for what a ring kept."""
        return int(self.part.meta.get("starts_at", 1))

    def carried(self, submission: int) -> bool:
        """Whether a request was submitted before the trace begins."""
        return bool(self.life.submitted[submission] < self.begin)

    def waiting_since(self, submission: int, round_: int) -> int:
        """Return the first round since which a request that has no row now had none."""
        since = round_
        for said in reversed(self.verdicts(submission, round_)):
            if said.cause == d.SCHEDULED:
                break
            since = said.since_round
        return since

    # State and pages

    def state(self, submission: int, round_: int, item: int = _LAST_ITEM) -> str:
        """Return the state of a request before a moment; empty before its submission."""
        for row in reversed(self._state_rows.until(submission, round_).tolist()):
            if (self._state_round[row], self._state_item[row]) < (round_, item):
                return self._after[row] or ""
        return ""

    @cached_property
    def begins_told(self) -> bool:
        """Whether it is known what was open at the first round: states and operations that are out.

        A slice of recorded decisions that an older version wrote does not say it, where anybody lived then.
        """
        begin = self.begin
        return begin == 1 or bool((self._state_round < begin).any()) or not len(self.life.live(begin - 1))

    def behind_plan(self, round_: int) -> int:
        """Return the item behind the last decision of a plan; events that came later are not before it."""
        rows = self.at("pool", round_)
        return rows[-1]["item"] + 1 if rows else _LAST_ITEM

    def live(self, round_: int) -> list[int]:
        """Return the submissions that were there at the plan of a round."""
        return [int(s) for s in self.life.live(round_) if self.life.end_round[s] > round_]

    def holdings(self, round_: int, item: int) -> list[Holding]:
        """Return who holds pages at a moment of a round, most blocks first."""
        admitted = {
            row["submission"] for row in self.at("admissions", round_) if row["item"] < item
        }  # their tables are those behind this plan, the others' those behind the one before
        found = []
        for submission in self.live(round_):
            state = self.state(submission, round_, item)
            if state not in HOLDING:
                continue
            held = self.tables.held(submission, round_ if submission in admitted else round_ - 1)
            pages = Counter(group for group, _ in held)
            blocks = frozenset((page - 1) // self.packing[group] for group, page in held)
            counts = tuple(pages[group] for group in range(len(self.groups)))
            found.append(Holding(submission, self.life.names[submission], state, counts, blocks))
        return sorted(found, key=lambda h: (-len(h.blocks), h.submission))

    @cached_property
    def _tickets(self) -> tuple[pa.Table, Longs, npt.NDArray[np.bool_]]:
        """Columns of the table of operations, their moments, and which rows begin one."""
        rows = some(self.decided, "tickets", ("round", "item", "event", "op_id", "kind", "pages"))
        moments = column(rows, "round").astype(np.int64) << 32 | column(rows, "item")
        return rows, moments, among(rows, "event", ("started",))

    def open_tickets(self, round_: int, item: int) -> int:
        """Return how many operations are out at a moment."""
        _, moments, _ = self._tickets
        return int(self._out[int(np.searchsorted(moments, round_ << 32 | item))])

    @cached_property
    def _out(self) -> Longs:
        """How many operations are out in front of each row of the table of operations, and behind the last."""
        counts: Longs = np.concatenate([[0], np.cumsum(np.where(self._tickets[2], 1, -1))])
        return counts

    def tickets(self, round_: int, item: int) -> list[Ticket]:
        """Return the operations that are out at a moment, oldest first."""
        rows, moments, started = self._tickets
        end = int(np.searchsorted(moments, round_ << 32 | item))
        op_ids = column(rows, "op_id")[:end]
        begun = started[:end]
        out = np.flatnonzero(begun & ~np.isin(op_ids, op_ids[~begun]))
        return [
            Ticket(row["op_id"], row["kind"], row["pages"], row["round"])
            for row in rows.take(pa.array(out)).to_pylist()
        ]

    def ticket(self, op_id: int, round_: int) -> dict[str, Any] | None:
        """Return the row with which an operation began, up to a round; None where it is not in the trace."""
        rows, moments, started = self._tickets
        end = int(np.searchsorted(moments, (round_ + 1) << 32))
        found = np.flatnonzero(started[:end] & (column(rows, "op_id")[:end] == op_id))
        return dict(rows.slice(int(found[-1]), 1).to_pylist()[0]) if len(found) else None

    # Recorded rows

    def last_row(self, submission: int, round_: int) -> int:
        """Return the table row of a request's last scheduled row at or before a round; -1 without one."""
        (row,) = self.life.op_rows.last(np.array([submission], np.int64), round_).tolist()
        return int(row)

    def round_row(self, round_: int) -> dict[str, Any]:
        """Return the row of a plan; empty for a round that is not there."""
        rows: list[dict[str, Any]] = self._recorded("rounds", round_, round_).to_pylist()
        return rows[0] if rows else {}

    def call(self, round_: int, seq: int) -> dict[str, Any] | None:
        """Return the row of a call that precedes a round's plan; None for one that is not in the trace."""
        rows: list[dict[str, Any]] = self._recorded("calls", round_, round_).to_pylist()
        return next((row for row in rows if row["seq"] == seq), None)

    def elapsed_ns(self, first: int, last: int) -> int:
        """Return the time between the plans of two rounds on the part's clock."""
        begin, end = self.round_row(first), self.round_row(last)
        return int(end["start_ns"] - begin["start_ns"]) if begin and end else 0

    def rows_of(self, round_: int) -> list[tuple[str, str, int]]:
        """Return the scheduled rows of a round: request, kind, forward rows."""
        rows = self._recorded("operations", round_, round_)
        found = zip(words(rows, "request"), words(rows, "kind"), column(rows, "input_tokens").tolist(), strict=True)
        return [(name or "", kind or "", tokens) for name, kind, tokens in found]

    def replayed(self, submission: int, round_: int) -> int:
        """Return how many tokens the row of a request in a round feeds again."""
        rows = self._recorded("operations", round_, round_)
        return int(column(rows, "replay_tokens")[column(rows, "submission") == submission][-1])

    def ended(self, submission: int) -> int | None:
        """Return the round in front of whose plan a request ended; None for one that did not."""
        end = int(self.life.end_round[submission])
        return None if end == NEVER else end

    def end_event(self, submission: int) -> str:
        """Return the kind of the event that ended a request."""
        end = self.ended(submission)
        if end is None:
            return ""
        events = self._recorded("events", end, end)
        kinds = words(events.filter(column(events, "submission") == submission), "kind")
        return next((kind for kind in kinds if kind in ENDS), "")

    def refusal(self, submission: int, round_: int) -> dict[str, Any] | None:
        """Return the refusal of a request in a round: the first one of several."""
        rows = self.own("refusals", submission, round_)
        return rows[0] if rows else None
