"""Invariants that tables can show to be broken: of plans (recorded), of pages and pools (with decisions).

Many invariants of a scheduler's inside leave no trace in tables; these are the ones that do. The twin checks all of
them while it runs (`scheduler.invariants`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tsviz.replay.rows.lifetimes import among, column, words
from tsviz.replay.rows.rows_from import RowsFrom, pieces, some
from tsviz.replay.scenario.predicates import Absent
from tsviz.replay.why.facts import Facts

from .decided import facts_of
from .model import Ended, Subject, found, not_on_a_slice, starts_at
from .owners import CHANGES, Owners, Page


@dataclass(frozen=True, slots=True)
class Broken:
    """One breach: which invariant, where, what was expected and found."""

    invariant: str
    round: int
    where: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.invariant} in round {self.round:,}, {self.where}: expected {self.expected}, found {self.found}"


def plan_breach(subject: Subject, breaches: int) -> Ended:
    """Judge: a plan has two rows of one request or slot, or exceeds a limit, or cuts a prefill that is not the last.

    Limits are the rows of a batch, its forward tokens, and the empty pages that there can be.
    """
    return _ended("plan_breach", "plan", list(_plans(subject)), breaches)


def page_breach(subject: Subject, breaches: int) -> Ended:
    """Judge: a page is handed out fresh while another live table holds it, or the blocks do not make the pool.

    Active and available blocks are the whole pool unless an operation is out, which pins the rest; empty ones are
    among the available.
    """
    facts = facts_of(subject)
    first, short = starts_at(subject.part), list(_short(facts))
    # Where it is not known which operations from before a slice are still out, they may hold what is missing.
    broken = [*_totals(facts), *(short if facts.begins_told else ()), *_handed_out(subject, facts)]
    if first is not None and short and not facts.begins_told and len(broken) <= breaches:
        lacks = f"an operation from before round {first:,} may hold the blocks that are missing in {short[0].round:,}"
        return not_on_a_slice("page_breach", lacks)
    return _ended("page_breach", "page", broken, breaches)


def _ended(name: str, what: str, broken: list[Broken], breaches: int) -> Ended:
    if len(broken) <= breaches:
        return Absent(name, len(broken), breaches)
    broken.sort(key=lambda b: b.round)
    return found(name, f"{what} invariant broken {len(broken):,} times; first {broken[0]}",
                 (broken[0].round, broken[-1].round), [], breaches=len(broken))  # fmt: skip


_ROWS = (
    "round", "kind", "request", "submission", "slot", "begin_tokens", "input_tokens", "prefill_tokens",
)  # fmt: skip
_PLANS = ("round", "prefill_rows", "decode_rows", "empty_pages")


def _plans(subject: Subject) -> Iterator[Broken]:
    part, config = subject.part, subject.part.config
    rounds = some(part, "rounds", _PLANS)
    numbers = column(rounds, "round")
    spent = np.zeros(len(numbers) + 1, np.int64)
    # A slice also has the last rows from before it, whose plans it does not have.
    for operations in pieces(part, "operations", _ROWS, first=part.meta.get("starts_at")):
        round_, fed = column(operations, "round"), column(operations, "input_tokens")
        chunk = among(operations, "kind", ("prefill",))
        yield from _rows(operations, round_, chunk)
        # Decodes of a decode role do not spend the budget.
        spends = chunk if config["role"] == "D" else chunk | among(operations, "kind", ("decode",))
        np.add.at(spent, np.searchsorted(numbers, round_[spends]), fed[spends])
    batch = column(rounds, "prefill_rows").astype(np.int64) + column(rounds, "decode_rows")
    parents = max(0, int(config["num_device_pages"]) - 1)
    for name, values, limit in (
        ("batch_limit", batch, int(config["max_batch_size"])),
        ("token_budget", spent[: len(numbers)], int(config["max_scheduled_tokens"])),
        ("pool_totals", column(rounds, "empty_pages"), parents),
    ):
        for index in np.flatnonzero(values > limit).tolist():
            yield Broken(name, int(numbers[index]), "plan", f"at most {limit:,}", f"{int(values[index]):,}")


def _rows(operations: Any, round_: Any, chunk: Any) -> Iterator[Broken]:
    """Yield what is broken in the rows of some rounds."""
    names = operations["request"]
    for label, values in (("request", column(operations, "submission")), ("slot", column(operations, "slot"))):
        for index, times in _twice(round_, values):
            where = f"{label} {names[index].as_py() if label == 'request' else values[index]}"
            yield Broken(f"one_row_a_{label}", int(round_[index]), where, "1 row", f"{times} rows")
    ends = column(operations, "begin_tokens") + column(operations, "input_tokens")
    cut = chunk & (ends < column(operations, "prefill_tokens"))
    last_chunk = np.zeros(len(chunk), np.bool_)
    where_chunk = np.flatnonzero(chunk)
    if len(where_chunk):
        last = np.append(np.flatnonzero(np.diff(round_[where_chunk])), len(where_chunk) - 1)
        last_chunk[where_chunk[last]] = True
    for index in np.flatnonzero(cut & ~last_chunk).tolist():
        yield Broken("head_of_line", int(round_[index]), f"request {names[index].as_py()}", "only the last prefill cut",
                     "one cut with a prefill behind it")  # fmt: skip


_BLOCK_ROWS = 1 << 20
_BLOCK_ROUNDS = 1 << 12


def _twice(round_: Any, values: Any) -> Iterator[tuple[int, int]]:
    """Yield first row and times of every value that stands more than once in a round; rows are in order of rounds."""
    first = 0
    while first < len(round_):
        last = min(first + _BLOCK_ROWS, len(round_))
        last = max(last, int(np.searchsorted(round_, round_[last - 1], side="right")))
        here, numbers = round_[first:last].astype(np.int64), values[first:last].astype(np.int64)
        span = int(numbers.max()) - int(numbers.min()) + 1
        rounds = int(here.max()) - int(here.min()) + 1
        key = (here - here.min()) * span + (numbers - numbers.min())
        # Counting is ten times quicker than sorting, where numbers are what they should be and not absurd.
        if rounds * span > 32 * _BLOCK_ROWS or int(np.bincount(key).max()) > 1:
            _, index, times = np.unique(key, return_index=True, return_counts=True)
            yield from zip((first + index[times > 1]).tolist(), times[times > 1].tolist(), strict=True)
        first = last


_POOL = ("round", "item", "group", "active_blocks", "available_blocks", "empty_blocks")


def _totals(facts: Facts) -> Iterator[Broken]:
    """Yield moments at which the blocks of the pool are more than there are."""
    pool = some(facts.decided, "pool", _POOL)
    active, available = column(pool, "active_blocks").astype(np.int64), column(pool, "available_blocks")
    empty, group = column(pool, "empty_blocks"), column(pool, "group")
    for index in np.flatnonzero((group == 0) & ((empty > available) | (active + available > facts.parents))).tolist():
        round_ = int(column(pool, "round")[index])
        yield Broken(
            "pool_totals", round_, "pool", f"empty within available, with active at most {facts.parents:,}",
            f"{int(empty[index]):,} empty, {int(available[index]):,} available, {int(active[index]):,} active",
        )  # fmt: skip


def _short(facts: Facts) -> Iterator[Broken]:
    """Yield moments at which blocks are missing although no operation is out that is known."""
    pool = some(facts.decided, "pool", _POOL)
    active, available = column(pool, "active_blocks").astype(np.int64), column(pool, "available_blocks")
    group = column(pool, "group")
    short = np.flatnonzero((group == 0) & (active + available < facts.parents))
    for index in short.tolist():
        round_, item = int(column(pool, "round")[index]), int(column(pool, "item")[index])
        if facts.open_tickets(round_, item) <= 0:
            yield Broken(
                "pool_totals", round_, "pool", f"active and available make {facts.parents:,} with no operation out",
                f"{int(active[index]) + int(available[index]):,}",
            )  # fmt: skip


def _handed_out(subject: Subject, facts: Facts) -> Iterator[Broken]:
    """Yield pages that a plan takes as fresh while another live request's table holds them."""
    owners = Owners(facts)
    changes = RowsFrom(subject.part, "table_changes", CHANGES, key="round")
    zeroed = RowsFrom(subject.part, "zeroed", ("round", "group", "page"), key="round")
    for begin in range(0, facts.last_round + 1, _BLOCK_ROUNDS):
        end = min(begin + _BLOCK_ROUNDS, facts.last_round + 1) - 1
        taken, written = zeroed.between(begin, end), _by_round(changes.between(begin, end))
        fresh: dict[int, set[Page]] = {}
        for at, group, page in zip(
            column(taken, "round").tolist(), words(taken, "group"), column(taken, "page").tolist(), strict=True
        ):
            fresh.setdefault(at, set()).add((owners.group(group), page))
        for round_ in sorted(fresh.keys() | written.keys()):
            for (index, page), first, second in owners.step(round_, written.get(round_, []), fresh.get(round_, set())):
                yield Broken(
                    "page_owned_twice", round_, f"page {page} of {facts.groups[index]}", f"fresh for {second!r} alone",
                    f"still in the table of {first!r}",
                )  # fmt: skip


def _by_round(changes: Any) -> dict[int, list[dict[str, Any]]]:
    found: dict[int, list[dict[str, Any]]] = {}
    for row in changes.to_pylist():
        found.setdefault(row["round"], []).append(row)
    return found
