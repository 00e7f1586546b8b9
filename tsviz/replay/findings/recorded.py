"""Findings that recorded tables alone decide: recomputation, cache hits, acknowledgements, ranks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.replay.diff.compare import diff_ranks, first_to_disagree
from tsviz.replay.rows.lifetimes import among, column, words
from tsviz.replay.rows.rows_from import pieces, some
from tsviz.replay.scenario.predicates import NAMED, Absent, Tables, head_of_line, waited_before
from tsviz.scheduler.states import BOOTSTRAPPING, STATE_NAMES, SUBMITTED
from tsviz.trace import entries as e

from .model import Ended, NotApplicable, Subject, found, listed, not_on_a_slice, starts_at

_LIMITS = Limits(memory_bytes=1 << 29, threads=1, seconds=60.0, rows=1 << 16)


@dataclass(frozen=True, slots=True)
class _Run:
    name: str
    parts: tuple[Tables, ...]


def ask(subject: Subject, sql: str) -> list[dict[str, Any]]:
    """Ask the catalog over one part. Raises QueryError."""
    locked = Locked(Catalog([_Run("run", (subject.part,))]), _LIMITS)
    try:
        rows: list[dict[str, Any]] = locked.query(sql)[0].to_pylist()
    finally:
        locked.close()
    return rows


def named(name: str, subject: Subject, threshold: int) -> Ended:
    """Judge a named predicate (`predicates.NAMED`)."""
    first = starts_at(subject.part)
    if name == "head_of_line" and first is not None:
        return _head_of_line_of_a_slice(subject, first, threshold)
    return NAMED[name].judge(subject.part, threshold)


def _head_of_line_of_a_slice(subject: Subject, first: int, threshold: int) -> Ended:
    """Judge a slice: who had run before it, only decisions tell, by the states at its start."""
    part, facts = subject.part, subject.facts
    waits = waited_before(part, first, threshold)
    if facts is not None and facts.begins_told:
        return head_of_line(part, threshold, [s for s in waits if facts.state(s, first, 0) in _NEW])
    ended = head_of_line(part, threshold)
    if not waits or not isinstance(ended, Absent):
        return ended
    lacks = f"whether {listed([*waits.values()])} ran before round {first:,} is not in it, and decisions are not known"
    return not_on_a_slice("head_of_line", lacks)


_NEW = (STATE_NAMES[BOOTSTRAPPING], STATE_NAMES[SUBMITTED])
"""States of a request that had no row yet."""


TAX_SQL = "SELECT restarts, requests, computed_tokens, recomputed_tokens FROM recompute_tax"
TAXED_SQL = """
SELECT request, sum(recomputed_tokens)::BIGINT AS tokens, min(round) AS first_round, max(round) AS last_round
FROM prefill_steps WHERE recomputed_tokens > 0 GROUP BY request ORDER BY tokens DESC, request"""


def recompute_tax(subject: Subject, percent: int) -> Ended:
    """Judge: more than `percent` of all prefilled positions had been computed before.

    A slice that does not show it may lack the rows before it that computed the positions first: it is not checkable.
    Of one that does, what is known to have been computed before is the least.
    """
    rows = ask(subject, TAX_SQL)
    computed, again = (rows[0]["computed_tokens"], rows[0]["recomputed_tokens"]) if rows else (0, 0)
    at_least = again is None
    if again is None:
        again = sum(row["tokens"] for row in ask(subject, TAXED_SQL))
    if not computed or 100 * again <= percent * computed:
        if (first := starts_at(subject.part)) is not None:
            lacks = f"what was computed before round {first:,} is not in it, so that more may have been computed again"
            return not_on_a_slice("recompute_tax", lacks)
        return Absent("recompute_tax", 100 * again // computed if computed else 0, percent)
    who = ask(subject, TAXED_SQL)
    names = [row["request"] for row in who]
    span = (min(row["first_round"] for row in who), max(row["last_round"] for row in who))
    return found(
        "recompute_tax",
        f"recompute tax: {'at least ' if at_least else ''}{again:,} of {computed:,} prefilled positions"
        f" ({100 * again / computed:.1f} %) had been"
        f" computed before, most by {listed(names[:3])}",
        span, names, recomputed_tokens=again, computed_tokens=computed, restarts=rows[0]["restarts"],
    )  # fmt: skip


def low_hit_rate(subject: Subject, percent: int) -> Ended:
    """Judge: more than `percent` of the prefixes that earlier prompts had in common were not found in the cache.

    Possible is the longest run of whole prefix pages, from the front, of a prompt that began to run in an earlier
    round, less the token that is always computed. Generated tokens are left out: the real possible rate may be higher.
    Prompts must have at least a tenth of their tokens in common. Of a slice the earlier prompts are not known.
    """
    part = subject.part
    if (since := starts_at(part)) is not None:
        return not_on_a_slice("low_hit_rate", f"prompts that began to run before round {since:,} are not in it")
    steps = ask(
        subject, "SELECT submission, round, start_tokens FROM prefill_steps WHERE first ORDER BY round, submission"
    )
    first = {row["submission"]: row for row in steps}
    pages = part.table("submissions")["pages"].to_pylist()
    prompts = column(part.table("submissions"), "prompt_tokens").tolist()
    names = words(part.table("submissions"), "request")
    prefixes: dict[tuple[int, int], int] = {}
    missed: list[tuple[int, int]] = []
    hit = possible = 0
    for _, together in groupby(steps, key=lambda row: row["round"]):
        batch = [row["submission"] for row in together]
        for submission in batch:
            most = max(0, prompts[submission] - 1) // part.prefix_tokens
            reach = min(_known(prefixes, pages[submission]), most) * part.prefix_tokens
            got = min(first[submission]["start_tokens"], reach)
            possible, hit = possible + reach, hit + got
            if reach > got:
                missed.append((reach - got, submission))
        for submission in batch:
            node = 0
            for page in pages[submission]:
                node = prefixes.setdefault((node, page), len(prefixes) + 1)
    total = sum(prompts[s] for s in first)
    if not possible or 100 * possible < _WORTH_PERCENT * total:
        return Absent("low_hit_rate", 0, percent)
    lost = 100 * (possible - hit) // possible
    if lost <= percent:
        return Absent("low_hit_rate", lost, percent)
    missed.sort(key=lambda m: (-m[0], m[1]))
    who = [names[s] or "" for _, s in missed]
    rounds = [first[s]["round"] for _, s in missed]
    return found(
        "low_hit_rate",
        f"low hit rate: {hit:,} of {possible:,} tokens that earlier prompts had in common were found in the cache"
        f" ({100 * hit / possible:.1f} %; {100 * possible / total:.1f} % of all prompt tokens were possible); most"
        f" missed by {listed(who[:3])}",
        (min(rounds), max(rounds)), who, hit_tokens=hit, possible_tokens=possible, prompt_tokens=total,
    )  # fmt: skip


def _known(prefixes: dict[tuple[int, int], int], pages: list[int]) -> int:
    """Return how many pages from the front are known."""
    node = 0
    for count, page in enumerate(pages):
        following = prefixes.get((node, page))
        if following is None:
            return count
        node = following
    return len(pages)


_WORTH_PERCENT = 10
"""Prompts must have at least this part in common for their hit rate to be a finding."""


def acknowledgement(subject: Subject, rounds: int) -> Ended:
    """Judge: a copy or a peer's answer is out at the end for more than `rounds` rounds.

    And for longer than three times the slowest of its kind (copies, peers) that was answered.
    """
    part = subject.part
    numbers = column(some(part, "rounds", ("round",)), "round").astype(np.int64)
    if not len(numbers):
        return Absent("acknowledgement_missing", 0, rounds)
    last = int(numbers[-1])
    out, slowest = _open_operations(subject), _slowest(subject)
    peers, slowest_peer = _open_peers(subject)
    late = [(last - since, what, since, name) for what, since, name in out if last - since > max(rounds, 3 * slowest)]
    late += [(last - since, what, since, name) for what, since, name in peers
             if last - since > max(rounds, 3 * slowest_peer)]  # fmt: skip
    if not late:
        most = max((last - since for _, since, _ in (*out, *peers)), default=0)
        return Absent("acknowledgement_missing", min(most, rounds), rounds)
    late.sort(key=lambda found_: (-found_[0], found_[1]))
    age, what, since, _ = late[0]
    return found(
        "acknowledgement_missing",
        f"acknowledgement never came: {len(late):,} are out at the end; {what} since round {since:,}, {age:,} rounds",
        (min(entry[2] for entry in late), last), [name for _, _, _, name in late if name],
        outstanding=len(late), oldest_rounds=age, slowest_answered_rounds=max(slowest, slowest_peer),
    )  # fmt: skip


def _open_operations(subject: Subject) -> list[tuple[str, int, str]]:
    """Return the copies without an acknowledgement: in words, since which round, and no request."""
    every = pieces(subject.part, "events", ("round", "kind", "op_id"))
    answered = [column(events, "op_id")[among(events, "kind", _ACKNOWLEDGED)] for events in every]
    done = np.concatenate([np.zeros(0, np.int64), *answered])
    out: dict[int, tuple[str, int, str]] = {}
    for transfers in pieces(subject.part, "transfers", ("round", "op_id", "kind")):
        begun, first = np.unique(column(transfers, "op_id"), return_index=True)
        rows = transfers.take(first[~np.isin(begun, done)])
        each = zip(column(rows, "op_id").tolist(), column(rows, "round").tolist(), words(rows, "kind"), strict=True)
        for op, since, kind in each:
            out.setdefault(op, (f"operation {op} ({kind or ''})", since, ""))
    return [out[op] for op in sorted(out)]


def _slowest(subject: Subject) -> int:
    slowest = 0
    for events in pieces(subject.part, "events", ("round", "kind", "cause_round")):
        cause, round_ = column(events, "cause_round").astype(np.int64), column(events, "round").astype(np.int64)
        ages = (round_ - cause)[among(events, "kind", _ACKNOWLEDGED) & (cause >= 0)]
        slowest = max(slowest, int(ages.max(initial=0)))
    return slowest


def _open_peers(subject: Subject) -> tuple[list[tuple[str, int, str]], int]:
    """Return remote rows without an answer, and how many rounds the slowest answered one took."""
    remote: list[tuple[str | None, int, int, str | None]] = []
    for operations in pieces(subject.part, "operations", ("round", "kind", "submission", "request")):
        sent = operations.filter(among(operations, "kind", ("remote_prefill", "remote_decode")))
        remote += zip(words(sent, "kind"), column(sent, "submission").tolist(), column(sent, "round").tolist(),
                      words(sent, "request"), strict=True)  # fmt: skip
    if not remote:
        return [], 0
    answered: dict[int, list[int]] = {}
    for events in pieces(subject.part, "events", ("round", "kind", "submission")):
        answers = events.filter(among(events, "kind", _PEER_ANSWERS))
        landed = zip(column(answers, "submission").tolist(), column(answers, "round").tolist(), strict=True)
        for submission, round_ in landed:
            if submission >= 0:
                answered.setdefault(submission, []).append(round_)
    out, slowest = [], 0
    for kind, submission, round_, name in remote:
        later = [r for r in answered.get(submission, ()) if r > round_]
        if later:
            slowest = max(slowest, later[0] - round_)
        else:
            out.append((f"the peer's answer for {name!r} ({kind})", round_, name or ""))
    return out, slowest


_ACKNOWLEDGED = (e.WRITE_BACK_DONE, e.LOAD_BACK_DONE)
_PEER_ANSWERS = frozenset(("remote_prefill_done", "succeeded", "failed", "abort", "finish"))


def rank_divergence(subject: Subject, ranks: int) -> Ended:
    """Judge: more than `ranks` ranks of this part's node make other plans than its rank 0. Reported at rank 0."""
    fellows = [part for part in subject.bundle.parts if part.node == subject.part.node]
    if len(fellows) < 2:
        return NotApplicable("rank_divergence", f"does not apply: the trace has one rank of {subject.part.node}")
    if subject.part.rank != min(part.rank for part in fellows):
        return Absent("rank_divergence", 0, ranks)
    differ = [rank for rank in diff_ranks(subject.bundle) if rank.node == subject.part.node]
    first, apart = first_to_disagree(differ), [rank for rank in differ if rank.plans is not None]
    if first is None or first.plans is None or len(apart) <= ranks:
        return Absent("rank_divergence", len(apart), ranks)
    at = first.plans.round
    return found(
        "rank_divergence",
        f"rank divergence: {len(apart):,} of {len(fellows) - 1:,} ranks part from rank 0; rank {first.rank} is the"
        f" first, in round {at:,}",
        (at, at), [], ranks=len(apart), first_rank=first.rank, equal_rounds=first.equal_rounds,
    )  # fmt: skip
