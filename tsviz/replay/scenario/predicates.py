"""Named findings that a run either shows or does not, over recorded tables only (debugger.md, sections 1 and 5).

A predicate answers with a `Finding` (the sentence, the rounds, the requests, the numbers) or with an `Absent` that says
how near the run came. `NAME>N` sets the threshold of a finding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.replay.figures.stuck import STUCK_ROUNDS
from tsviz.replay.rows.lifetimes import ENDS, among, column, keys, words
from tsviz.replay.rows.rows_from import pieces, some
from tsviz.trace import entries as e

Flags = npt.NDArray[np.bool_]


class Tables(Protocol):
    """Recorded tables of one part, of a bundle or in memory."""

    node: str
    rank: int
    config: dict[str, Any]

    def tables(self) -> Mapping[str, Any]:
        """Return every recorded table."""

    def table(self, name: str) -> Any:
        """Return a recorded table."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found: in which rounds, about whom, with which numbers; a run that ends with `shown_by` shows it too."""

    name: str
    sentence: str
    first_round: int
    last_round: int
    requests: tuple[str, ...]
    shown_by: int
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Absent:
    """Not found: the most that there was, and what would have been needed."""

    name: str
    most: int
    needed: int

    def __str__(self) -> str:
        return f"{self.name}: at most {self.most:,}, more than {self.needed:,} needed"


Outcome = Finding | Absent


@dataclass(frozen=True, slots=True)
class Predicate:
    """A condition on a run: its text as given, and what judges a run's tables."""

    text: str
    check: Callable[[Tables], Outcome]


def live_lock(part: Tables, rounds: int) -> Outcome:
    """Judge: more than `rounds` rounds in a row moved nobody on although rows were scheduled.

    In none of them a request's highest computed position rose or a request ended, in at least a quarter of them rows
    were scheduled, and they were enough to compute all prompts involved twice over.
    """
    table = some(part, "rounds", ("round", "prefill_rows", "decode_rows", "retracted_requests"))
    numbers = column(table, "round").astype(np.int64)
    scheduled = column(table, "prefill_rows") + column(table, "decode_rows") > 0
    moved = np.isin(numbers, np.concatenate([_risen(part), _ended(part)]))
    most = 0
    for first, last in _stretches(~moved):
        lengths, busy = np.arange(1, last - first + 2), np.cumsum(scheduled[first : last + 1])
        most = max(most, int(lengths[4 * busy >= lengths].max(initial=0)))
        if not (lengths[4 * busy >= lengths] > rounds).any():
            continue
        who, prompts, names = _taking_turns(part, int(numbers[first]), int(numbers[last]))
        budget = max(1, part.config["max_scheduled_tokens"])
        enough = max(rounds, 2 * int((-(-prompts // budget)).sum()))
        shown = np.flatnonzero((lengths > enough) & (4 * busy >= lengths))
        if not len(shown):
            continue
        retracted = int(column(table, "retracted_requests")[first : last + 1].sum())
        named, length = _unique(names), last - first + 1
        return Finding(
            "livelock",
            f"live-lock: in rounds {numbers[first]:,} to {numbers[last]:,} rows were scheduled {busy[-1]:,} times"
            f" and {retracted:,} requests retracted, yet no request's highest computed position rose and none ended;"
            f" {len(who)} requests take turns: {_listed(named)}",
            int(numbers[first]), int(numbers[last]), named, int(numbers[first + shown[0]]),
            {"rounds": length, "scheduled_rounds": int(busy[-1]), "retractions": retracted, "requests": len(who)},
        )  # fmt: skip
    return Absent("livelock", most, rounds)


def _taking_turns(part: Tables, first: int, last: int) -> tuple[list[int], npt.NDArray[np.int64], list[str | None]]:
    """Return the submissions with a row in some rounds, rising, the prompts that were computed, and their names."""
    met: dict[int, tuple[int, str | None]] = {}
    for rows in pieces(part, "operations", ("submission", "prefill_tokens", "request"), first, last):
        who, where = np.unique(column(rows, "submission"), return_index=True)
        firsts = rows.take(where)
        prompts, names = column(firsts, "prefill_tokens").tolist(), words(firsts, "request")
        for number, prompt, name in zip(who.tolist(), prompts, names, strict=True):
            met.setdefault(number, (prompt, name))
    order = sorted(met)
    return order, np.array([met[number][0] for number in order], np.int64), [met[number][1] for number in order]


def stall(part: Tables, rounds: int) -> Outcome:
    """Judge: more than `rounds` plans at the end are empty, requests live, and nothing is outstanding or came in.

    Outstanding is a row without its result and a copy without its acknowledgement.
    """
    names = [f"{name}_requests" for name in ("bootstrapping", "waiting", "prefilling", "decoding", "pd_transfer")]
    kinds = [f"{kind}_rows" for kind in ("prefill", "decode", "remote_prefill", "remote_decode")]
    table = some(part, "rounds", ("round", *names, *kinds))
    numbers = column(table, "round").astype(np.int64)
    live, rows = (sum(column(table, name) for name in those) for those in (names, kinds))
    calls = some(part, "calls", ("round", "kind"))
    fed = column(calls, "round")[~among(calls, "kind", (e.PLAN, e.DRAIN))]
    copied = column(some(part, "transfers", ("round",)), "round")
    quiet = (live > 0) & (rows == 0) & ~np.isin(numbers, fed) & ~np.isin(numbers, copied)
    stretch = _stretches(quiet)
    if not stretch or stretch[-1][1] != len(numbers) - 1:
        return Absent("stall", 0, rounds)
    first, last = stretch[-1]
    if last - first + 1 <= rounds or _outstanding(part):
        return Absent("stall", min(last - first + 1, rounds), rounds)
    names_left = _unique(_live_names(part))
    return Finding(
        "stall",
        f"stall: from round {numbers[first]:,} on every plan is empty, {len(names_left)} requests live, nothing is"
        f" outstanding: {_listed(names_left)}",
        int(numbers[first]), int(numbers[last]), names_left, int(numbers[first + rounds]),
        {"rounds": last - first + 1, "requests": len(names_left)},
    )  # fmt: skip


STORM_ROUNDS = 100
"""Window in which retractions make a storm."""


def retraction_storm(part: Tables, retractions: int) -> Outcome:
    """Judge: more than `retractions` requests were retracted within `STORM_ROUNDS` rounds."""
    table = some(part, "rounds", ("round", "retracted_requests"))
    numbers = column(table, "round").astype(np.int64)
    total = np.concatenate([[0], np.cumsum(column(table, "retracted_requests"))])
    low = np.searchsorted(numbers, numbers - STORM_ROUNDS, side="right")
    inside = total[1:] - total[low]
    hit = np.flatnonzero(inside > retractions)
    if not len(hit):
        return Absent("retraction_storm", int(inside.max(initial=0)), retractions)
    last = int(hit[0])
    first_round, last_round = int(numbers[low[last]]), int(numbers[last])
    changes = some(part, "table_changes", ("submission", "round", "fresh", "request"))
    submission, round_ = column(changes, "submission"), column(changes, "round")
    fresh = np.array(changes["fresh"].to_numpy(zero_copy_only=False), np.bool_)
    first_start = np.full(int(submission.max(initial=-1)) + 1, np.iinfo(np.int64).max, np.int64)
    np.minimum.at(first_start, submission[fresh], round_[fresh].astype(np.int64))
    again = fresh & (round_ > first_start[submission]) & (round_ >= first_round)
    names = _unique(words(changes.filter(again), "request"))
    return Finding(
        "retraction_storm",
        f"retraction storm: {int(inside[last]):,} retractions in rounds {first_round:,} to {last_round:,};"
        f" started anew since: {_listed(names)}",
        first_round, last_round, names, last_round, {"retractions": int(inside[last])},
    )  # fmt: skip


def head_of_line(part: Tables, rounds: int, never_ran: Collection[int] | None = None) -> Outcome:
    """Judge: the request that waits first was passed over for more than `rounds` rounds with others behind it.

    First is the oldest request that never had a row; the rounds are those in which rows were scheduled while at least
    one more request waited. Of a slice decisions tell who had no row before it (`never_ran`; None: not known), and its
    rounds count.
    """
    table = some(part, "rounds", ("round", "prefill_rows", "decode_rows", "waiting_requests"))
    numbers = column(table, "round").astype(np.int64)
    busy = column(table, "prefill_rows") + column(table, "decode_rows") > 0
    submissions = part.table("submissions")
    submitted = column(submissions, "round").astype(np.int64)
    first_row = _first_rows(part, submissions)
    most = 0
    # Of a request from before a slice nobody knows whether it had a row.
    known = submitted >= numbers[0] if len(numbers) else submitted < 0
    if never_ran is not None:
        new = np.isin(np.arange(len(submitted)), list(never_ran))
        first_row = np.where(known | new, first_row, submitted)
        known |= new
    for index in np.flatnonzero((first_row - submitted > rounds) & known).tolist():
        older = first_row[:index].max(initial=0)
        begin, end = max(submitted[index], older), first_row[index]
        held = (numbers >= begin) & (numbers < end) & busy & (column(table, "waiting_requests") > 1)
        most = max(most, int(held.sum()))
        if held.sum() > rounds:
            name = str(submissions["request"][index].as_py())
            at = numbers[held]
            return Finding(
                "head_of_line",
                f"head of line: {name!r} waited first from round {at[0]:,} to {at[-1]:,}, passed over in"
                f" {int(held.sum()):,} rounds that scheduled others, with requests behind it",
                int(at[0]), int(at[-1]), (name,), int(at[rounds]), {"rounds": int(held.sum())},
            )  # fmt: skip
    return Absent("head_of_line", most, rounds)


def _first_rows(part: Tables, submissions: Any) -> npt.NDArray[np.int64]:
    """Return the round of the first row of every submission, or in which it ended without one."""
    first_row = np.full(submissions.num_rows, np.iinfo(np.int64).max, np.int64)
    for piece in pieces(part, "operations", ("round", "submission")):
        who, at = np.unique(column(piece, "submission"), return_index=True)
        first_row[who] = np.minimum(first_row[who], column(piece, "round")[at])
    first_row[~np.array(submissions["accepted"].to_numpy(zero_copy_only=False), np.bool_)] = -1
    for index, round_ in zip(*_end_rounds(part), strict=True):
        first_row[index] = min(first_row[index], round_)
    return first_row


def waited_before(part: Tables, first: int, rounds: int) -> dict[int, str]:
    """Return who came before a slice from round `first` and had no row for more than `rounds` rounds of it, by number.

    Of these the slice's rows do not tell whether they had run before it.
    """
    submissions = part.table("submissions")
    before = column(submissions, "round") < first
    without = np.flatnonzero(before & (_first_rows(part, submissions) - first > rounds))
    names = words(submissions.take(without), "request")
    return {number: name or "" for number, name in zip(without.tolist(), names, strict=True)}


_ROWS = ("round", "submission", "kind", "begin_tokens", "input_tokens")


def _risen(part: Tables) -> npt.NDArray[np.int64]:
    """Return the rounds in which some request's highest computed position rose."""
    others, asked = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for rows in pieces(part, "operations", ("round", "submission", "kind")):
        round_, chunk = column(rows, "round"), among(rows, "kind", ("prefill",))
        there = round_[~chunk]  # a row that is no chunk computes a position that was not there
        there = there[np.append(True, np.diff(there) != 0)[: len(there)]]
        others.append(there.astype(np.int64))
        # Of rounds in which such a row stands nothing more is asked: only requests with chunks in the others are.
        asked.append(np.unique(column(rows, "submission")[chunk & ~np.isin(round_, there)]).astype(np.int64))
    return np.union1d(np.concatenate(others), _risen_of(part, np.unique(np.concatenate(asked))))


def _risen_of(part: Tables, asked: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rounds in which rows of these requests computed a position for the first time."""
    found = [rows.filter(np.isin(column(rows, "submission"), asked)) for rows in pieces(part, "operations", _ROWS)]
    if not len(asked) or not found:
        return np.zeros(0, np.int64)
    operations = pa.concat_tables(found).unify_dictionaries()
    chunk = among(operations, "kind", ("prefill",))
    submission = column(operations, "submission").astype(np.int64)
    round_ = column(operations, "round").astype(np.int64)
    end = column(operations, "begin_tokens").astype(np.int64) + column(operations, "input_tokens")
    end = np.where(chunk, end, _held(part, asked, submission, round_))
    order = np.lexsort((round_, submission))
    owner, reach = submission[order], end[order]
    step = int(reach.max(initial=0)) + 1
    highest = np.maximum.accumulate((owner + 1) * step + reach) - (owner + 1) * step
    before = np.concatenate([[-1], highest[:-1]])
    starts = np.concatenate([[True], owner[1:] != owner[:-1]]) if len(owner) else np.zeros(0, np.bool_)
    before = before[: len(owner)]
    rises = starts | (reach > before) | ~chunk[order]
    risen: npt.NDArray[np.int64] = np.unique(round_[order][rises])
    return risen


def _held(
    part: Tables, asked: npt.NDArray[np.int64], submission: npt.NDArray[np.int64], round_: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """Return how many tokens requests among `asked` held at the plans of rounds: prompt and what had landed."""
    sorted_, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for events in pieces(part, "events", ("round", "submission", "token_count")):
        mine = np.isin(column(events, "submission"), asked)
        sorted_.append(keys(column(events, "submission")[mine], column(events, "round")[mine]))
        counts.append(column(events, "token_count")[mine].astype(np.int64))
    unsorted = np.concatenate(sorted_)
    order = np.argsort(unsorted, kind="stable")
    table = unsorted[order]
    total = np.concatenate([[0], np.cumsum(np.concatenate(counts)[order])])
    high = np.searchsorted(table, keys(submission, round_), side="right")
    low = np.searchsorted(table, submission << 32, side="left")
    prompts = column(part.table("submissions"), "prompt_tokens").astype(np.int64)
    known = np.concatenate([prompts, [0]])[np.where(submission < 0, len(prompts), submission)]
    held: npt.NDArray[np.int64] = known + total[high] - total[low]
    return held


def _end_rounds(part: Tables) -> tuple[list[int], list[int]]:
    submissions, rounds = list[int](), list[int]()
    for events in pieces(part, "events", ("round", "submission", "kind")):
        ends = among(events, "kind", ENDS) & (column(events, "submission") >= 0)
        submissions += column(events, "submission")[ends].tolist()
        rounds += column(events, "round")[ends].tolist()
    return submissions, rounds


def _ended(part: Tables) -> npt.NDArray[np.int64]:
    return np.array(_end_rounds(part)[1], np.int64)


def _live_names(part: Tables) -> list[str | None]:
    ended = set(_end_rounds(part)[0])
    submissions = part.table("submissions")
    columns = (
        submissions["submission"].to_pylist(),
        words(submissions, "request"),
        submissions["accepted"].to_pylist(),
    )
    return [name for number, name, accepted in zip(*columns, strict=True) if accepted and number not in ended]


def _outstanding(part: Tables) -> int:
    """Return how many rows of live requests have no result yet and how many copies no acknowledgement."""
    ended = set(_end_rounds(part)[0])
    waits: Counter[int] = Counter()
    for operations in pieces(part, "operations", ("submission",)):
        waits.update(_counted(column(operations, "submission")))
    answered = [np.zeros(0, np.int64)]
    for events in pieces(part, "events", ("submission", "kind", "op_id")):
        waits.subtract(_counted(column(events, "submission")[among(events, "kind", (e.EXTEND_RESULT,))]))
        answered.append(column(events, "op_id")[among(events, "kind", (e.WRITE_BACK_DONE, e.LOAD_BACK_DONE))])
    rows = sum(n for submission, n in waits.items() if n > 0 and submission not in ended)
    begun = column(some(part, "transfers", ("op_id",)), "op_id")
    return rows + len(np.setdiff1d(begun, np.concatenate(answered)))


def _counted(values: npt.NDArray[Any]) -> dict[int, int]:
    found, times = np.unique(values, return_counts=True)
    return dict(zip(found.tolist(), times.tolist(), strict=True))


def _stretches(flags: Flags) -> list[tuple[int, int]]:
    """Return first and last index of every run of true flags."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _unique(names: list[str | None]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name or "" for name in names))


_LISTED = 8


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(map(repr, names[:_LISTED])) + more


@dataclass(frozen=True, slots=True)
class Named:
    """A named finding: how it is judged, its default threshold, what the threshold counts."""

    judge: Callable[[Tables, int], Outcome]
    threshold: int
    counts: str


NAMED: dict[str, Named] = {
    "livelock": Named(live_lock, STUCK_ROUNDS, "rounds in a row"),
    "stall": Named(stall, 2, "empty plans at the end"),
    "retraction_storm": Named(retraction_storm, 20, f"retractions in {STORM_ROUNDS} rounds"),
    "head_of_line": Named(head_of_line, 50, "rounds that passed the first one over"),
}
"""The named findings, most telling first."""


def named_predicate(name: str, threshold: int | None = None) -> Predicate:
    """Return a named finding as a predicate. Raises KeyError for an unknown name."""
    named = NAMED[name]
    needed = named.threshold if threshold is None else threshold
    text = name if threshold is None else f"{name}>{threshold}"
    return Predicate(text, lambda part: named.judge(part, needed))
