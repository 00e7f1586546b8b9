"""Which request each recorded retraction took, as far as the recording tells.

A plan of the real scheduler does not name its victims; the recording holds how many there were (table `rounds`), where
each request's tables start anew, and the pages that a stream-ordered store saved. A victim has no result in flight and
no further row before it starts anew or ends; where that leaves several, stores that read a candidate's pages and then
the order of victims (scheduler-rules.md, section 8.2) decide, with held pages for releasable blocks. Re-execution by
the twin names the victims for certain; this view says what the recording alone supports.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tsviz.replay.rows.lifetimes import NEVER, Lifetimes, Longs, keys

from .lives import Lives

Held = frozenset[tuple[int, int]]

_ROUND = 0xFFFF_FFFF
SAFE_TOKENS = 4096
"""Generation that the reserve of a first admission covers at most (scheduler-rules.md, section 0.1)."""


@dataclass(frozen=True, slots=True)
class Absence:
    """A request without pages: taken in round `since`, until round `back`, in which it was admitted again, ended or was
    retracted by the runtime as well (NEVER if nothing came).
    """

    submission: int
    since: int
    back: int


@dataclass(frozen=True, slots=True)
class _Pause:
    """A request between two of its rows, or behind its last: behind round `since`, before round `until`.

    `certain`: the row at `until` starts anew, so it was retracted in between.
    """

    submission: int
    since: int
    until: int
    certain: bool


@dataclass(frozen=True, slots=True)
class Settled:
    """What can be said of retractions up to a round whatever comes behind: nobody that they may have taken is away
    still.
    """

    round: int = 0
    found: tuple[Absence, ...] = ()
    pauses: frozenset[tuple[int, int]] = frozenset()
    """Pauses that are explained, by submission and round in front of them."""


def absences(
    life: Lifetimes | Lives,
    retracted: Mapping[int, int],
    saved: Mapping[int, Held],
    pages_at: Callable[[int, int], Held],
    count_at: Callable[[int, int], int],
    before: Settled = Settled(),
) -> tuple[list[Absence], Settled]:
    """Match retractions to requests; return also what of that is settled.

    `retracted`: count by round; `saved`: (group, page) pairs that stream-ordered stores read, by round;
    `pages_at(submission, round)`: pairs that a request held behind the plan of a round, and `count_at` how many; only
    where a store has saved something the pairs themselves are asked for. `before`: what was settled of fewer rounds.
    """
    rounds = sorted(round_ for round_ in retracted if round_ > before.round)
    explained = set(before.pauses)
    coming = [_cut(life, p) for p in _pauses(life, rounds) if (p.submission, p.since) not in explained]
    coming.sort(key=lambda pause: -pause.since)
    waiting: list[_Pause] = []
    found, settled = list(before.found), before
    taken = Counter(absence.submission for absence in found)
    open_, starts = False, keys(life.start_submission, life.start_round)
    for index, round_ in enumerate(rounds):
        stored = saved.get(round_, frozenset())
        following = rounds[index + 1] if index + 1 < len(rounds) else NEVER
        while coming and coming[-1].since < round_:
            waiting.append(coming.pop())
        waiting = [pause for pause in waiting if pause.until > round_]
        ranked = []
        for pause in waiting:
            if not _quiet(life, starts, pause, round_):
                continue
            held = count_at(pause.submission, round_ - 1)
            rank = _rank(life, pause.submission, round_, taken[pause.submission], held)
            if rank is None:
                continue
            last_chance = pause.certain and following >= pause.until
            shared = len(pages_at(pause.submission, round_ - 1) & stored) if stored else 0
            ranked.append(((not last_chance, -shared, *rank), pause))
        ranked.sort(key=lambda entry: entry[0])
        for _, pause in ranked[: retracted[round_]]:
            waiting.remove(pause)
            taken[pause.submission] += 1
            explained.add((pause.submission, pause.since))
            found.append(Absence(pause.submission, round_, pause.until))
        open_ = open_ or any(pause.until == NEVER for _, pause in ranked)
        if not open_:
            settled = Settled(round_, tuple(found), frozenset(explained))
    return found + _runtime(life, starts), settled


def _runtime(life: Lifetimes | Lives, starts: Longs) -> list[Absence]:
    """Retractions that the runtime asked for; those are recorded as events."""
    found = []
    for key in life.runtime_retracts.tolist():
        back = int(np.searchsorted(starts, key))
        there = back < len(starts) and starts[back] >> 32 == key >> 32
        found.append(Absence(key >> 32, key & _ROUND, int(starts[back]) & _ROUND if there else NEVER))
    return found


def _cut(life: Lifetimes | Lives, pause: _Pause) -> _Pause:
    """End a pause at the first retraction by the runtime in it, which explains a restart behind it."""
    keys, base = life.runtime_retracts, pause.submission << 32
    position = int(np.searchsorted(keys, base + pause.since, side="right"))
    if position == len(keys) or keys[position] > base + min(pause.until, _ROUND):
        return pause
    return _Pause(pause.submission, pause.since, int(keys[position]) & _ROUND, False)


def _pauses(life: Lifetimes | Lives, rounds: list[int]) -> list[_Pause]:
    """Return the stretches in which a request may have been retracted, of those that have one of the rounds in them."""
    again = np.flatnonzero(life.start_submission[1:] == life.start_submission[:-1]) + 1
    submissions, backs = life.start_submission[again].astype(np.int64), life.start_round[again].astype(np.int64)
    everyone = np.flatnonzero(life.accepted).astype(np.int64)
    since = np.append(life.op_rows.last_round(submissions, backs - 1), life.op_rows.last_round(everyone, _ROUND))
    until = np.append(backs, life.end_round[everyone])
    some = np.flatnonzero((since >= 0) & (np.searchsorted(rounds, since, "right") < np.searchsorted(rounds, until)))
    columns = (np.append(submissions, everyone)[some], since[some], until[some], some < len(again))
    return [_Pause(*each) for each in zip(*(values.tolist() for values in columns), strict=True)]


def _quiet(life: Lifetimes | Lives, starts: Longs, pause: _Pause, round_: int) -> bool:
    """Whether no result was in flight at the plan of a round: all rows since the last start were answered."""
    at = int(np.searchsorted(starts, pause.submission << 32 | pause.since, side="right")) - 1
    start = int(starts[at]) & _ROUND if at >= 0 and starts[at] >> 32 == pause.submission else 0
    rows = life.forward_rows.between(pause.submission, start, pause.since)
    return rows <= life.result_rows.between(pause.submission, start + 1, round_)


def _rank(
    life: Lifetimes | Lives, submission: int, round_: int, retractions: int, held: int
) -> tuple[int, int, int, bytes] | None:
    """Return the place of a request in the order of victims, lower first; None for one that cannot be a victim."""
    row = int(life.op_rows.last(np.array([submission]), round_ - 1)[0])
    kind, prompt, declared = life.op_kind[row], int(life.prompt[submission]), int(life.max_new[submission])
    remaining = max(0, declared - (int(life.op_prefill[row]) - prompt))
    if kind == "remote_prefill" and life.remote_done[submission] > round_:
        return None
    if kind == "remote_decode" or (declared > 0 and SAFE_TOKENS * (1 + retractions) >= remaining):
        return None
    tokens = prompt + int(life.landed(np.array([submission]), round_)[0])
    if kind == "prefill" and life.op_begin[row] + life.op_input[row] < life.op_prefill[row]:
        return 0, -tokens, submission, b""
    return 1, -held, tokens, life.names[submission].encode("utf-8", "surrogatepass")
