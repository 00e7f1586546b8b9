"""A refusal for capacity taken apart: need and supply, who holds the pages, who could give way and why not.

Numbers come from the refusal, the block tables, the open operations and the victims that were ranked (debugger.md,
section 3, *capacity*).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tsviz.scheduler import decisions as d

from .facts import Facts, Holding
from .tree import Branch, counted

_SHOWN = 8


def deficit_blocks(packing: Sequence[int], refusal: dict[str, Any]) -> tuple[int, int]:
    """Return the LCM blocks that a refused admission lacks: now, and after every eviction that it may cause."""
    need = list(zip(refusal["need_pages"], packing, strict=True))
    now, reached = (
        sum(-(-max(0, pages - own) // k) for (pages, k), own in zip(need, refusal[f"{which}_local_pages"], strict=True))
        - refusal[f"{which}_blocks"]
        for which in ("free", "reachable")
    )  # fmt: skip
    return now, reached


def capacity(facts: Facts, submission: int, round_: int, refusal: dict[str, Any]) -> tuple[Branch, ...]:
    """Return what there is to say of a refusal: the inequality, the holders, the rest of the pool, the victims."""
    holders = facts.holdings(round_, refusal["item"])
    return (
        _inequality(facts, refusal),
        _holders(facts, submission, holders),
        _rest(facts, round_, refusal, holders),
        victims(facts, submission, round_),
    )


def _inequality(facts: Facts, refusal: dict[str, Any]) -> Branch:
    now, reached = deficit_blocks(facts.packing, refusal)
    children = []
    for group, name in enumerate(facts.groups):
        need = refusal["need_pages"][group]
        if not need:
            continue
        local, reach = refusal["free_local_pages"][group], refusal["reachable_local_pages"][group]
        packed = facts.packing[group]
        inside = f", {local:,} free in its own blocks ({reach:,} with evictions)" if packed > 1 else ""
        short = -(-max(0, need - reach) // packed)
        each = f" of {packed:,} pages" if packed > 1 else ""
        words = f"group {name}: needs {counted(need, 'page')}{inside}: {counted(short, 'block')}{each}"
        numbers = {"need_pages": need, "free_local_pages": local, "reachable_local_pages": reach, "need_blocks": short}
        children.append(Branch("group", words, numbers=numbers))
    free, reachable = refusal["free_blocks"], refusal["reachable_blocks"]
    words = (
        f"supply: {counted(free, 'block')} free of {facts.parents:,}, {reachable:,} with every eviction it may cause;"
        f" it lacks {reached:,}"
    )
    numbers = {
        "free_blocks": free, "reachable_blocks": reachable, "total_blocks": facts.parents,
        "deficit_blocks": reached, "deficit_now_blocks": now,
    }  # fmt: skip
    return Branch("deficit", words, position=f"{refusal['round']}.{refusal['stop']}", numbers=numbers,
                  children=tuple(children))  # fmt: skip


def _holders(facts: Facts, submission: int, holders: list[Holding]) -> Branch:
    shown = []
    for holding in holders[:_SHOWN]:
        own = " (itself)" if holding.submission == submission else ""
        each = ", ".join(f"{n:,} of {g}" for n, g in zip(holding.pages, facts.groups, strict=True) if n)
        words = f"{holding.request}{own}: {counted(len(holding.blocks), 'block')} ({each}), {holding.state}"
        numbers = {"held_blocks": len(holding.blocks), "held_pages": sum(holding.pages)}
        shown.append(Branch("holder", words, request=holding.request, numbers=numbers))
    if len(holders) > _SHOWN:
        rest = holders[_SHOWN:]
        words = f"{counted(len(rest), 'request')} more"
        shown.append(Branch("holder", words, numbers={"requests": len(rest)}))
    held: frozenset[int] = frozenset().union(*(holding.blocks for holding in holders))
    words = (
        f"held by live tables: {len(held):,} of {counted(facts.parents, 'block')}, {counted(len(holders), 'request')}"
    )
    return Branch("holders", words, numbers={"held_blocks": len(held), "requests": len(holders)}, children=tuple(shown))


def _rest(facts: Facts, round_: int, refusal: dict[str, Any], holders: list[Holding]) -> Branch:
    held: frozenset[int] = frozenset().union(*(holding.blocks for holding in holders))
    free, reachable = refusal["free_blocks"], refusal["reachable_blocks"]
    other = facts.parents - len(held) - reachable
    tickets = facts.tickets(round_, refusal["item"])
    words = f"not held by tables: {free:,} free, {reachable - free:,} cached that could be evicted"
    if other > 0:
        words += f", {other:,} pinned by its own prefix hit or by operations that are out"
    children = [
        Branch(
            "ticket",
            f"operation {t.op_id} ({t.kind}): {counted(t.pages, 'page')}, out for"
            f" {counted(round_ - t.since_round, 'round')}",
            position=str(t.since_round),
            numbers={"op_id": t.op_id, "pages": t.pages, "age_rounds": round_ - t.since_round},
        )
        for t in tickets[:_SHOWN]
    ]  # fmt: skip
    numbers = {
        "free_blocks": free, "evictable_blocks": reachable - free, "pinned_blocks": max(0, other),
        "tickets": len(tickets),
    }  # fmt: skip
    return Branch("rest", words, numbers=numbers, children=tuple(children))


def victims(facts: Facts, submission: int, round_: int) -> Branch:
    """Return who could give way in a round and why nobody did, from the retraction loop."""
    turns = facts.at("retractions", round_)
    if not turns:
        return _no_retraction(facts, round_)
    name = facts.life.names[submission]
    blocker = turns[0]["blocker"]
    last = turns[-1]
    whose = "for it" if blocker == name else f"for {blocker}, the first that was refused"
    outcome = {
        d.RETRACTED: f"{last['victim']} was retracted",
        d.NOT_QUIESCENT: f"{last['victim']} is first in line and has a forward out",
        d.NOTHING_RETRACTABLE: "nobody can be retracted",
        d.DEFERRED: f"retraction waits for operation {last['op_id']}",
    }[last["outcome"]]
    return ranking(facts, last, f"who could give way {whose}: {outcome}")


def ranking(facts: Facts, turn: dict[str, Any], words: str = "who could give way") -> Branch:
    """Return the candidates of one turn of the retraction loop with rank, size and what became of each."""
    round_ = turn["round"]
    rows = [row for row in facts.at("victims", round_) if row["stop"] == turn["stop"]]
    children = [Branch("victim", _victim_words(row, turn), request=row["request"], numbers=_victim_numbers(row))
                for row in rows[:_SHOWN]]  # fmt: skip
    if len(rows) > _SHOWN:
        children.append(Branch("victim", f"{len(rows) - _SHOWN:,} more", numbers={"requests": len(rows) - _SHOWN}))
    if turn["outcome"] == d.DEFERRED:
        children.append(operation(facts, turn["op_id"], round_))
    numbers = {"candidates": len(rows), "exempt": sum(row["exempt"] for row in rows)}
    return Branch("victims", words, request=turn["blocker"], position=f"{round_}.{turn['stop']}", numbers=numbers,
                  children=tuple(children))  # fmt: skip


def _victim_words(row: dict[str, Any], turn: dict[str, Any]) -> str:
    size = f"{counted(row['tokens'], 'token')}"
    if row["tier"] == "decode":
        size = f"releases {counted(row['releasable_blocks'], 'block')}, {size}"
    if row["exempt"]:
        why = "exempt: its reserve covers its whole generation"
    elif row["request"] == turn["victim"] and turn["outcome"] == d.RETRACTED:
        why = "taken"
    elif row["in_flight"]:
        why = f"{counted(row['in_flight'], 'forward')} out" + ("; it is next" if row["choice"] == 0 else "")
    else:
        why = "behind in the order" if row["choice"] else "next"
    rank = "no rank" if row["exempt"] else f"rank {row['choice']}"
    return f"{row['request']}: {rank}, tier {row['tier']}, {size}; {why}"


def _victim_numbers(row: dict[str, Any]) -> dict[str, int]:
    names = ("choice", "releasable_blocks", "tokens", "in_flight")
    return {name: row[name] for name in names} | {"exempt": int(row["exempt"])}


def _no_retraction(facts: Facts, round_: int) -> Branch:
    role, plan = facts.config["role"], facts.round_row(round_)
    if role == "P":
        why = "the prefill role never retracts"
    elif plan.get("prefill_rows", 0) or plan.get("remote_prefill_rows", 0):
        why = "a prefill moves on in this round, so nobody is retracted"
    elif not facts.at("blockers", round_):
        why = "no request counts as the blocker of this round"
    else:
        why = "no retraction was tried"
    return Branch("victims", f"who could give way: {why}", position=str(round_))


def operation(facts: Facts, op_id: int, round_: int) -> Branch:
    """Return what is known of an operation that defers retraction: its kind, pages and age."""
    row = facts.ticket(op_id, round_)
    if row is None:
        return Branch("ticket", f"operation {op_id}: its start is not in the trace", numbers={"op_id": op_id})
    age = round_ - row["round"]
    numbers = {"op_id": op_id, "pages": row["pages"], "age_rounds": age}
    words = f"operation {op_id} ({row['kind']}): {counted(row['pages'], 'page')}, out for {counted(age, 'round')}"
    position = str(row["round"])
    return Branch("ticket", words, position=position, numbers=numbers)
