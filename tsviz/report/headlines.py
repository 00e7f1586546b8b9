"""What a person should know first, in sentences with numbers; and the figures of the tiles below them."""

from __future__ import annotations

from dataclasses import dataclass

from tsviz.replay.lost.model import TPOT, TTFT
from tsviz.replay.overview import SLICE
from tsviz.replay.scenario.predicates import Finding

from .subject import Row, Source, SubjectPart
from .text import counted, duration, percent
from .words import cause_label, check_label

GLYPHS = {"bad": "✖", "warn": "▲", "good": "✔", "plain": "●"}
ENDLESS = ("livelock", "stall", "never_fits")
"""Findings behind which requests never end, the most telling first."""
_WAITED = frozenset(("scheduled", "scheduled_again"))
_MUCH_TAX = 0.1
_SPANS = ((TTFT, "time to first token", 0.005, 0.5), (TPOT, "time between tokens", 0.05, 0.2))
"""Spans whose waits are told: from which share on, and from which share on they are grave."""


@dataclass(frozen=True, slots=True)
class Headline:
    """One sentence, and how grave it is (a key of `GLYPHS`)."""

    grade: str
    says: str


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure: its name, the figure, and what stands below it."""

    name: str
    figure: str
    below: str
    grade: str = "plain"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the requests of a part ended."""

    accepted: int
    finished: int
    aborted: int
    failed: int
    retractions: int

    @property
    def open(self) -> int:
        """Requests that had not ended when the recording did."""
        return self.accepted - self.finished - self.aborted - self.failed

    @property
    def cut_off(self) -> list[str]:
        """Those that ended without finishing, in words: `12 aborted`, `1 failed`."""
        return [f"{n:,} {word}" for n, word in ((self.aborted, "aborted"), (self.failed, "failed")) if n]


def outcome_of(source: Source) -> Outcome:
    """Return how the requests of a part ended."""
    row = source.row(
        "count(*) AS accepted, count(*) FILTER (ended_by IN ('finish', 'succeeded')) AS finished,"
        " count(*) FILTER (ended_by = 'abort') AS aborted, count(*) FILTER (ended_by = 'failed') AS failed",
        "requests", "accepted",
    )  # fmt: skip
    gone = source.row("coalesce(sum(retracted_requests), 0)::BIGINT AS n", "rounds")
    return Outcome(row["accepted"], row["finished"], row["aborted"], row["failed"], gone["n"])


def headlines(source: Source, part: SubjectPart, ended: str) -> list[Headline]:
    """Return the sentences about a part; `ended` says why its recording stopped."""
    outcome = outcome_of(source)
    found = [one.ended for one in part.checked if isinstance(one.ended, Finding)]
    says = [_ends(outcome, found, ended)]
    for spans in (_latency(source, outcome), _waits(part), _retractions(source, outcome), _cache(source)):
        says += spans
    return says


def _ends(outcome: Outcome, found: list[Finding], ended: str) -> Headline:
    if not outcome.accepted:
        return Headline("plain", "No request was taken in.")
    if not outcome.open:
        ends = ", ".join((f"{outcome.finished:,} finished", *outcome.cut_off))
        grade = "warn" if outcome.failed else "good"
        return Headline(grade, f"{counted(outcome.accepted, 'request')}: {ends}, none is left open.")
    of = f"{outcome.open:,} of {counted(outcome.accepted, 'request')}"
    endless = sorted((f for f in found if f.name in ENDLESS), key=lambda f: ENDLESS.index(f.name))
    if endless:
        first = endless[0]
        label = "can never be scheduled" if first.name == "never_fits" else check_label(first.name)
        since = "" if first.name == "never_fits" else f" from round {first.first_round:,} to {first.last_round:,}"
        return Headline("bad", f"{of} never finish: {label}{since}.")
    when = "slice did" if ended == SLICE else f"recording did ({ended})"
    rest = f"; {', '.join((f'{outcome.finished:,} finished', *outcome.cut_off))}" if outcome.cut_off else ""
    return Headline("warn", f"{of} had not ended when the {when}{rest}.")


def _latency(source: Source, outcome: Outcome) -> list[Headline]:
    ttft = source.row("*", "ttft")
    if not ttft or not ttft["requests"]:
        return []
    of = (
        f"The first token of {ttft['requests']:,} of {outcome.accepted:,} requests is recorded: half of them have it"
        if ttft["requests"] < outcome.accepted
        else "Half of the requests have their first token"
    )
    says = (
        f"{of} within {duration(ttft['p50_ns'])}, 99 in 100 within {duration(ttft['p99_ns'])};"
        f" the longest takes {duration(ttft['max_ns'])}."
    )
    return [Headline("plain", says)]


def _waits(part: SubjectPart) -> list[Headline]:
    found = []
    for phase, words, least, grave in _SPANS:
        mine = [s for s in part.shares if s.phase == phase]
        waited = sorted((s for s in mine if s.cause not in _WAITED), key=lambda s: -s.time_ns)
        share = sum(s.share for s in waited)
        if not waited or share < least:
            continue
        causes = ", ".join(f"{cause_label(s.cause)} {percent(s.share)}" for s in waited[:3] if s.share >= 0.005)
        says = f"{percent(share)} of the {words} is spent without a row: {causes}."
        found.append(Headline("warn" if share > grave else "plain", says))
    return found


def _retractions(source: Source, outcome: Outcome) -> list[Headline]:
    if not outcome.retractions:
        return []
    tax = source.row("tax, computed_tokens", "recompute_tax")
    again = (
        f"; {percent(tax['tax'])} of all prefilled positions had been computed before"
        if tax.get("tax") is not None
        else ""
    )
    grade = "warn" if tax and tax["tax"] and tax["tax"] > _MUCH_TAX else "plain"
    return [Headline(grade, f"{counted(outcome.retractions, 'retraction')} for want of pages{again}.")]


def _cache(source: Source) -> list[Headline]:
    row = source.row("hit_rate, possible_rate", "possible_hit_rate")
    if not row or not row["possible_rate"]:
        return []
    return [Headline("plain", f"The cache gave {percent(row['hit_rate'])} of the prompt tokens;"
                              f" {percent(row['possible_rate'])} stood in earlier prompts.")]  # fmt: skip


def _latency_tile(name: str, row: Row) -> Tile:
    if not row.get("requests"):
        return Tile(name, duration(None), "no request has one here")
    return Tile(
        name, duration(row.get("p50_ns")), f"in half of {row['requests']:,}; 99 in 100: {duration(row.get('p99_ns'))}"
    )


def tiles(source: Source, ended: str) -> list[Tile]:
    """Return the figures of a part."""
    outcome = outcome_of(source)
    rounds = source.row("count(*) AS n, max(start_ns) - min(start_ns) AS ns, sum(scheduled_tokens)::BIGINT AS t",
                        "rounds")  # fmt: skip
    ttft, tpot = source.row("*", "ttft"), source.row("*", "tpot")
    hit = source.row("hit_rate", "hit_rate")
    tax = source.row("tax", "recompute_tax")
    again = f"{percent(tax['tax'])} of prefill again" if tax.get("tax") else "for want of pages"
    rate = rounds["t"] / (rounds["ns"] / 1e9) if rounds["t"] and rounds["ns"] else None
    rest = [*outcome.cut_off, *([f"{outcome.open:,} open"] if outcome.open else [])]
    return [
        Tile("requests finished", f"{outcome.finished:,}", f"of {outcome.accepted:,}"
             + (f"; {', '.join(rest)}" if rest else ""), "warn" if outcome.open or outcome.failed else "good"),
        Tile("rounds", f"{rounds['n']:,}", f"in {duration(rounds['ns'])}, {ended}"),
        _latency_tile("time to first token", ttft),
        _latency_tile("time per token", tpot),
        Tile("forward tokens", "–" if rate is None else f"{rate:,.0f} /s", f"{rounds['t'] or 0:,} in all"),
        Tile("prefix hits", percent(hit.get("hit_rate")), "of prompt tokens"),
        Tile("retractions", f"{outcome.retractions:,}", again, "warn" if outcome.retractions else "good"),
    ]  # fmt: skip
