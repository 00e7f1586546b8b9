"""Which request each recorded retraction took, as far as the recording tells.

A plan of the real scheduler does not name its victims; the recording holds how many there were (table `rounds`), where
each request's tables start anew, and the pages that a stream-ordered store saved. A restart needs one retraction
between the request's last row and itself; stores that read pages of exactly one candidate settle most, and the rest is
matched in order of the deadline. Re-execution by the twin names the victims for certain; this view says what the
recording alone supports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from .lifetimes import NEVER, Lifetimes


@dataclass(frozen=True, slots=True)
class Absence:
    """A request without pages: taken in round `since`, admitted again in round `back` (NEVER if it was not)."""

    submission: int
    since: int
    back: int


def absences(
    life: Lifetimes,
    retracted: Mapping[int, int],
    saved: Mapping[int, frozenset[tuple[int, int]]],
    pages_at: Callable[[int, int], frozenset[tuple[int, int]]],
) -> list[Absence]:
    """Match retractions to requests.

    `retracted`: count by round; `saved`: (group, page) pairs that stream-ordered stores read, by round;
    `pages_at(submission, round)`: pairs that a request held behind the plan of a round.
    """
    waiting = [*_restarts(life), *_never_back(life)]
    found: list[Absence] = []
    for round_, count in sorted(retracted.items()):
        candidates = [a for a in waiting if a.since < round_ < a.back]
        stored = saved.get(round_, frozenset())
        chosen = []
        if stored:
            held = {a: pages_at(a.submission, round_ - 1) for a in candidates}
            chosen = [a for a in candidates if held[a] & stored]
            chosen.sort(key=lambda a: -len(held[a] & stored))
        rest = sorted((a for a in candidates if a not in chosen and a.back != NEVER), key=lambda a: a.back)
        for absence in (chosen + rest)[:count]:
            waiting.remove(absence)
            found.append(Absence(absence.submission, round_, absence.back))
    for key in life.runtime_retracts.tolist():
        submission, round_ = key >> 32, key & 0xFFFF_FFFF
        backs = life.start_round[(life.start_submission == submission) & (life.start_round >= round_)]
        found.append(Absence(submission, round_, int(backs[0]) if len(backs) else NEVER))
    return found


def _restarts(life: Lifetimes) -> list[Absence]:
    again = np.flatnonzero(life.start_submission[1:] == life.start_submission[:-1]) + 1
    restarts = []
    for index in again.tolist():
        submission, back = int(life.start_submission[index]), int(life.start_round[index])
        rounds = life.op_rows.rounds(submission)
        before = rounds[rounds < back]
        restarts.append(Absence(submission, int(before[-1]) if len(before) else 0, back))
    return restarts


def _never_back(life: Lifetimes) -> list[Absence]:
    """Requests that had rows and were still there when the recording stopped."""
    alive = np.flatnonzero(life.accepted & (life.end_round == NEVER))
    last = life.op_rows.last(alive.astype(np.int64), 0xFFFF_FFFF)
    return [Absence(int(s), int(life.op_round[row]), NEVER) for s, row in zip(alive, last, strict=True) if row >= 0]
