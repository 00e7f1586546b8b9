"""Which request each recorded retraction took, as far as the recording tells.

A plan of the real scheduler does not name its victims; the recording holds how many there were (table `rounds`), where
each request's tables start anew, and the pages that a stream-ordered store saved. A victim has no result in flight and
no further row before it starts anew or ends; where that leaves several, stores that read a candidate's pages and then
the order of victims (scheduler-rules.md, section 8.2) decide, with held pages for releasable blocks. Re-execution by
the twin names the victims for certain; this view says what the recording alone supports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tsviz.replay.rows.lifetimes import NEVER, Lifetimes, Longs, keys

from .lives import Lives

_ROUND = 0xFFFF_FFFF
SAFE_TOKENS = 4096
"""Generation that the reserve of a first admission covers at most (scheduler-rules.md, section 0.1)."""

Held = frozenset[tuple[int, int]]
Counts = Callable[[Longs, int], Longs]
"""Returns a number per submission, of a round."""


@dataclass(frozen=True, slots=True)
class Absence:
    """A request without pages: taken in round `since`, until round `back`, in which it was admitted again, ended or was
    retracted by the runtime as well (NEVER if nothing came).
    """

    submission: int
    since: int
    back: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What can be said of retractions up to a round whatever comes behind: nobody that they may have taken is away
    still.
    """

    round: int = 0
    found: tuple[Absence, ...] = ()
    pauses: tuple[tuple[int, int], ...] = ()
    """The pause that explains each, by submission and round in front of it."""


@dataclass(frozen=True, slots=True)
class _Pauses:
    """Requests between two of their rows, or behind their last, in order of `since`: behind that round, before `until`.

    `certain`: the row at `until` starts anew, so it was retracted in between. `rows` are those since the last start,
    and `results` those that had come in by then.
    """

    submission: Longs
    since: Longs
    until: Longs
    certain: npt.NDArray[np.bool_]
    rows: Longs
    results: Longs


def absences(
    life: Lifetimes | Lives, retracted: Mapping[int, int], held_at: Counts, shared_at: Counts,
    before: Settled = Settled(),
) -> tuple[list[Absence], Settled]:  # fmt: skip
    """Match retractions to requests; return also what of that is settled.

    `retracted`: count by round; `held_at`: how many pages requests held behind the plan of a round, `shared_at`: how
    many of those were read by stream-ordered stores of the round behind it. `before`: what was settled of fewer rounds.
    """
    rounds = sorted(round_ for round_ in retracted if round_ > before.round)
    starts = keys(life.start_submission, life.start_round)
    pauses = _pauses(life, starts, np.array(rounds, np.int64), before)
    names = _name_order(life, pauses.submission)
    explained, found = list(before.pauses), list(before.found)
    settled_to, settled = before.round, len(found)
    taken = np.bincount([absence.submission for absence in found], minlength=life.count)
    waiting, come, settles = np.zeros(0, np.int64), 0, True
    for index, round_ in enumerate(rounds):
        following = rounds[index + 1] if index + 1 < len(rounds) else NEVER
        more = int(np.searchsorted(pauses.since, round_))
        waiting = np.append(waiting, np.arange(come, more))
        waiting, come = waiting[pauses.until[waiting] > round_], more
        may = _candidates(life, pauses, waiting, taken, round_)
        if len(may):
            submissions = pauses.submission[may]
            last_chance = pauses.certain[may] & (pauses.until[may] <= following)
            shared = shared_at(submissions, round_)
            ranks = _ranks(life, submissions, round_, held_at(submissions, round_ - 1), names)
            order = np.lexsort((*ranks[::-1], -shared, ~last_chance))[: retracted[round_]]
            for pause in may[order].tolist():
                submission, since = int(pauses.submission[pause]), int(pauses.since[pause])
                taken[submission] += 1
                explained.append((submission, since))
                found.append(Absence(submission, round_, int(pauses.until[pause])))
            waiting = waiting[~np.isin(waiting, may[order])]
            settles &= bool((pauses.until[may] != NEVER).all())
        if settles:
            settled_to, settled = round_, len(found)
    return found + _runtime(life, starts), Settled(settled_to, tuple(found[:settled]), tuple(explained[:settled]))


def shared_with(saved: Mapping[int, Held], held: Callable[[int, int], Held]) -> Counts:
    """Return what counts the pages of requests that stores of a round read.

    `saved` are the (group, page) pairs that they read, by round; `held(submission, round)` those of a request.
    """

    def shared(submissions: Longs, round_: int) -> Longs:
        stored = saved.get(round_, frozenset())
        return np.array([len(held(s, round_ - 1) & stored) if stored else 0 for s in submissions.tolist()], np.int64)

    return shared


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


def _runtime(life: Lifetimes | Lives, starts: Longs) -> list[Absence]:
    """Retractions that the runtime asked for; those are recorded as events."""
    found = []
    for key in life.runtime_retracts.tolist():
        back = int(np.searchsorted(starts, key))
        there = back < len(starts) and starts[back] >> 32 == key >> 32
        found.append(Absence(key >> 32, key & _ROUND, int(starts[back]) & _ROUND if there else NEVER))
    return found


def _pauses(life: Lifetimes | Lives, starts: Longs, rounds: Longs, before: Settled) -> _Pauses:
    """Return the stretches in which a request may have been retracted, of those that have one of the rounds in them."""
    again = np.flatnonzero(life.start_submission[1:] == life.start_submission[:-1]) + 1
    restarted, backs = life.start_submission[again].astype(np.int64), life.start_round[again].astype(np.int64)
    everyone = np.flatnonzero(life.accepted).astype(np.int64)
    submission = np.append(restarted, everyone)
    since = np.append(life.op_rows.last_round(restarted, backs - 1), life.op_rows.last_round(everyone, _ROUND))
    until, certain = _cut(life, submission, since, np.append(backs, life.end_round[everyone]), len(again))
    some = (since >= 0) & (np.searchsorted(rounds, since, "right") < np.searchsorted(rounds, until))
    explained = set(before.pauses)
    pairs = zip(submission.tolist(), since.tolist(), strict=True)
    chosen = np.array([at for at, pair in enumerate(pairs) if some[at] and pair not in explained], np.int64)
    chosen = chosen[np.argsort(since[chosen], kind="stable")]
    submission, since, until, certain = submission[chosen], since[chosen], until[chosen], certain[chosen]
    at = np.searchsorted(starts, submission << 32 | since, side="right") - 1
    mine = (at >= 0) & (starts[at] >> 32 == submission) if len(starts) else np.zeros(len(at), np.bool_)
    start = np.where(mine, starts[at] & _ROUND, 0) if len(starts) else np.zeros(len(at), np.int64)
    rows = life.forward_rows.amount(submission, since) - life.forward_rows.amount(submission, start - 1)
    return _Pauses(submission, since, until, certain, rows, life.result_rows.amount(submission, start))


def _cut(
    life: Lifetimes | Lives, submission: Longs, since: Longs, until: Longs, certain: int
) -> tuple[Longs, npt.NDArray[np.bool_]]:
    """End pauses at the first retraction by the runtime in each, which explains a restart behind it.

    The first pauses are `certain`; returned is also which are.
    """
    retracts, base = life.runtime_retracts, submission << 32
    sure = np.arange(len(submission)) < certain
    if not len(retracts):
        return until, sure
    position = np.searchsorted(retracts, base + np.maximum(since, 0), side="right")
    first = retracts[np.minimum(position, len(retracts) - 1)]
    cut = (position < len(retracts)) & (first <= base + np.minimum(until, _ROUND))
    return np.where(cut, first & _ROUND, until), sure & ~cut


def _candidates(life: Lifetimes | Lives, pauses: _Pauses, waiting: Longs, taken: Longs, round_: int) -> Longs:
    """Return which pauses a retraction may explain: no result is in flight, and the request can be a victim."""
    submission = pauses.submission[waiting]
    quiet = pauses.rows[waiting] <= life.result_rows.amount(submission, round_) - pauses.results[waiting]
    waiting, submission = waiting[quiet], submission[quiet]
    row = life.op_rows.last(submission, round_ - 1)
    kind, declared = life.op_kind[row], life.max_new[submission]
    remaining = np.maximum(0, declared - (life.op_prefill[row] - life.prompt[submission]))
    safe = (declared > 0) & (SAFE_TOKENS * (1 + taken[submission]) >= remaining)
    remote = (kind == "remote_decode") | ((kind == "remote_prefill") & (life.remote_done[submission] > round_))
    found: Longs = waiting[~(safe | remote)]
    return found


def _ranks(life: Lifetimes | Lives, submission: Longs, round_: int, held: Longs, names: Longs) -> tuple[Longs, ...]:
    """Return the places of requests in the order of victims, as columns, lower first."""
    row = life.op_rows.last(submission, round_ - 1)
    tokens = life.prompt[submission] + life.landed(submission, round_)
    prefill = (life.op_kind[row] == "prefill") & (life.op_begin[row] + life.op_input[row] < life.op_prefill[row])
    first, second = np.where(prefill, -tokens, -held), np.where(prefill, submission, tokens)
    return (~prefill).astype(np.int64), first, second, np.where(prefill, 0, names[submission])


def _name_order(life: Lifetimes | Lives, submissions: Longs) -> Longs:
    """Return, per submission, the place of its name among those of some submissions; equal names have equal places."""
    encoded = {int(s): life.names[s].encode("utf-8", "surrogatepass") for s in np.unique(submissions)}
    places = {name: place for place, name in enumerate(sorted(set(encoded.values())))}
    order = np.zeros(life.count, np.int64)
    for submission, name in encoded.items():
        order[submission] = places[name]
    return order
