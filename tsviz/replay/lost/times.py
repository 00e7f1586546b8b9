"""The marks of every request on the clock of its part: where a cause begins to hold, and in whose way it is."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tsviz.replay.rows.lifetimes import ENDS, Longs, among, column
from tsviz.replay.rows.rows_from import pieces, some
from tsviz.replay.why.chain import in_the_way
from tsviz.replay.why.facts import Facts
from tsviz.scheduler import decisions as d

from .model import (
    AFTER,
    AGAIN,
    AT_ENGINE,
    BEFORE_PLAN,
    BEFORE_SLICE,
    CUT_OFF,
    OPEN,
    TPOT,
    TTFT,
    UNKNOWN,
    Held,
    Lost,
    Run,
)


class _Mark(NamedTuple):
    since_ns: int
    cause: str
    round: int
    by_verdict: bool = False


class _Running:
    """The run that goes on while the same thing holds."""

    def __init__(self) -> None:
        self._of: object = None
        self._run = Run(0, 0, 0)

    def goes_on(self, of: object, who: str, first: int, last: int, held_ns: int) -> Run:
        """Return the run that the next stretch of time belongs to, that stretch included."""
        before = self._run if of == self._of else Run(first, last, 0, who)
        self._of, self._run = of, Run(before.first_round, last, before.time_ns + held_ns, before.behind)
        return self._run


class Times:
    """Marks of all requests on the part's clock."""

    def __init__(self, facts: Facts) -> None:
        """Read the times of one part. Raises `TraceError`."""
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
        self._finished = np.zeros(life.count, np.bool_)
        ended: Longs = np.full(life.count, np.iinfo(np.int64).max)
        for events in pieces(part, "events", ("round", "kind", "applied", "token_count", "submission", "call_seq")):
            applied = np.array(events["applied"].to_numpy(zero_copy_only=False), np.bool_)
            tokens = np.where(applied, column(events, "token_count"), 0).astype(np.int64)
            owner = column(events, "submission").astype(np.int64)
            ends = applied & among(events, "kind", ENDS) & (owner >= 0)
            self._finished[owner[applied & among(events, "kind", ("finish",)) & (owner >= 0)]] = True
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
        name, marks = self._facts.life.names[submission], self._marks(submission)
        arrival, first, last, ended = (
            int(t[submission]) for t in (self._arrival, self._first, self._last, self._ended)
        )
        if first < 0:
            phase = OPEN if ended < 0 else CUT_OFF
            end = max(arrival, self._end_of_trace if ended < 0 else ended)
            return [self._split(Lost(name, submission, phase, arrival, end, 0, {}), marks)]
        found = [self._split(Lost(name, submission, TTFT, arrival, first, 1, {}), marks)]
        later = int(self._tokens[submission] - self._first_tokens[submission])
        if later:
            found.append(self._split(Lost(name, submission, TPOT, first, last, later, {}), marks))
        end = last if self._finished[submission] else max(last, ended if ended >= 0 else self._end_of_trace)
        if end > last:
            found.append(self._split(Lost(name, submission, AFTER, last, end, 0, {}), marks))
        return found

    def _split(self, lost: Lost, marks: list[_Mark]) -> Lost:
        """Fill in how much of the span each cause held (the sum is the span), its longest run, and who was in the way.

        Who is in the way is asked once for each mark of the span.
        """
        begin, end = lost.begin_ns, lost.end_ns
        by_cause, by_who = _Running(), _Running()
        for (since, cause, round_, by_verdict), (until, _, after, _) in zip(
            marks, [*marks[1:], _Mark(end, "", 0)], strict=True
        ):
            held = min(until, end) - max(since, begin)
            if held <= 0:
                continue
            who = in_the_way(self._facts, lost.submission, round_) if by_verdict else ""
            first = self._round_at(begin, round_) if since < begin else round_
            last = max(after - 1, round_) if until <= end and after else self._round_at(end, round_)
            lost.causes[cause] = lost.causes.get(cause, 0) + held
            run = by_cause.goes_on(cause, who, first, last, held)
            if cause not in lost.longest or run.time_ns > lost.longest[cause].time_ns:
                lost.longest[cause] = run
            run = by_who.goes_on((cause, who), who, first, last, held)
            if who:
                one = lost.behind.setdefault((cause, who), Held(0, run))
                one.time_ns += held
                if run.time_ns > one.longest.time_ns:
                    one.longest = run
        return lost

    def _round_at(self, time_ns: int, least: int) -> int:
        """Return the last round that began before a moment, `least` at least."""
        position = int(np.searchsorted(self._start, time_ns))
        return max(least, int(self._round[position - 1]) if position else least)

    def _marks(self, submission: int) -> list[_Mark]:
        """Return the marks of a request in order of time: a cause holds from its mark to the next."""
        facts = self._facts
        by_round = {v.since_round: v.cause for v in facts.verdicts(submission, facts.last_round)}
        rows = self._again(submission, by_round)
        by_round |= rows
        submitted = int(facts.life.submitted[submission])
        arrival, known = int(self._arrival[submission]), int(self._submitted[submission])
        if self._before[submission]:
            first = int(self._round[0]) if len(self._round) else submitted
            known = self._starts(first)
            marks = [_Mark(min(arrival, known), BEFORE_SLICE, first), _Mark(known, UNKNOWN, first)]
        else:
            marks = [_Mark(min(arrival, known), AT_ENGINE, submitted), _Mark(known, BEFORE_PLAN, submitted)]
        marks += [
            _Mark(self._starts(round_), cause, round_, round_ not in rows) for round_, cause in sorted(by_round.items())
        ]
        if len(self._round) and facts.last_round < self._round[-1]:
            unknown = facts.last_round + 1
            marks.append(_Mark(max(marks[-1].since_ns, self._starts(unknown)), UNKNOWN, unknown))
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
