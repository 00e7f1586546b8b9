"""Lost time: where the time to first token and the time between tokens went, by cause (debugger.md, section 1).

A request's span is cut where a plan begins: what became of the request in a round holds from that plan to the next.
Every nanosecond of the span gets exactly one cause, so the causes of a span add up to it. Times are those of the part's
clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from tsviz.replay.rows.lifetimes import ENDS, Longs, among, column
from tsviz.replay.rows.rows_from import pieces, some
from tsviz.replay.why.facts import Facts
from tsviz.scheduler import decisions as d

TTFT, TPOT, OPEN, CUT_OFF = "ttft", "tpot", "no_first_token", "ended_without_token"
"""Spans: arrival to first token; first landing to last; when no token landed, arrival to the end of the trace, or to
the call that ended the request (`abort`, mostly)."""
PHASES = (TTFT, TPOT, OPEN, CUT_OFF)

AT_ENGINE = "not_submitted"
"""From arrival to the submit call."""
BEFORE_PLAN = "before_first_plan"
"""From the submit call to the first plan that could take the request."""
BEFORE_SLICE = "before_slice"
"""In a slice, from arrival to its first plan, of a request that was submitted before it: that is not known."""
AGAIN = "scheduled_again"
"""A row that computed nothing but positions which had been computed before, after a retraction."""
UNKNOWN = "unknown"
"""Behind the last round whose decisions are known, or after the request ended in a plan's eyes."""

OWN_CAUSES = {
    AT_ENGINE: "from arrival to the submit call",
    BEFORE_PLAN: "from the submit call to the first plan behind it",
    BEFORE_SLICE: "not known before the slice",
    AGAIN: "scheduled, but all positions of its row had been computed before a retraction",
    UNKNOWN: "no decision is known for the round",
}
"""Causes of this module beside `decisions.CAUSES`."""


@dataclass(frozen=True, slots=True)
class Run:
    """Time in which one cause held without a break: its first round, its last, and how long."""

    first_round: int
    last_round: int
    time_ns: int


@dataclass(frozen=True, slots=True)
class Lost:
    """One span of a request, split: `causes` maps a cause to nanoseconds and sums to `end_ns - begin_ns`."""

    request: str
    submission: int
    phase: str
    begin_ns: int
    end_ns: int
    tokens: int
    """Tokens that the span brought: the first one for `ttft`, those behind the first landing for `tpot`."""
    causes: dict[str, int]
    longest: dict[str, Run] = field(default_factory=dict)
    """The longest run of each cause: where to look."""

    @property
    def span_ns(self) -> int:
        """Length of the span."""
        return self.end_ns - self.begin_ns


@dataclass(frozen=True, slots=True)
class Share:
    """Time of one cause, summed over the spans of one phase of one key (a request, a class, or all)."""

    key: str
    phase: str
    cause: str
    time_ns: int
    span_ns: int
    """All time of that phase and key."""
    spans: int
    tokens: int

    @property
    def share(self) -> float:
        """Part of the span."""
        return self.time_ns / self.span_ns if self.span_ns else 0.0

    @property
    def mean_ns(self) -> float:
        """Time a request for a first token, time a token for `tpot`."""
        by = self.tokens if self.phase == TPOT else self.spans
        return self.time_ns / by if by else 0.0


def blame(facts: Facts, submissions: Sequence[int] | None = None) -> list[Lost]:
    """Return the split spans of accepted requests, in order of submission; all of them, or those named.

    Of a slice those are left out of which the arrival or the first token is not known (`left_out`).
    """
    times = _Times(facts)
    chosen = range(facts.life.count) if submissions is None else submissions
    return [lost for submission in chosen if facts.life.accepted[submission] for lost in times.spans(submission)]


def left_out(facts: Facts, submissions: Sequence[int] | None = None) -> int:
    """Return how many accepted requests have no span because arrival or first token lie before the slice, unknown."""
    times = _Times(facts)
    chosen = range(facts.life.count) if submissions is None else submissions
    return sum(times.untimed(submission) for submission in chosen if facts.life.accepted[submission])


@lru_cache(maxsize=1 << 16)
def class_of(request: str) -> str:
    """Return the class of a request: its id without the digits at its end and what joins them (`chat-2`: `chat`)."""
    return re.sub(r"[-_.:/#]*\d+$", "", request) or request


def shares(lost: Iterable[Lost], by: str) -> list[Share]:
    """Sum spans `by` request, class or cause (the whole fleet); most time first within phase and key."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    totals: dict[tuple[str, str], list[int]] = {}
    for one in lost:
        key = {"request": one.request, "class": class_of(one.request), "cause": "all"}[by]
        place = (key, one.phase)
        total = totals.setdefault(place, [0, 0, 0])
        total[0] += one.span_ns
        total[1] += 1
        total[2] += one.tokens
        into = sums.setdefault(place, {})
        for cause, time_ns in one.causes.items():
            into[cause] = into.get(cause, 0) + time_ns
    found = [
        Share(key, phase, cause, time_ns, *totals[key, phase])
        for (key, phase), causes in sums.items()
        for cause, time_ns in sorted(causes.items(), key=lambda item: (-item[1], item[0]))
    ]
    return sorted(found, key=lambda s: PHASES.index(s.phase)) if by == "cause" else found


class _Times:
    """Marks of all requests on the part's clock."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        part, life = facts.part, facts.life
        rounds = some(part, "rounds", ("round", "start_ns"))
        self._round, self._start = column(rounds, "round").astype(np.int64), column(rounds, "start_ns").astype(np.int64)
        calls, submissions = some(part, "calls", ("seq", "time_ns")), part.table("submissions")
        seq, time = column(calls, "seq").astype(np.int64), column(calls, "time_ns").astype(np.int64)
        made = column(submissions, "call_seq")
        at = np.searchsorted(seq, made)
        self._before = made < seq[0] if len(seq) else np.ones(len(made), np.bool_)
        no_arrival = np.array(submissions["arrival_ns"].is_null().to_numpy(), np.bool_)
        self._submitted: Longs = time[at]
        self._arrival: Longs = np.where(no_arrival, self._submitted, column(submissions, "arrival_ns"))
        self._tokens, self._first_tokens = np.zeros(life.count, np.int64), np.zeros(life.count, np.int64)
        first_seq, last_seq = np.full(life.count, -1, np.int64), np.full(life.count, -1, np.int64)
        ended: Longs = np.full(life.count, np.iinfo(np.int64).max)
        for events in pieces(part, "events", ("round", "kind", "applied", "token_count", "submission", "call_seq")):
            applied = np.array(events["applied"].to_numpy(zero_copy_only=False), np.bool_)
            tokens = np.where(applied, column(events, "token_count"), 0).astype(np.int64)
            owner = column(events, "submission").astype(np.int64)
            ends = applied & among(events, "kind", ENDS) & (owner >= 0)
            np.minimum.at(ended, owner[ends], column(events, "call_seq").astype(np.int64)[ends])
            rows = np.flatnonzero((tokens > 0) & (owner >= 0))
            owner, tokens, landed = owner[rows], tokens[rows], column(events, "call_seq").astype(np.int64)[rows]
            np.add.at(self._tokens, owner, tokens)
            last_seq[owner] = landed
            new = np.flatnonzero(first_seq[owner] < 0)[::-1]
            first_seq[owner[new]] = landed[new]
            with_first = landed == first_seq[owner]
            np.add.at(self._first_tokens, owner[with_first], tokens[with_first])
        end_seq = np.where(ended == np.iinfo(np.int64).max, -1, ended)
        self._first, self._last, self._ended = (
            np.where(at_seq < 0, -1, time[np.minimum(np.searchsorted(seq, at_seq), len(time) - 1)] if len(time) else -1)
            for at_seq in (first_seq, last_seq, end_seq)
        )
        begun = (first_seq >= 0) & (first_seq < seq[0]) if len(seq) else first_seq >= 0
        self._untimed = begun | (self._before & no_arrival)
        self._end_of_trace = int(max(time[-1], self._start[-1])) if len(time) and len(self._start) else 0

    def untimed(self, submission: int) -> bool:
        """Whether a request's arrival or first token lies before the slice at a time that it does not have."""
        return bool(self._untimed[submission])

    def spans(self, submission: int) -> list[Lost]:
        """Return the spans of one request."""
        if self.untimed(submission):
            return []
        name = self._facts.life.names[submission]
        arrival, first, last, ended = (
            int(t[submission]) for t in (self._arrival, self._first, self._last, self._ended)
        )
        if first < 0:
            phase = OPEN if ended < 0 else CUT_OFF
            end = max(arrival, self._end_of_trace if ended < 0 else ended)
            return [Lost(name, submission, phase, arrival, end, 0, *self._split(submission, arrival, end))]
        found = [Lost(name, submission, TTFT, arrival, first, 1, *self._split(submission, arrival, first))]
        later = int(self._tokens[submission] - self._first_tokens[submission])
        if later:
            found.append(Lost(name, submission, TPOT, first, last, later, *self._split(submission, first, last)))
        return found

    def _split(self, submission: int, begin: int, end: int) -> tuple[dict[str, int], dict[str, Run]]:
        """Return how much of a stretch of time each cause held (the sum is the stretch), and its longest run."""
        causes: dict[str, int] = {}
        longest: dict[str, Run] = {}
        marks = self._marks(submission)
        open_cause, open_round, open_ns = "", 0, 0
        for (since, cause, round_), (until, _, after) in zip(marks, [*marks[1:], (end, "", 0)], strict=True):
            held = min(until, end) - max(since, begin)
            if held <= 0:
                continue
            causes[cause] = causes.get(cause, 0) + held
            if cause != open_cause:
                open_cause, open_round, open_ns = cause, self._round_at(begin, round_) if since < begin else round_, 0
            open_ns += held
            if cause not in longest or open_ns > longest[cause].time_ns:
                last = max(after - 1, round_) if until <= end and after else self._round_at(end, round_)
                longest[cause] = Run(open_round, last, open_ns)
        return causes, longest

    def _round_at(self, time_ns: int, least: int) -> int:
        """Return the last round that began before a moment, `least` at least."""
        position = int(np.searchsorted(self._start, time_ns))
        return max(least, int(self._round[position - 1]) if position else least)

    def _marks(self, submission: int) -> list[tuple[int, str, int]]:
        """Return (time, cause, round) in order of time: the cause holds from there to the next mark."""
        facts = self._facts
        by_round: dict[int, str] = {v.since_round: v.cause for v in facts.verdicts(submission, facts.last_round)}
        by_round |= self._again(submission, by_round)
        submitted = int(facts.life.submitted[submission])
        arrival, known = int(self._arrival[submission]), int(self._submitted[submission])
        if self._before[submission]:
            first = int(self._round[0]) if len(self._round) else submitted
            known = self._starts(first)
            marks = [(min(arrival, known), BEFORE_SLICE, first), (known, UNKNOWN, first)]
        else:
            marks = [(min(arrival, known), AT_ENGINE, submitted), (known, BEFORE_PLAN, submitted)]
        marks += [(self._starts(round_), cause, round_) for round_, cause in sorted(by_round.items())]
        if len(self._round) and facts.last_round < self._round[-1]:
            unknown = facts.last_round + 1
            marks.append((max(marks[-1][0], self._starts(unknown)), UNKNOWN, unknown))
        return marks

    def _starts(self, round_: int) -> int:
        position = int(np.searchsorted(self._round, round_))
        return int(self._start[position]) if position < len(self._start) else self._end_of_trace

    def _again(self, submission: int, known: dict[int, str]) -> dict[int, str]:
        """Return the cause of every row of a request that was retracted: again where it computed nothing new."""
        if d.RETRACTED not in known.values() and not len(self._facts.life.runtime_retracts):
            return {}
        life, last = self._facts.life, self._facts.last_round
        highest, said = 0, dict[int, str]()
        for row in life.rows_until(submission, last).tolist():
            begin, (round_, until) = int(life.op_begin[row]), life.row_rounds(row, last)
            if begin < 0:
                said[round_] = d.SCHEDULED
                continue
            landed = int(life.landed(np.array([submission], np.int64), round_)[0])
            highest = max(highest, int(life.prompt[submission]) + landed - 1 if landed else 0)
            end = begin + int(life.op_input[row])
            said[round_] = AGAIN if end <= highest else d.SCHEDULED
            if until > round_:  # of a large trace: the same chunk in each round of a span
                said[round_ + 1] = AGAIN
            highest = max(highest, end)
        return said
