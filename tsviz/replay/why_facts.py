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
import pyarrow as pa

from tsviz.scheduler import decisions as d
from tsviz.scheduler.states import STATE_NAMES, holds_pages
from tsviz.trace.reader import Part

from .block_tables import RecordedTables
from .decided_view import DecidedTables
from .lifetimes import ENDS, NEVER, Lifetimes, Longs, PerRequest, column, words

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

    def __init__(self, part: Part, decided: DecidedTables, source: str, last_round: int) -> None:
        """Decisions are known up to `last_round`. Raises `TraceError`."""
        self.part, self.decided, self.source, self.last_round = part, decided, source, last_round
        self.config: dict[str, Any] = part.config
        self.groups = [str(group["group_id"]) for group in part.config["cache_groups"]]
        self.packing = [int(group["cache_blocks_per_lcm_block"]) for group in part.config["cache_groups"]]
        self.parents = max(0, int(part.config["num_device_pages"]) - 1)
        self.life = Lifetimes(part)
        self.tables = RecordedTables(part.table("table_changes"), part.config)
        self._rounds: dict[str, Any] = {}
        self._states = self.decided.table("states")
        self._state_rows = PerRequest(column(self._states, "submission"), column(self._states, "round"))
        self._state_round, self._state_item = column(self._states, "round"), column(self._states, "item")
        self._after = words(self._states, "after")
        verdicts = self.decided.table("verdicts")
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
        whole, rounds = self._table(table)
        low, high = np.searchsorted(rounds, (round_, round_ + 1))
        rows: list[dict[str, Any]] = whole.slice(low, high - low).to_pylist()
        return rows

    def between(self, table: str, first: int, last: int) -> list[dict[str, Any]]:
        """Return the rows of a decided table from round `first` to `last`, both included."""
        whole, rounds = self._table(table)
        low, high = np.searchsorted(rounds, (first, last + 1))
        rows: list[dict[str, Any]] = whole.slice(low, high - low).to_pylist()
        return rows

    def _table(self, name: str) -> tuple[pa.Table, Any]:
        whole = self.decided.table(name)
        if name not in self._rounds:
            self._rounds[name] = column(whole, "round")
        return whole, self._rounds[name]

    def latest(self, table: str, round_: int) -> list[dict[str, Any]]:
        """Return the rows of the last round at or before `round_` that has any."""
        _, rounds = self._table(table)
        position = int(np.searchsorted(rounds, round_, side="right")) - 1
        return self.at(table, int(rounds[position])) if position >= 0 else []

    def own(self, table: str, submission: int, round_: int) -> list[dict[str, Any]]:
        """Return the rows of one request in a round."""
        return [row for row in self.at(table, round_) if row["submission"] == submission]

    def verdict(self, submission: int, round_: int) -> Said | None:
        """Return what became of a request in a round; None where nothing was said of it."""
        (row,) = self._verdict_rows.last(np.array([submission], np.int64), round_).tolist()
        return None if row < 0 else self._said(row)

    def verdicts(self, submission: int, round_: int) -> list[Said]:
        """Return every verdict on a request up to a round, oldest first."""
        return [self._said(row) for row in self._verdict_rows.until(submission, round_).tolist()]

    def _said(self, row: int) -> Said:
        cause, holder, rule = (texts[row] or "" for texts in self._verdicts)
        return Said(cause, holder, rule, int(self._verdict_op[row]), int(self._verdict_round[row]))

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
    def _tickets(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.decided.table("tickets").to_pylist()
        return rows

    @cached_property
    def _ticket_moments(self) -> tuple[Longs, Longs]:
        """Sorted moments at which operations began and ended."""
        moments = np.array([row["round"] << 32 | row["item"] for row in self._tickets], np.int64)
        started = np.array([row["event"] == "started" for row in self._tickets], np.bool_)
        return moments[started], moments[~started]

    def open_tickets(self, round_: int, item: int) -> int:
        """Return how many operations are out at a moment."""
        started, ended = self._ticket_moments
        moment = round_ << 32 | item
        return int(np.searchsorted(started, moment) - np.searchsorted(ended, moment))

    def tickets(self, round_: int, item: int) -> list[Ticket]:
        """Return the operations that are out at a moment, oldest first."""
        out: dict[int, Ticket] = {}
        for row in self._tickets:
            if (row["round"], row["item"]) >= (round_, item):
                break
            if row["event"] == "started":
                out[row["op_id"]] = Ticket(row["op_id"], row["kind"], row["pages"], row["round"])
            else:
                out.pop(row["op_id"], None)
        return list(out.values())

    # Recorded rows

    def last_row(self, submission: int, round_: int) -> int:
        """Return the table row of a request's last scheduled row at or before a round; -1 without one."""
        (row,) = self.life.op_rows.last(np.array([submission], np.int64), round_).tolist()
        return int(row)

    def round_row(self, round_: int) -> dict[str, Any]:
        """Return the row of a plan; empty for a round that is not there."""
        rounds = self.part.table("rounds")
        low, high = np.searchsorted(column(rounds, "round"), (round_, round_ + 1))
        rows: list[dict[str, Any]] = rounds.slice(low, high - low).to_pylist()
        return rows[0] if rows else {}

    def elapsed_ns(self, first: int, last: int) -> int:
        """Return the time between the plans of two rounds on the part's clock."""
        begin, end = self.round_row(first), self.round_row(last)
        return int(end["start_ns"] - begin["start_ns"]) if begin and end else 0

    def rows_of(self, round_: int) -> list[tuple[str, str, int]]:
        """Return the scheduled rows of a round: request, kind, forward rows."""
        life = self.life
        low, high = np.searchsorted(life.op_round, (round_, round_ + 1))
        names = words(self.part.table("operations").slice(low, high - low), "request")
        return [
            (name or "", str(life.op_kind[i]), int(life.op_input[i]))
            for name, i in zip(names, range(low, high), strict=True)
        ]

    def ended(self, submission: int) -> int | None:
        """Return the round in front of whose plan a request ended; None for one that did not."""
        end = int(self.life.end_round[submission])
        return None if end == NEVER else end

    def end_event(self, submission: int) -> str:
        """Return the kind of the event that ended a request."""
        events = self.part.table("events")
        own = np.flatnonzero(column(events, "submission") == submission)
        kinds = words(events.take(own), "kind")
        return next((kind for kind in kinds if kind in ENDS), "")

    def refusal(self, submission: int, round_: int) -> dict[str, Any] | None:
        """Return the refusal of a request in a round: the first one of several."""
        rows = self.own("refusals", submission, round_)
        return rows[0] if rows else None
