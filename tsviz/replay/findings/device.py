"""What a real device did otherwise than it should: order, bytes, logits, tokens (`executor-rules.md` section 10)."""

from __future__ import annotations

from collections import Counter
from itertools import islice

from tsviz.replay.scenario.predicates import Absent
from tsviz.replay.why.tree import counted
from tsviz.trace.order.checker import Race, TooManyOpen, races_of
from tsviz.trace.order.ops import Op
from tsviz.trace.order.recorded import read_ops

from .model import Ended, NotCheckable, Subject, found, listed
from .recorded import ask

_MOST_RACES = 10_000
"""More are not looked for: one edge that is missing everywhere would make as many as there are rounds, and layers."""


def device_race(subject: Subject, pairs: int) -> Ended:
    """Judge: more than `pairs` pairs of operations touch the same bytes, one of them writing, and nothing orders them.

    Ordered are operations of one stream, those of which one waits for the other's event, and those of which the host
    had seen one end before it queued the other. No lucky timing is needed: what happened in time this once counts too.
    """
    try:
        races = list(islice(races_of(read_ops(subject.part)), _MOST_RACES))
    except TooManyOpen as error:
        return NotCheckable("device_race", str(error))
    if len(races) <= pairs:
        return Absent("device_race", len(races), pairs)
    edges = Counter(race.edge for race in races)
    (edge, _), first = edges.most_common(1)[0], races[0]
    worst = next(race for race in races if race.edge == edge)
    rounds = [op.round for race in races for op in (race.first, race.second)]
    more = f"; {_edges(edges)}" if len(races) > 1 else ""
    return found(
        "device_race",
        f"nothing orders {_pair(worst)}{more}",
        (min(first.first.round, first.second.round), max(rounds)), [], pairs=len(races), edges=len(edges),
    )  # fmt: skip


def _pair(race: Race) -> str:
    space = "the pool" if race.at.space == "device" else f"the {race.at.space}"
    shared = f"both touch bytes {race.at.begin:,} to {race.at.end:,} of {space}"
    return f"{_op(race.first)} and {_op(race.second)}: {shared}"


def _op(op: Op) -> str:
    layer = "" if op.layer is None else f" {op.layer}"
    return f"{op.kind.value}{layer} (op {op.number:,}, round {op.round:,}, stream {op.stream.value})"


def _edges(edges: Counter[str]) -> str:
    total = edges.total()
    pairs = f"{'at least ' if total == _MOST_RACES else ''}{counted(total, 'such pair')}"
    return f"{pairs}: {', '.join(f'{edge} {count:,}' for edge, count in edges.most_common(4))}"


BROKEN_SQL = "SELECT round, request, valid_tokens FROM forward_rows WHERE broken ORDER BY round, row"


def broken_rows(subject: Subject, rows: int) -> Ended:
    """Judge: in more than `rows` rows of forwards a logit was no number.

    Somebody read what nobody had written, or what others had spoilt: with poison in fresh pages (debug) in the round
    in which it was read, else where it came to the logits.
    """
    broken = ask(subject, BROKEN_SQL)
    if len(broken) <= rows:
        return Absent("broken_rows", len(broken), rows)
    who = list(dict.fromkeys(str(row["request"]) for row in broken))
    first = broken[0]
    return found(
        "broken_rows",
        f"logits are no numbers in {counted(len(broken), 'row')} of {listed(who)}, first in round {first['round']:,}"
        f" with {first['valid_tokens']:,} tokens of it on the device",
        (first["round"], broken[-1]["round"]), who, rows=len(broken), requests=len(who),
    )  # fmt: skip


LOST_SQL = """
WITH steps AS (
  SELECT f.round, f.request, o.kind, f.valid_tokens, f.accepted_tokens,
    lead(f.round) OVER own AS next_round, lead(f.valid_tokens) OVER own AS next_valid,
    lead(o.kind) OVER own AS next_kind
  FROM forward_rows f JOIN operations o
    ON o.round = f.round AND o.row = f.row AND o.kind IN ('prefill', 'decode') AND o.submission = f.submission
  WINDOW own AS (PARTITION BY f.submission ORDER BY f.round))
SELECT round, request, next_round, valid_tokens + accepted_tokens AS taken_tokens, next_valid FROM steps
WHERE kind = 'decode' AND next_kind = 'decode' AND next_valid <> valid_tokens + accepted_tokens
ORDER BY round, request"""


def lost_tokens(subject: Subject, rows: int) -> Ended:
    """Judge: more than `rows` decodes have other tokens on the device than the decode before them had and accepted.

    The device and the scheduler then count differently: a result was cut, or positions came from the host while one was
    out. Every later token of the request is of another sequence.
    """
    lost = ask(subject, LOST_SQL)
    if len(lost) <= rows:
        return Absent("lost_tokens", len(lost), rows)
    who, first = list(dict.fromkeys(str(row["request"]) for row in lost)), lost[0]
    return found(
        "lost_tokens",
        f"the device and the scheduler count differently: {first['request']!r} had {first['taken_tokens']:,} tokens"
        f" behind round {first['round']:,} and {first['next_valid']:,} in front of round {first['next_round']:,};"
        f" {counted(len(lost), 'decode')} of {listed(who)}",
        (first["next_round"], lost[-1]["next_round"]), who, decodes=len(lost), requests=len(who),
    )  # fmt: skip


EARLY_SQL = """
SELECT d.round, d.op, d.kind, d.op_id, e.round AS told_round, d.end_ns - c.time_ns AS early_ns FROM device_ops d
JOIN events e ON e.op_id = d.op_id AND e.kind = 'write_back_done' JOIN calls c ON c.seq = e.call_seq
WHERE (d.kind LIKE 'store%' OR d.kind = 'backup') AND c.time_ns < d.end_ns ORDER BY told_round, d.op"""


def early_acknowledgement(subject: Subject, copies: int) -> Ended:
    """Judge: more than `copies` copies to the host were told to the scheduler as done before the device had done them.

    Their pages are granted while they are still read, by the copy or by the put into storage behind it.
    """
    early = ask(subject, EARLY_SQL)
    if len(early) <= copies:
        return Absent("early_acknowledgement", len(early), copies)
    first = early[0]
    return found(
        "early_acknowledgement",
        f"told too early: write-back {first['op_id']:,} of round {first['round']:,} was acknowledged in front of round"
        f" {first['told_round']:,}, {first['early_ns'] / 1e6:,.3f} ms before its {first['kind']} had ended;"
        f" {counted(len(early), 'such acknowledgement')}",
        (first["told_round"], early[-1]["told_round"]), [], copies=len(early),
    )  # fmt: skip


CHANGED_SQL = """
SELECT round, kind, space, "group", page, left_round, left_kind FROM page_changes ORDER BY op, space, "group", page"""


def changed_pages(subject: Subject, blocks: int) -> Ended:
    """Judge: an operation found more than `blocks` blocks, a layer each, otherwise than the last one had left them.

    Somebody wrote who should not have, or not yet (`page_changes` in sql.md): a copy on the host of the wrong moment, a
    page zeroed for another one, a peer that still writes.
    """
    changed = ask(subject, CHANGED_SQL)
    if len(changed) <= blocks:
        return Absent("changed_pages", len(changed), blocks)
    first = changed[0]
    return found(
        "changed_pages",
        f"page {first['page']:,} of {first['group']!r} ({first['space']}) changed behind {first['left_kind']} of round"
        f" {first['left_round']:,}: {first['kind']} of round {first['round']:,} found other bytes;"
        f" {counted(len(changed), 'such block')}",
        (first["round"], changed[-1]["round"]), [], blocks=len(changed),
    )  # fmt: skip


STALLS_SQL = """
SELECT kind, for_kind, count(*)::BIGINT AS times, sum(alone_ns)::BIGINT AS stalled_ns, min(round) AS first_round,
  max(round) AS last_round
FROM device_stalls WHERE stream IN ('default', 'exec') AND for_stream IN ('write', 'load', 'peer')
GROUP BY kind, for_kind ORDER BY stalled_ns DESC, kind, for_kind"""
FORWARDS_SQL = "SELECT coalesce(sum(end_ns - start_ns), 0)::BIGINT AS forward_ns FROM forwards"


def copy_stalls(subject: Subject, percent: int) -> Ended:
    """Judge: the streams of forwards stood still for copies longer than `percent` of what forwards took.

    Zeroing waits for snapshots of pages that are granted in the same round, forwards for what is loaded: that much is
    right. A pinned store that is waited for, loads that all come before the first layer, or a slow link cost this.
    """
    stalls = ask(subject, STALLS_SQL)
    stalled, took = sum(row["stalled_ns"] for row in stalls), ask(subject, FORWARDS_SQL)[0]["forward_ns"]
    share = 100 * stalled // took if took else 0
    if share <= percent:
        return Absent("copy_stalls", share, percent)
    worst = ", ".join(
        f"{row['kind']} for {row['for_kind']} {row['stalled_ns'] / 1e6:,.2f} ms ({counted(row['times'], 'time')})"
        for row in stalls[:3]
    )
    return found(
        "copy_stalls",
        f"forwards stand still for copies: {stalled / 1e6:,.2f} ms beside {took / 1e6:,.2f} ms of forwards"
        f" ({100 * stalled / took:.1f} %): {worst}",
        (min(row["first_round"] for row in stalls), max(row["last_round"] for row in stalls)), [],
        stalled_ns=stalled, forward_ns=took,
    )  # fmt: skip
