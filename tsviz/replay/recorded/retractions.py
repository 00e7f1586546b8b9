"""Which request each recorded retraction took, as far as the recording tells.

A plan of the real scheduler does not name its victims; the recording holds how many there were (table `rounds`), where
each request's tables start anew, and the pages that a stream-ordered store saved. A victim has no result in flight and
no further row before it starts anew or ends; where that leaves several, stores that read a candidate's pages and then
the order of victims (scheduler-rules.md, section 8.2) decide, with held pages for releasable blocks. Re-execution by
the twin names the victims for certain; this view says what the recording alone supports.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tsviz.replay.rows.lifetimes import NEVER, Lifetimes, Longs

from .lives import Lives

Held = frozenset[tuple[int, int]]

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


def absences(
    life: Lifetimes | Lives,
    retracted: Mapping[int, int],
    saved: Mapping[int, Held],
    pages_at: Callable[[int, int], Held],
    count_at: Callable[[int, int], int],
) -> list[Absence]:
    """Match retractions to requests.

    `retracted`: count by round; `saved`: (group, page) pairs that stream-ordered stores read, by round;
    `pages_at(submission, round)`: pairs that a request held behind the plan of a round, and `count_at` how many; only
    where a store has saved something the pairs themselves are asked for.
    """
    runtime = _runtime(life)
    coming = sorted((_cut(life, pause) for pause in _pauses(life)), key=lambda pause: -pause.since)
    waiting: list[_Pause] = []
    rounds = sorted(retracted)
    found: list[Absence] = []
    taken: dict[int, int] = {}
    for index, round_ in enumerate(rounds):
        stored = saved.get(round_, frozenset())
        following = rounds[index + 1] if index + 1 < len(rounds) else NEVER
        while coming and coming[-1].since < round_:
            waiting.append(coming.pop())
        waiting = [pause for pause in waiting if pause.until > round_]
        ranked = []
        for pause in waiting:
            if not _quiet(life, pause, round_):
                continue
            held = count_at(pause.submission, round_ - 1)
            rank = _rank(life, pause.submission, round_, taken.get(pause.submission, 0), held)
            if rank is None:
                continue
            last_chance = pause.certain and following >= pause.until
            shared = len(pages_at(pause.submission, round_ - 1) & stored) if stored else 0
            ranked.append(((not last_chance, -shared, *rank), pause))
        ranked.sort(key=lambda entry: entry[0])
        for _, pause in ranked[: retracted[round_]]:
            waiting.remove(pause)
            taken[pause.submission] = taken.get(pause.submission, 0) + 1
            found.append(Absence(pause.submission, round_, pause.until))
    return found + runtime


def before_slice(life: Lifetimes | Lives, begin: int, found: Sequence[Absence], known: Longs) -> list[Absence]:
    """Return the absences that a slice from round `begin` begins in, beside those `found`; the round is the one before.

    Who had tokens by then, and of whom no row is carried, held no pages; `known` are others of which decisions say it.
    """
    there = np.flatnonzero(life.accepted & (life.submitted < begin) & (life.end_round >= begin)).astype(np.int64)
    without = there[(life.op_rows.last(there, begin - 1) < 0) & (life.landed(there, begin - 1) > 0)]
    gone = {each.submission for each in found if each.since < begin <= each.back}
    made = []
    for submission in np.union1d(without, known).tolist():
        if submission not in gone:
            backs = life.start_round[(life.start_submission == submission) & (life.start_round >= begin)]
            back = min(int(backs[0]) if len(backs) else NEVER, int(life.end_round[submission]))
            made.append(Absence(submission, begin - 1, back))
    return made


def _runtime(life: Lifetimes | Lives) -> list[Absence]:
    """Retractions that the runtime asked for; those are recorded as events."""
    found = []
    for key in life.runtime_retracts.tolist():
        submission, round_ = key >> 32, key & 0xFFFF_FFFF
        backs = life.start_round[(life.start_submission == submission) & (life.start_round >= round_)]
        found.append(Absence(submission, round_, int(backs[0]) if len(backs) else NEVER))
    return found


def _cut(life: Lifetimes | Lives, pause: _Pause) -> _Pause:
    """End a pause at the first retraction by the runtime in it, which explains a restart behind it."""
    keys, base = life.runtime_retracts, pause.submission << 32
    position = int(np.searchsorted(keys, base + pause.since, side="right"))
    if position == len(keys) or keys[position] > base + min(pause.until, 0xFFFF_FFFF):
        return pause
    return _Pause(pause.submission, pause.since, int(keys[position]) & 0xFFFF_FFFF, False)


def _pauses(life: Lifetimes | Lives) -> list[_Pause]:
    """Return the stretches in which a request may have been retracted."""
    again = np.flatnonzero(life.start_submission[1:] == life.start_submission[:-1]) + 1
    submissions, backs = life.start_submission[again].astype(np.int64), life.start_round[again].astype(np.int64)
    before = life.op_rows.last_round(submissions, backs - 1)
    columns = zip(submissions.tolist(), before.tolist(), backs.tolist(), strict=True)
    pauses = [_Pause(submission, since, back, True) for submission, since, back in columns if since >= 0]
    everyone = np.flatnonzero(life.accepted).astype(np.int64)
    last = life.op_rows.last_round(everyone, 0xFFFF_FFFF)
    for submission, since in zip(everyone.tolist(), last.tolist(), strict=True):
        if since >= 0:
            pauses.append(_Pause(submission, since, int(life.end_round[submission]), False))
    return pauses


def _quiet(life: Lifetimes | Lives, pause: _Pause, round_: int) -> bool:
    """Whether no result was in flight at the plan of a round: all rows since the last start were answered."""
    starts = life.start_round[life.start_submission == pause.submission].tolist()
    start = starts[position - 1] if (position := bisect_right(starts, pause.since)) else 0
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
