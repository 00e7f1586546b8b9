"""The closed list of causes: what each says beside its name, with the numbers of the round (debugger.md, section 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tsviz.scheduler import decisions as d
from tsviz.scheduler.states import RETRACTED, STATE_NAMES

from .capacity import capacity, deficit_blocks, operation, ranking
from .facts import Facts, Said
from .tree import Branch, counted


@dataclass(frozen=True, slots=True)
class Case:
    """A request in a round, and the verdict on it."""

    facts: Facts
    submission: int
    round: int
    said: Said


def _plain(kind: str, words: str, **numbers: int) -> tuple[Branch, ...]:
    return (Branch(kind, words, numbers=numbers),)


def _scheduled(c: Case) -> tuple[Branch, ...]:
    row = c.facts.last_row(c.submission, c.round)
    if row < 0:
        return ()
    kind, tokens = str(c.facts.life.op_kind[row]).replace("_", " "), int(c.facts.life.op_input[row])
    begin, size = int(c.facts.life.op_begin[row]), int(c.facts.life.op_prefill[row])
    words = f"{kind} row of {counted(tokens, 'token')}"
    if begin >= 0:
        words += f", positions {begin:,} to {begin + tokens:,} of {size:,}"
    numbers = {"input_tokens": tokens, "begin_tokens": max(0, begin), "prefill_tokens": size}
    again = retraction(c.facts, c.submission, c.round) if begin >= 0 else ()
    return (Branch("row", words, numbers=numbers), *_start(c), *again, *_holds(c), *_granted(c))


def _holds(c: Case) -> tuple[Branch, ...]:
    """Return how far a prefill is that is not complete behind this round."""
    if any(row["request"] == c.facts.life.names[c.submission] for row in c.facts.at("holds", c.round)):
        return chunk_progress(c.facts, c.facts.life.names[c.submission], c.round)
    return ()


def _start(c: Case) -> tuple[Branch, ...]:
    """Return where the request's last start began: the hit, and what of it is fed again."""
    row = _first_of_run(c.facts, c.submission, c.round)
    if row < 0:
        return ()
    life = c.facts.life
    at, begin = life.row_rounds(row, c.round)[1], int(life.op_begin[row])
    replay = c.facts.replayed(c.submission, at)
    words = f"it started in round {at:,} at position {begin:,} of {int(life.op_prefill[row]):,}"
    if begin + replay:
        words += f": the first {begin + replay:,} were cached"
        words += f", of which {replay:,} were fed again for a replayed window" if replay else ""
    numbers = {"hit_tokens": begin + replay, "replay_tokens": replay, "started_round": at}
    return (Branch("start", words, position=str(at), numbers=numbers),)


def _granted(c: Case) -> tuple[Branch, ...]:
    """Return who was retracted in this round so that the request could have its row."""
    name = c.facts.life.names[c.submission]
    turns = c.facts.at("retractions", c.round)
    freed = [row for row in turns if row["blocker"] == name and row["outcome"] == d.RETRACTED]
    if not freed:
        return ()
    who = ", then ".join(row["victim"] for row in freed)
    words = f"it was refused for capacity first; {counted(len(freed), 'request')} gave way in this round: {who}"
    at = f"{c.round}.{freed[0]['stop']}"
    return (Branch("grant", words, position=at, numbers={"retracted": len(freed)}), ranking(c.facts, freed[0]))


def _bootstrap(c: Case) -> tuple[Branch, ...]:
    submitted = int(c.facts.life.submitted[c.submission])
    age = c.round - submitted
    words = f"submitted for round {submitted:,}, {counted(age, 'round')} ago; its peer has not said that it is ready"
    return _plain("bootstrap", words, age_rounds=age)


def _result(c: Case) -> tuple[Branch, ...]:
    row = c.facts.last_row(c.submission, c.round)
    if row < 0:
        return ()
    planned = c.facts.life.row_rounds(row, c.round)[1]
    words = f"its {c.facts.life.op_kind[row]} row of round {planned:,} has no result yet"
    return (Branch("row", words, position=str(planned), numbers={"age_rounds": c.round - planned}),)


def _transfer(c: Case) -> tuple[Branch, ...]:
    row = c.facts.last_row(c.submission, c.round)
    planned = c.facts.life.row_rounds(row, c.round)[1] if row >= 0 else c.said.since_round
    held = sum(
        len(h.blocks) for h in c.facts.holdings(c.round, c.facts.behind_plan(c.round)) if h.submission == c.submission
    )
    words = (
        f"with the peer since round {planned:,} ({counted(c.round - planned, 'round')}); it pins"
        f" {counted(held, 'block')}. Only the peer's answer ends this: waiting is right"
    )
    return (
        Branch(
            "transfer", words, position=str(planned), numbers={"age_rounds": c.round - planned, "held_blocks": held}
        ),
    )


def _batch_full(c: Case) -> tuple[Branch, ...]:
    plan, limit = c.facts.round_row(c.round), int(c.facts.config["max_batch_size"])
    if not plan:  # it raised, or was dropped: what was said of the round before still holds
        return ()
    rows = plan["prefill_rows"] + plan["decode_rows"]
    words = f"{rows:,} of {limit:,} rows are taken: {plan['prefill_rows']:,} prefill, {plan['decode_rows']:,} decode"
    return _plain("batch", words, rows=rows, max_batch_size=limit)


def _budget(c: Case) -> tuple[Branch, ...]:
    limit = int(c.facts.config["max_scheduled_tokens"])
    rows = c.facts.rows_of(c.round)
    local = [row for row in rows if not row[1].startswith("remote")]
    spent = sum(tokens for _, _, tokens in local)
    most = sorted(local, key=lambda row: (-row[2], row[0]))[:3]
    who = ", ".join(f"{name} {tokens:,}" for name, _, tokens in most)
    words = f"{spent:,} of {counted(limit, 'token')} are spent" + (f", most by {who}" if who else "")
    return _plain("budget", words, spent_tokens=spent, max_scheduled_tokens=limit)


def _holdback(c: Case) -> tuple[Branch, ...]:
    phases = [row for row in c.facts.at("phases", c.round) if row["name"] == "decodes"]
    holdback = phases[0]["holdback_tokens"] if phases else 0
    budget = phases[0]["budget_tokens"] if phases else 0
    width, limit = int(c.facts.config["decode_input_tokens"]), int(c.facts.config["max_scheduled_tokens"])
    spent = sum(tokens for _, kind, tokens in c.facts.rows_of(c.round) if kind == "decode")
    words = (
        f"decodes leave {holdback:,} of {counted(budget, 'token')} to the pending prefill, and those before it take"
        f" {spent:,}: {holdback:,} + {spent:,} + {width:,} > {budget:,}"
    )
    if c.said.rule:
        words += f". No round can pass this: {holdback:,} + {width:,} > {limit:,}"
    return _plain("holdback", words, holdback_tokens=holdback, decode_input_tokens=width, max_scheduled_tokens=limit)


def _chunk_zero(c: Case) -> tuple[Branch, ...]:
    found = []
    for row in c.facts.own("chunks", c.submission, c.round)[-1:]:
        words = (
            f"of {counted(row['unscheduled_tokens'], 'token')} left and a budget of {row['budget_tokens']:,}"
            f" ({row['replay_tokens']:,} for replay) the rule {row['bound_by']} leaves {row['tokens']:,}"
        )
        numbers = {k: row[k] for k in ("tokens", "budget_tokens", "replay_tokens", "unscheduled_tokens")}
        found.append(Branch("chunk", words, position=f"{c.round}.{row['stop']}", numbers=numbers))
    return tuple(found)


def _no_slot(c: Case) -> tuple[Branch, ...]:
    holders = c.facts.holdings(c.round, c.facts.behind_plan(c.round))
    limit = int(c.facts.config["max_batch_size"])
    words = f"{len(holders):,} requests hold pages and with them the {counted(limit, 'slot')}"
    return _plain("slots", words, requests=len(holders), max_batch_size=limit)


def _head_of_line(c: Case) -> tuple[Branch, ...]:
    return chunk_progress(c.facts, c.said.holder, c.round)


def _first_of_run(facts: Facts, submission: int, round_: int) -> int:
    """Return the table row of the first chunk of a request's last start; -1 before its first one."""
    life = facts.life
    rows = [r for r in life.rows_until(submission, round_).tolist() if life.op_begin[r] >= 0]
    first = rows[-1] if rows else -1
    for earlier, later in zip(reversed(rows[:-1]), reversed(rows), strict=False):
        end = int(life.op_begin[earlier] + life.op_input[earlier])
        goes_on = end - facts.config["prefix_replay_tokens"] <= life.op_begin[later] <= end
        if not goes_on or life.op_prefill[earlier] != life.op_prefill[later]:
            break
        first = earlier
    return first


def chunk_progress(facts: Facts, holder: str, round_: int) -> tuple[Branch, ...]:
    """Return how far the chunks of an incomplete prefill are: chunk k of m, rounds left at this rate."""
    submission = facts.submission_of(holder, round_)
    life = facts.life
    rows = [r for r in life.rows_until(submission, round_).tolist() if life.op_begin[r] >= 0]
    if not rows:
        return ()
    last = rows[-1]
    first = _first_of_run(facts, submission, round_)
    run = len(rows) - rows.index(first)
    reached, size = int(life.op_begin[last] + life.op_input[last]), int(life.op_prefill[last])
    since, latest = (life.row_rounds(row, round_)[1] for row in (first, last))
    span, begun = latest - since + 1, int(life.op_begin[first])
    rate = (reached - begun) / span
    left = -(-(size - reached) * span // max(1, reached - begun))
    chunk = -(-(reached - begun) // run)
    of = run + -(-(size - reached) // max(1, chunk))
    words = (
        f"{holder}: chunk {run:,} of {of:,}, {reached:,} of {counted(size, 'token')} computed; at {rate:,.0f} tokens"
        f" a round (since round {since:,}) {counted(left, 'round')}"
        f" {'is' if left == 1 else 'are'} left"
    )
    numbers = {
        "chunk": run, "chunks": of, "computed_tokens": reached, "prefill_tokens": size, "rounds_left": left,
    }  # fmt: skip
    return (Branch("progress", words, request=holder, position=str(latest), numbers=numbers),)


def _sealed(c: Case) -> tuple[Branch, ...]:
    if not c.said.holder:
        return _plain("sealed", "another retracted request is before it in the order of return")
    rows = [row for row in c.facts.at("readmissions", c.round) if row["request"] == c.said.holder]
    words = f"{c.said.holder} comes back first; until it is in, no new prompt is admitted"
    numbers = {"retraction_epoch": rows[0]["retraction_epoch"], "rank": rows[0]["choice"]} if rows else {}
    return (Branch("sealed", words, request=c.said.holder, position=str(c.round), numbers=numbers),)


def _resident(c: Case) -> tuple[Branch, ...]:
    return _plain("resident", f"{c.said.holder} was refused its next chunk; nothing behind it is tried in this round")


def _retracted(c: Case) -> tuple[Branch, ...]:
    return retraction(c.facts, c.submission, c.round)


def retraction(facts: Facts, submission: int, round_: int) -> tuple[Branch, ...]:
    """Return the last retraction of a request: when, for whom, how often, tokens lost and what came back."""
    name, life = facts.life.names[submission], facts.life
    rounds = [at for at in facts.retracted(name) if at <= round_ and facts.submission_of(name, at) == submission]
    if not rounds:
        return _retracted_before(facts, submission)
    last = next(row for row in reversed(facts.at("retractions", rounds[-1]))
                if row["victim"] == name and row["outcome"] == d.RETRACTED)  # fmt: skip
    whom = "its own refusal" if last["blocker"] == name else last["blocker"]
    lacked = shortage_words(facts, facts.submission_of(last["blocker"], last["round"]), last["round"])
    whom += f" ({lacked})" if lacked else ""
    row = facts.last_row(submission, last["round"])
    generated = int(life.landed(np.array([submission], np.int64), last["round"])[0])
    begin = int(life.op_begin[row])
    chunk = begin + int(life.op_input[row])
    decoding = begin < 0 or chunk >= int(life.op_prefill[row])
    lost = int(life.prompt[submission]) + max(0, generated - 1) if decoding and generated else chunk
    words = (
        f"retracted in round {last['round']:,} for {whom}, {_often(facts, submission, len(rounds))};"
        " tables over"
        f" {counted(lost, 'token')} were given up"
    )
    numbers = {"retractions": len(rounds), "lost_tokens": lost, "round": last["round"]}
    following = _following(facts, submission, row, last["round"])
    if following is not None:
        back, start = following[1], int(life.op_begin[following[0]])
        if start >= 0:
            again = max(0, lost - start)
            comes = "came" if back <= round_ else "comes"
            words += f"; it {comes} back in round {back:,} at position {start:,}, {again:,} to compute again"
            numbers |= {"back_round": back, "recomputed_tokens": again}
    else:
        words += "; it has not come back in this trace"
    return (Branch("retraction", words, request=name, position=f"{last['round']}.{last['stop']}", numbers=numbers),)


def _retracted_before(facts: Facts, submission: int) -> tuple[Branch, ...]:
    """Return what is known of a retraction that a slice begins behind: that it was, and when the request comes back."""
    begin = facts.begin
    if not facts.carried(submission) or facts.state(submission, begin, 0) != STATE_NAMES[RETRACTED]:
        return ()
    words = f"retracted before round {begin:,}, where this trace begins"
    following = _following(facts, submission, -1, begin - 1)
    if following is None:
        words += "; it has not come back in this trace"
    elif (start := int(facts.life.op_begin[following[0]])) >= 0:
        words += f"; it comes back in round {following[1]:,} at position {start:,}"
    return (Branch("retraction", words, request=facts.life.names[submission]),)


def _often(facts: Facts, submission: int, times: int) -> str:
    """Return how often a request was retracted: of one that lived before a slice, since the slice begins."""
    if facts.carried(submission):
        return f"{counted(times, 'time')} since round {facts.begin:,}, where this trace begins"
    return "for the first time" if times == 1 else f"{times:,} times so far"


def _following(facts: Facts, submission: int, row: int, round_: int) -> tuple[int, int] | None:
    """Return the row of a request behind one that it had at or before a round, and its round; None without one."""
    life = facts.life
    if row >= 0 and life.row_rounds(row, _LAST_ROUND)[1] > round_:  # the same row again, in one span
        return row, round_ + 1
    after = [r for r in life.rows_until(submission, _LAST_ROUND).tolist() if r > row]
    return (after[0], life.row_rounds(after[0], _LAST_ROUND)[0]) if after else None


_LAST_ROUND = 0xFFFF_FFFF


def _cannot_join(c: Case) -> tuple[Branch, ...]:
    plan = c.facts.round_row(c.round)
    if not plan:  # it raised, or was dropped: what was said of the round before still holds
        return ()
    words = (
        f"pages were freed for it, but the batch has {counted(plan['decode_rows'], 'decode row')} and prefills do not"
        " share a batch with decodes here (mixed mode is off)"
    )
    return _plain("grant", words, decode_rows=plan["decode_rows"])


def _never(c: Case) -> tuple[Branch, ...]:
    words = f"never under this config: {c.said.rule}"
    numbers: dict[str, int] = {}
    for name in ("decode_input_tokens", "max_scheduled_tokens", "max_batch_size"):
        if name in c.said.rule:
            numbers[name] = int(c.facts.config[name])
    if numbers:
        words += " (" + ", ".join(f"{name} is {value:,}" for name, value in numbers.items()) + ")"
    refusal = c.facts.refusal(c.submission, c.round)
    children: tuple[Branch, ...] = ()
    if refusal is not None:
        need = sum(-(-pages // k) for pages, k in zip(refusal["need_pages"], c.facts.packing, strict=True))
        numbers |= {"need_blocks": need, "total_blocks": c.facts.parents}
        children = tuple(
            Branch("group", f"group {name}: {counted(pages, 'page')}", numbers={"need_pages": pages})
            for name, pages in zip(c.facts.groups, refusal["need_pages"], strict=True) if pages
        )  # fmt: skip
    return (Branch("never", words, numbers=numbers, children=children),)


def _capacity(c: Case) -> tuple[Branch, ...]:
    refusal = c.facts.refusal(c.submission, c.round)
    if refusal is None:
        return ()
    return capacity(c.facts, c.submission, c.round, refusal)


def _deferred(c: Case) -> tuple[Branch, ...]:
    return (operation(c.facts, c.said.op_id, c.round), *_capacity(c))


def _alone(c: Case) -> tuple[Branch, ...]:
    return chunk_progress(c.facts, c.said.holder, c.round)


def _one_remote(c: Case) -> tuple[Branch, ...]:
    words = f"{c.said.holder} was sent to the peer in this round; the next one goes in the next round"
    return (Branch("remote", words, request=c.said.holder, position=str(c.round)),)


def _prefill_only(c: Case) -> tuple[Branch, ...]:
    plan = c.facts.round_row(c.round)
    if not plan:  # it raised, or was dropped: what was said of the round before still holds
        return ()
    words = (
        f"the batch is {counted(plan['prefill_rows'], 'prefill row')} of {counted(plan['scheduled_tokens'], 'token')}"
    )
    return _plain("batch", words + "; mixed mode is off", prefill_rows=plan["prefill_rows"],
                  scheduled_tokens=plan["scheduled_tokens"])  # fmt: skip


Explain = Callable[[Case], tuple[Branch, ...]]

EXPLAINED: dict[str, Explain] = {
    d.SCHEDULED: _scheduled,
    d.BOOTSTRAP: _bootstrap,
    d.RESULT: _result,
    d.REMOTE_TRANSFER: _transfer,
    d.BATCH_FULL: _batch_full,
    d.BUDGET_SPENT: _budget,
    d.HOLDBACK: _holdback,
    d.CHUNK_ZERO: _chunk_zero,
    d.NO_SLOT: _no_slot,
    d.HEAD_OF_LINE: _head_of_line,
    d.SEALED: _sealed,
    d.RESIDENT_BLOCKED: _resident,
    d.RETRACTED: _retracted,
    d.CANNOT_JOIN: _cannot_join,
    d.NEVER: _never,
    d.CAPACITY: _capacity,
    d.RECOVERY_ALONE: _alone,
    d.ONE_REMOTE: _one_remote,
    d.PREFILL_ONLY: _prefill_only,
    d.DEFERRED: _deferred,
    d.NOT_QUIESCENT: _capacity,
    d.NOTHING_RETRACTABLE: _capacity,
}
"""What to say of each cause of the closed list."""


def shortage_words(facts: Facts, submission: int, round_: int) -> str:
    """Return the need and the deficit of a refusal in a few words; empty when the request was not refused."""
    refusal = facts.refusal(submission, round_)
    if refusal is None:
        return ""
    need = ", ".join(f"{n:,} of {g}" for n, g in zip(refusal["need_pages"], facts.groups, strict=True) if n)
    _, lacking = deficit_blocks(facts.packing, refusal)
    return f"needs {need or 'none'}; {counted(refusal['reachable_blocks'], 'block')} in reach, {lacking:,} short"
