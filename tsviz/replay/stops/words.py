"""Facts in words: one function a kind of decided row (decisions.py says what the columns mean)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from tsviz.replay.why.capacity import deficit_blocks
from tsviz.replay.why.tree import counted
from tsviz.scheduler import decisions as d

from .story import Fact

Decided = dict[str, Any]
"""One row of a decided table."""

PHASES = {
    "remote_decodes": "remote decodes", "recovery": "recovery", "readmission": "readmission",
    "resident_chunks": "resident chunks", "new_prompts": "new prompts", "decodes": "decodes",
    "remote_admission": "remote admission", "retraction": "retraction",
}  # fmt: skip
ATTEMPTS = {
    "first_chunk": "first chunk", "remote_landing": "remote landing", "later_chunk": "later chunk", "decode": "decode",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Groups:
    """Names of the cache groups, pages of each in one LCM block, which hold states, and the chunk's window."""

    names: tuple[str, ...]
    packing: tuple[int, ...]
    has_state: bool
    window_tokens: int
    page_tokens: int

    def each(self, counts: Sequence[int], empty: str = "none") -> str:
        """Return counts per group in words: `17 full, 2 state`; groups with nothing are left out."""
        return ", ".join(f"{n:,} {name}" for n, name in zip(counts, self.names, strict=False) if n) or empty


def match(row: Decided, groups: Groups) -> Fact:
    """What of a prompt a tier holds for one group."""
    name, hit, probed = groups.names[row["group"]], row["hit_slots"], row["probed_pages"]
    words = f"{row['tier']} {name}: {counted(row['common_tokens'], 'token')} hit, {hit:,} of {counted(probed, 'page')}"
    if row["closed_tokens"] > row["common_tokens"]:
        words += f"; full history alone reaches {row['closed_tokens']:,}"
    if row["hole_slots"]:
        words += f"; {counted(row['hole_slots'], 'hole')}"
    names = ("probed_pages", "common_tokens", "closed_tokens", "begin_slot", "hole_slots", "hit_slots")
    return Fact("match", words, row["request"], {n: row[n] for n in names}, marked=row["common_tokens"] > 0)


def chunk(row: Decided, groups: Groups) -> Fact:
    """A cut chunk: from the raw budget to what is left of it, each rule a line, the one that bound it marked."""
    budget, replay, rest = row["budget_tokens"], row["replay_tokens"], row["unscheduled_tokens"]
    promotion, tokens, bound = row["promotion_tokens"], row["tokens"], row["bound_by"]
    left = max(budget - replay, 0)
    plain = min(left, rest)
    steps = [
        ("budget", budget, "budget left"),
        ("replay", left, f"replay feeds {replay:,} again" if replay else "nothing to replay"),
        ("whole_prompt", plain, f"prompt left {rest:,}"),
    ]
    aligns = groups.has_state or promotion > 0
    steps += [
        ("alignment", -1, f"aligned to pages of {groups.page_tokens:,}" if aligns else "alignment does not apply"),
        ("promotion", -1, f"promotion boundary {promotion:,}" if promotion else "no promotion boundary pending"),
        ("final_window", -1,
         f"final window of {groups.window_tokens:,} kept whole" if groups.window_tokens else "no final window to keep"),
    ]  # fmt: skip
    facts = []
    for rule, value, words in steps:
        here = rule == bound
        known = value >= 0 or here
        numbers = {"tokens": tokens if here and rule != "budget" else value} if known else {}
        facts.append(Fact("cut", words, row["request"], numbers, here))
    words = f"{counted(tokens, 'token')}, bound by {bound.replace('_', ' ')}" if tokens else (
        f"cut to nothing by {bound.replace('_', ' ')}: not now"
    )  # fmt: skip
    names = ("tokens", "budget_tokens", "replay_tokens", "unscheduled_tokens", "promotion_tokens")
    return Fact("chunk", words, row["request"], {n: row[n] for n in names}, facts=tuple(facts))


def reserve(row: Decided, groups: Groups) -> Fact:
    """What an admission holds beyond its chunk, term by term."""
    decode, rest = row["decode_tokens"], row["rest_of_prompt_tokens"]
    headroom, growth = row["headroom_tokens"], row["growth_tokens"]
    prepaid = rest + headroom if headroom else 0
    full = max(decode, prepaid)
    terms = [
        Fact("term", f"decode slot {decode:,}", numbers={"tokens": decode}, marked=decode >= prepaid and decode > 0),
        Fact("term", f"rest of prompt {rest:,}" + ("" if headroom else ", not prepaid without headroom"),
             numbers={"tokens": rest}, marked=prepaid > decode and rest > 0),
        Fact("term", f"headroom {headroom:,}", numbers={"tokens": headroom}, marked=prepaid > decode),
    ]  # fmt: skip
    if groups.has_state and growth >= 0:
        terms.append(Fact("term", f"state growth {growth:,}", numbers={"tokens": growth}, marked=growth > 0))
    words = f"{counted(full, 'token')} beyond the chunk"
    return Fact("reserve", words, row["request"], {"full_tokens": full}, facts=tuple(terms))


def refusal(row: Decided, groups: Groups) -> Fact:
    """Need against supply, per group and in blocks, now and after every eviction that the request may cause."""
    now, reached = deficit_blocks(groups.packing, row)
    lines = []
    for index, name in enumerate(groups.names):
        need = row["need_pages"][index]
        local, reach, packed = (
            row["free_local_pages"][index],
            row["reachable_local_pages"][index],
            groups.packing[index],
        )
        short = -(-max(0, need - reach) // packed)
        numbers = {
            "need_pages": need, "free_local_pages": local, "reachable_local_pages": reach, "need_blocks": short,
            "pages_in_a_block": packed,
        }  # fmt: skip
        words = f"{name}: needs {counted(need, 'page')}, {reach:,} in its own blocks: {counted(short, 'block')}"
        lines.append(Fact("group", words, row["request"], numbers, marked=short > 0))
    free, reachable = row["free_blocks"], row["reachable_blocks"]
    words = f"needs {groups.each(row['need_pages'])}; {free:,} free, {reachable:,} with evictions; lacks {reached:,}"
    numbers = {
        "free_blocks": free, "reachable_blocks": reachable, "deficit_blocks": reached, "deficit_now_blocks": now,
    }  # fmt: skip
    return Fact("refusal", words, row["request"], numbers, marked=True, facts=tuple(lines))


def admission(row: Decided, groups: Groups) -> Fact:
    """What a granted admission took."""
    words = f"{groups.each(row['fresh_pages'], 'no')} fresh" if any(row["fresh_pages"]) else "no fresh page"
    hits = [f"{row[f'{tier}_tokens']:,} tokens from the {tier}" for tier in ("device", "host") if row[f"{tier}_tokens"]]
    words += f"; {' and '.join(hits)}" if hits else ""
    for name, said in (("loaded_pages", "loaded"), ("evicted_pages", "evicted")):
        words += f"; {counted(row[name], 'page')} {said}" if row[name] else ""
    words += f"; promotion at {row['promotion_tokens']:,}" if row["promotion_tokens"] else ""
    names = ("epoch", "device_tokens", "host_tokens", "promotion_tokens", "loaded_pages", "evicted_pages")
    numbers = {n: row[n] for n in names} | {"fresh_pages": sum(row["fresh_pages"])}
    return Fact("admission", words, row["request"], numbers, marked=True)


def hold(row: Decided, _groups: Groups) -> Fact:
    """An incomplete prefill holds the line."""
    done, prompt = row["computed_tokens"], row["prompt_tokens"]
    words = f"holds the line at {done:,} of {counted(prompt, 'token')}: nothing behind it is tried"
    return Fact("hold", words, row["request"], {"computed_tokens": done, "prompt_tokens": prompt}, marked=True)


def blocker(row: Decided, _groups: Groups) -> Fact:
    """The first that was refused: retraction works for it."""
    return Fact("blocker", "is the blocker of this round: retraction works for it", row["request"], marked=True)


def victim(row: Decided, turn: Decided) -> Fact:
    """A candidate of a turn of the retraction loop, and what became of it."""
    if row["exempt"]:
        why = "exempt: its reserve covers its whole generation"
    elif row["request"] == turn["victim"]:
        why = "taken" if turn["outcome"] == d.RETRACTED else f"next, but {counted(row['in_flight'], 'forward')} out"
    elif row["in_flight"]:
        why = f"behind in the order, {counted(row['in_flight'], 'forward')} out"
    else:
        why = "behind in the order"
    names = ("choice", "releasable_blocks", "tokens", "in_flight")
    numbers = {n: row[n] for n in names} | {"exempt": int(row["exempt"]), "prefill_tier": int(row["tier"] == "prefill")}
    return Fact("victim", why, row["request"], numbers, marked=row["request"] == turn["victim"])


def state(row: Decided, _groups: Groups) -> Fact:
    """A transition of a request's state machine."""
    words = f"{row['before'] or 'new'} → {row['after']}"
    return Fact("state", words, row["request"])


def readmission(row: Decided, _groups: Groups) -> Fact:
    """A place in the order of return."""
    way = "resumes its generation" if row["resumes_generation"] else "starts its prompt again"
    words = f"{row['choice'] + 1}. to return: {way}, retracted as number {row['retraction_epoch']:,}"
    numbers = {"choice": row["choice"], "retraction_epoch": row["retraction_epoch"]}
    return Fact("readmission", words, row["request"], numbers, marked=row["choice"] == 0)


def publication(row: Decided, groups: Groups) -> Fact:
    """Completed pages enter the index."""
    first, end, new = row["first_page"], row["end_page"], row["new_pages"]
    words = f"{groups.names[row['group']]} pages {first:,}..{end - 1:,} as {row['kind']}, {new:,} new"
    return Fact("publication", words, row["request"], {"pages": end - first, "new_pages": new})


def reclaim(row: Decided, groups: Groups) -> Fact:
    """Expired slots are given up."""
    words = f"{counted(row['slots'], 'expired slot')} of {groups.names[row['group']]} given up"
    return Fact("reclaim", words, row["request"], {"slots": row["slots"]})


def ticket(row: Decided, _groups: Groups) -> Fact:
    """An operation between the tiers."""
    words = (
        f"operation {row['op_id']} ({row['kind'].replace('_', ' ')}) {row['event']}: {counted(row['pages'], 'page')}"
    )
    return Fact("ticket", words, "", {"op_id": row["op_id"], "pages": row["pages"]})


def evictions(rows: Iterable[Decided], groups: Groups) -> list[Fact]:
    """Evicted pages, in order, as runs of one tier, group and kind: how many, and which."""
    found = []
    for (tier, group), run in groupby(rows, key=lambda r: (r["tier"], r["group"])):
        pages = list(run)
        kinds = []
        for kind, same in groupby(pages, key=lambda r: r["kind"]):
            those = list(same)
            low, high = min(r["epoch"] for r in those), max(r["epoch"] for r in those)
            age = f"epoch {low:,}" if low == high else f"epochs {low:,} to {high:,}"
            words = f"{kind}, {age}: {spans([r['page'] for r in those])}"
            kinds.append(Fact("evicted", words, numbers={"pages": len(those), "epoch": low}))
        words = f"{counted(len(pages), 'page')} of {groups.names[group]} from the {tier}"
        found.append(Fact("eviction", words, numbers={"pages": len(pages)}, facts=tuple(kinds)))
    return found


def spans(pages: Sequence[int]) -> str:
    """Return pages in their order, adjacent ones as spans: `22 27 10..1`; not more than eight pieces."""
    pieces: list[list[int]] = []
    for page in pages:
        if pieces:
            first, last = pieces[-1]
            if abs(page - last) == 1 and (page - last) * (last - first) >= 0:
                pieces[-1][1] = page
                continue
        pieces.append([page, page])
    words = [str(first) if first == last else f"{first}..{last}" for first, last in pieces[:8]]
    return " ".join(words) + (" …" if len(pieces) > 8 else "")


FACTS: dict[str, Callable[[Decided, Groups], Fact]] = {
    "matches": match, "chunks": chunk, "reserves": reserve, "refusals": refusal, "admissions": admission,
    "holds": hold, "blockers": blocker, "states": state, "readmissions": readmission, "publications": publication,
    "reclaims": reclaim, "tickets": ticket,
}  # fmt: skip
"""Facts by table; evictions and victims are told together, verdicts and the pool are not told at a stop."""
