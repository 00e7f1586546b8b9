"""Findings that need decisions: who waited for what, who was retracted, what was reserved, what leaked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from tsviz.replay.rows.lifetimes import NEVER, Longs, PerRequest, column, words
from tsviz.replay.rows.rows_from import pieces, some
from tsviz.replay.scenario.predicates import Absent, waited_before
from tsviz.replay.why.facts import Facts
from tsviz.replay.why.tree import counted
from tsviz.scheduler import decisions as d

from .model import Ended, Subject, found, listed, not_on_a_slice, starts_at

_OUTSIDE = frozenset((d.SCHEDULED, d.BOOTSTRAP, d.RESULT, d.REMOTE_TRANSFER))
"""Causes that the engine or a peer ends, not another request."""


def facts_of(subject: Subject) -> Facts:
    """Return the facts of a part that has decisions; checks that need them are not run on one that has none."""
    assert subject.facts is not None
    return subject.facts


def runs(facts: Facts) -> Iterator[tuple[int, str, str, int, int]]:
    """Yield (submission, cause, holder, first round, last round) of every run of verdicts, request by request."""
    verdicts = some(facts.decided, "verdicts", ("submission", "round", "cause", "holder"))
    rows = PerRequest(column(verdicts, "submission"), column(verdicts, "round"))
    owner, since = (rows.keys >> 32).tolist(), (rows.keys & 0xFFFF_FFFF).tolist()
    causes, holders = words(verdicts, "cause"), words(verdicts, "holder")
    for index, row in enumerate(rows.order.tolist()):
        submission = owner[index]
        end = int(facts.life.end_round[submission])
        last = min(facts.last_round, end - 1 if end != NEVER else facts.last_round)
        if index + 1 < len(owner) and owner[index + 1] == submission:
            last = since[index + 1] - 1
        if last >= since[index]:
            yield submission, causes[row] or "", holders[row] or "", since[index], last


def hold(subject: Subject, rounds: int) -> Ended:
    """Judge: one incomplete prefill held the line for more than `rounds` rounds, with others behind it."""
    facts = facts_of(subject)
    behind: dict[str, list[tuple[int, int, int]]] = {}
    for submission, cause, holder, first, last in runs(facts):
        if cause == d.HEAD_OF_LINE:
            behind.setdefault(holder, []).append((first, last, submission))
    most, best = 0, ("", (0, 0), 0)
    for holder, waits in behind.items():
        for first, last in _joined(waits):
            if last - first + 1 > most:
                count = len({s for a, b, s in waits if a <= last and b >= first})
                most, best = last - first + 1, (holder, (first, last), count)
    if most <= rounds:
        return Absent("head_of_line_hold", most, rounds)
    holder, (first, last), count = best
    free = _least_empty(facts, first, last)
    return found(
        "head_of_line_hold",
        f"head of line: the incomplete prefill of {holder!r} held the line in rounds {first:,} to {last:,}; {count:,}"
        f" requests waited behind it while at least {free:,} pages were empty",
        (first, last), [holder], rounds=most, waiting_requests=count, empty_pages=free,
    )  # fmt: skip


def _joined(waits: list[tuple[int, int, int]]) -> list[tuple[int, int]]:
    """Return the stretches of rounds that some waits cover together."""
    stretches: list[tuple[int, int]] = []
    for first, last, _ in sorted(waits):
        if stretches and first <= stretches[-1][1] + 1:
            stretches[-1] = (stretches[-1][0], max(last, stretches[-1][1]))
        else:
            stretches.append((first, last))
    return stretches


def _least_empty(facts: Facts, first: int, last: int) -> int:
    rounds = some(facts.part, "rounds", ("round", "empty_pages"))
    low, high = np.searchsorted(column(rounds, "round"), (first, last + 1))
    return int(column(rounds, "empty_pages")[low:high].min(initial=facts.parents))


def repeated_retraction(subject: Subject, times: int) -> Ended:
    """Judge: one request was retracted more than `times` times."""
    facts = facts_of(subject)
    taken = [
        row
        for row in some(facts.decided, "retractions", ("round", "outcome", "victim", "blocker")).to_pylist()
        if row["outcome"] == d.RETRACTED
    ]
    often = Counter(facts.submission_of(row["victim"], row["round"]) for row in taken)
    if not often or max(often.values()) <= times:
        return Absent("repeated_retraction", max(often.values(), default=0), times)
    who = [s for s, n in sorted(often.items(), key=lambda item: (-item[1], item[0])) if n > times]
    name = facts.life.names[who[0]]
    mine = [row for row in taken if row["victim"] == name]
    own = sum(row["blocker"] == name for row in mine)
    return found(
        "repeated_retraction",
        f"repeated retraction: {name!r} was retracted {often[who[0]]:,} times ({own:,} of them for its own refusal);"
        f" {len(who):,} requests more than {times:,} times",
        (mine[0]["round"], mine[-1]["round"]), [facts.life.names[s] for s in who],
        retractions=often[who[0]], own_refusals=own, requests=len(who),
    )  # fmt: skip


def starvation(subject: Subject, overtakes: int) -> Ended:
    """Judge: while a newcomer waited for pages more than `overtakes` later requests were admitted before it."""
    facts = facts_of(subject)
    admissions, life = some(facts.decided, "admissions", ("submission", "round")), facts.life
    owner, at = column(admissions, "submission").astype(np.int64), column(admissions, "round").astype(np.int64)
    never = np.iinfo(np.int64).max
    first = np.full(life.count, never, np.int64)
    np.minimum.at(first, owner, at)
    refusals = some(facts.decided, "refusals", ("submission", "round"))
    refused = np.full(life.count, never, np.int64)
    np.minimum.at(refused, column(refusals, "submission").astype(np.int64), column(refusals, "round").astype(np.int64))
    most, best = 0, -1
    for submission in np.flatnonzero(refused < first).tolist():
        until = min(int(first[submission]), int(life.end_round[submission]), facts.last_round + 1)
        later = first[submission + 1 :]
        passed = int(((later >= refused[submission]) & (later < until)).sum())
        if passed > most:
            most, best = passed, submission
    if most <= overtakes:
        return Absent("starvation", most, overtakes)
    since = int(refused[best])
    until = min(int(first[best]), int(life.end_round[best]), facts.last_round + 1) - 1
    return found(
        "starvation",
        f"starvation: {life.names[best]!r} was refused pages from round {since:,} to {until:,}; {most:,} later requests"
        " were admitted before it",
        (since, until), [life.names[best]], overtakes=most, rounds=until - since + 1,
    )  # fmt: skip


def never_fits(subject: Subject, requests: int) -> Ended:
    """Judge: more than `requests` requests can never be scheduled under this configuration."""
    facts = facts_of(subject)
    verdicts = some(facts.decided, "verdicts", ("round", "request", "cause", "rule"))
    causes, rules = np.array(words(verdicts, "cause"), dtype=object), np.array(words(verdicts, "rule"), dtype=object)
    hopeless = (causes == d.NEVER) | ((causes == d.HOLDBACK) & rules.astype(np.bool_))
    rows = verdicts.take(np.flatnonzero(hopeless)).to_pylist()
    who = list(dict.fromkeys(row["request"] for row in rows))
    if len(who) <= requests:
        return Absent("never_fits", len(who), requests)
    return found(
        "never_fits",
        f"can never be scheduled: {listed(who)}; {rows[0]['rule']}{_with_numbers(facts, rows[0])}",
        (rows[0]["round"], rows[-1]["round"]), who, requests=len(who),
    )  # fmt: skip


def _with_numbers(facts: Facts, row: dict[str, Any]) -> str:
    """Return an inequality with the numbers that its names stand for in a round."""
    words = str(row["rule"])
    phases = [phase for phase in facts.at("phases", row["round"]) if phase["name"] == "decodes"]
    values = {"holdback": phases[0]["holdback_tokens"] if phases else 0} | facts.config
    for name in ("holdback", "decode_input_tokens", "max_scheduled_tokens", "max_batch_size"):
        words = words.replace(name, f"{int(values[name]):,}")
    return "" if words == row["rule"] else f" ({words})"


def readmission(subject: Subject, rounds: int) -> Ended:
    """Judge: a retracted request waited for more than `rounds` rounds while others finished or sent tokens.

    One that was retracted before a slice waits from its start, unless its round is known: for as long at least.
    """
    facts = facts_of(subject)
    begin = starts_at(subject.part)
    states = some(facts.decided, "states", ("submission", "round", "before", "after"))
    rows = PerRequest(column(states, "submission"), column(states, "round"))
    before, after, at = words(states, "before"), words(states, "after"), column(states, "round")
    ends = np.sort(facts.life.end_round[facts.life.end_round != NEVER])
    most, best = 0, (-1, 0, 0, 0)
    longer = []
    for index, row in enumerate(rows.order.tolist()):
        if after[row] != "Retracted":
            continue
        submission = int(rows.keys[index] >> 32)
        following = index + 1 < len(rows.keys) and int(rows.keys[index + 1] >> 32) == submission
        until = int(at[rows.order[index + 1]]) if following else facts.last_round + 1
        first = int(at[row])
        if before[row] == after[row]:  # told of the round in front of a slice
            first += 1
            longer.append(facts.life.names[submission])
        finished = int(np.searchsorted(ends, until, side="left") - np.searchsorted(ends, first, side="right"))
        others = finished or _tokens(facts, first, until, submission)
        if until - first > most and others:
            most, best = until - first, (submission, first, until - 1, finished)
    if most <= rounds:
        told = begin is None or facts.begins_told
        waits = [] if begin is None or told else [*waited_before(subject.part, begin, rounds).values()]
        if waits:
            return not_on_a_slice(
                "readmission_waits", f"whether {listed(waits)} had run before round {begin:,} is not in it"
            )
        if longer:
            lacks = f"since when {listed(longer)} had lost {'its' if len(longer) == 1 else 'their'} pages is not in it"
            return not_on_a_slice("readmission_waits", lacks)
        return Absent("readmission_waits", most, rounds)
    submission, first, last, finished = best
    name = facts.life.names[submission]
    sealed = len({s for s, cause, holder, a, b in runs(facts) if cause == d.SEALED and holder == name and a <= last
                  and b >= first})  # fmt: skip
    return found(
        "readmission_waits",
        f"a readmission waits: {name!r} was retracted {'by' if first == begin else 'in'} round {first:,} and is out"
        f" until round {last:,}, while {counted(finished, 'other')} finished; {counted(sealed, 'request')}"
        f" {'is' if sealed == 1 else 'are'} sealed behind it",
        (first, last), [name], rounds=most, finished=finished, sealed_requests=sealed,
    )  # fmt: skip


def _tokens(facts: Facts, first: int, until: int, submission: int) -> int:
    """Count tokens of other requests that landed between two rounds."""
    tokens = 0
    for events in pieces(facts.part, "events", ("round", "submission", "token_count"), first + 1, until - 1):
        tokens += int(column(events, "token_count")[column(events, "submission") != submission].sum())
    return tokens


def over_reservation(subject: Subject, percent: int) -> Ended:
    """Judge: more than `percent` of the headroom that ended admissions held was never used, and pages were refused.

    What was not used must come to a tenth of the pool.
    """
    facts = facts_of(subject)
    reserves, life = some(facts.decided, "reserves", ("submission", "round", "headroom_tokens")), facts.life
    refusals = column(some(facts.decided, "refusals", ("round",)), "round")
    refused = len(refusals)
    rows = PerRequest(column(reserves, "submission"), column(reserves, "round"))
    headroom = column(reserves, "headroom_tokens")
    ended: Longs = np.flatnonzero((life.end_round != NEVER) & (life.end_kind == "finished")).astype(np.int64)
    held = unused = 0
    waste: list[tuple[int, int]] = []
    for submission, row in zip(ended.tolist(), rows.last(ended, facts.last_round).tolist(), strict=True):
        tokens = int(headroom[row]) if row >= 0 else 0
        if not tokens:
            continue
        one = np.array([submission], np.int64)
        since = int(column(reserves, "round")[row])
        used = int(life.landed(one, int(life.end_round[submission]))[0] - life.landed(one, since)[0])
        held, unused = held + tokens, unused + max(0, tokens - used)
        waste.append((max(0, tokens - used), submission))
    block = min(int(group["block_granularity"]) for group in facts.config["cache_groups"])
    if not refused or unused * _WORTH < block * facts.parents or 100 * unused <= percent * held:
        return Absent("over_reservation", min(percent, 100 * unused // held) if held else 0, percent)
    waste.sort(key=lambda w: (-w[0], w[1]))
    who = [life.names[s] for tokens, s in waste if tokens]
    return found(
        "over_reservation",
        f"headroom over-reservation: {unused:,} of {held:,} tokens of headroom ({100 * unused / held:.1f} %) were not"
        f" used by the requests that held them, while {refused:,} admissions were refused; most by {listed(who[:3])}",
        (int(refusals[0]), int(refusals[-1])), who, headroom_tokens=held, unused_tokens=unused, refusals=refused,
    )  # fmt: skip


_WORTH = 10
"""Unused headroom below this part of the pool is no finding."""


def leak(subject: Subject, blocks: int) -> Ended:
    """Judge: more than `blocks` blocks are gone when nothing is active and no operation is out."""
    facts = facts_of(subject)
    pool = some(facts.decided, "pool", ("round", "item", "group", "active_blocks", "available_blocks"))
    idle = (column(pool, "active_blocks") == 0) & (column(pool, "group") == 0)
    missing = facts.parents - column(pool, "available_blocks")
    for row in np.flatnonzero(idle & (missing > blocks)).tolist():
        round_, item = int(column(pool, "round")[row]), int(column(pool, "item")[row])
        if facts.open_tickets(round_, item) > 0:
            continue
        gone = int(missing[row])
        if (first := starts_at(subject.part)) is not None and not facts.begins_told:
            lacks = f"an operation from before round {first:,} may hold the {gone:,} blocks missing in {round_:,}"
            return not_on_a_slice("leak", lacks)
        return found(
            "leak",
            f"leak: in round {round_:,} no request is active and no operation is out, yet {gone:,} of"
            f" {facts.parents:,} blocks cannot be had",
            (round_, round_), [], blocks=gone, total_blocks=facts.parents,
        )  # fmt: skip
    return Absent("leak", 0, blocks)
