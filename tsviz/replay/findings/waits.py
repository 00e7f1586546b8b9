"""Findings of requests that wait although they were served before: decodes behind prefills, and failed transfers."""

from __future__ import annotations

import numpy as np

from tsviz.replay.rows.lifetimes import NEVER, PerRequest, among, column, words
from tsviz.replay.rows.rows_from import pieces, some
from tsviz.replay.scenario.predicates import Absent
from tsviz.replay.why.tree import counted
from tsviz.scheduler import decisions as d
from tsviz.trace import entries as e

from .model import Ended, Subject, found, listed

_BEHIND_PREFILLS = (d.PREFILL_ONLY, d.HOLDBACK)


def decodes_wait(subject: Subject, rounds: int) -> Ended:
    """Judge: a request that had been prefilled got no row for more than `rounds` rounds because prompts were prefilled.

    Outside mixed mode a decode gets the round only when no prefill is scheduled; in mixed mode decodes leave budget to
    a prefill that is pending.
    """
    facts = subject.facts
    assert facts is not None
    verdicts = some(facts.decided, "verdicts", ("submission", "round", "cause"))
    rows = PerRequest(column(verdicts, "submission"), column(verdicts, "round"))
    owner, first = rows.keys >> 32, rows.keys & 0xFFFF_FFFF
    ends = facts.life.end_round[owner].astype(np.int64) if len(owner) else owner
    last = np.where(ends == NEVER, facts.last_round, np.minimum(ends - 1, facts.last_round))
    same = owner[1:] == owner[:-1]
    last[:-1] = np.where(same, first[1:] - 1, last[:-1])
    waits = among(verdicts, "cause", _BEHIND_PREFILLS)[rows.order] & (last >= first)
    begins = waits.copy()
    begins[1:] &= ~(waits[:-1] & same)
    closes = waits.copy()
    closes[:-1] &= ~(waits[1:] & same)
    starts, stops = first[begins], last[closes]
    lengths = stops - starts + 1
    most = int(lengths.max(initial=0))
    if most <= rounds:
        return Absent("decodes_wait", most, rounds)
    worst = int(lengths.argmax())
    begin, end = int(starts[worst]), int(stops[worst])
    long = owner[begins][lengths > rounds]
    names = [facts.life.names[int(s)] for s in (owner[begins][worst], *dict.fromkeys(long.tolist()))]
    who = list(dict.fromkeys(names))
    mixed = "" if facts.config["enable_mixed_prefill_decode"] else "; mixed mode is off"
    others = f"; {counted(len(who) - 1, 'other')} longer than {rounds:,} rounds" if len(who) > 1 else ""
    return found(
        "decodes_wait",
        f"decodes wait: {who[0]!r} had no row in rounds {begin:,} to {end:,} ({most:,} rounds,"
        f" {facts.elapsed_ns(begin, end) / 1e6:,.1f} ms) while prompts were prefilled{mixed}{others}",
        (begin, end), who, rounds=most, requests=len(who),
    )  # fmt: skip


def failed_transfers(subject: Subject, requests: int) -> Ended:
    """Judge: more than `requests` requests ended because the transfer of their pages to or from a peer failed."""
    sent: dict[int, int] = {}
    for operations in pieces(subject.part, "operations", ("round", "kind", "submission")):
        remote = operations.filter(among(operations, "kind", ("remote_prefill", "remote_decode")))
        sent.update(zip(column(remote, "submission").tolist(), column(remote, "round").tolist(), strict=True))
    failed: list[tuple[int, int, str]] = []
    for events in pieces(subject.part, "events", ("round", "kind", "submission", "request")):
        rows = events.filter(among(events, "kind", (e.FAILED,)))
        names = [name or "" for name in words(rows, "request")]
        failed += zip(column(rows, "round").tolist(), column(rows, "submission").tolist(), names, strict=True)
    if len(failed) <= requests:
        return Absent("failed_transfers", len(failed), requests)
    round_, submission, _ = failed[0]
    out = sent.get(submission)
    age = "before it was sent" if out is None else f"{counted(round_ - out, 'round')} after it was sent"
    who = [name for _, _, name in failed]
    return found(
        "failed_transfers",
        f"a transfer failed: {listed(who)} in front of round {round_:,}, {age}"
        if len(who) == 1
        else f"transfers failed: {listed(who)}; the first in front of round {round_:,}, {age}",
        (round_, failed[-1][0]), who, requests=len(who),
    )  # fmt: skip
