"""The rest, as tables: the slowest requests, who evicts whom, copies, ranks, groups and settings."""

from __future__ import annotations

from typing import Any

from .chart import Table
from .latency import percentiles
from .subject import Source
from .text import clean, duration

_MOST = 25


def tables(source: Source, decided: bool) -> list[Table]:
    """Return the tables of a part that have something to say."""
    found = [_requests(source), percentiles(source)]
    if decided:
        found.append(_cycles(source))
    found += [_copies(source), _ranks(source), _groups(source)]
    return [one for one in found if one.rows]


def _round(value: Any) -> str:
    return "–" if value is None else f"{value:,}"


def _requests(source: Source) -> Table:
    rows = source.rows(
        "request, submit_round, first_round, end_round, ended_by, ttft_ns, tpot_ns, prompt_tokens, generated_tokens,"
        " hit_tokens, retractions, recomputed_tokens", "requests", "accepted",
        f"ORDER BY (end_round IS NULL) DESC, ttft_ns DESC NULLS FIRST, submission LIMIT {_MOST}",
    )  # fmt: skip
    cells = [
        (clean(r["request"]), _round(r["submit_round"]), _round(r["first_round"]), _round(r["end_round"]),
         r["ended_by"] or "open", duration(r["ttft_ns"]), duration(r["tpot_ns"]), _round(r["prompt_tokens"]),
         _round(r["generated_tokens"]), _round(r["hit_tokens"]), _round(r["retractions"]),
         _round(r["recomputed_tokens"]))
        for r in rows
    ]  # fmt: skip
    return Table(
        f"Requests that never ended, then the longest to their first token; {_MOST} at most",
        ("request", "submitted", "first row", "ended", "by", "first token", "a token", "prompt", "generated", "hit",
         "started over", "computed again"), cells, frozenset((1, 2, 3, 5, 6, 7, 8, 9, 10, 11)),
    )  # fmt: skip


def _cycles(source: Source) -> Table:
    rows = source.rows("victim, taker, times, back_times, self_times, first_round, last_round", "retraction_cycles",
                       behind=f"ORDER BY times DESC, victim, taker LIMIT {_MOST}")  # fmt: skip
    cells = [
        (clean(r["victim"]), "–" if r["taker"] is None else clean(r["taker"]), _round(r["times"]),
         _round(r["back_times"]), _round(r["self_times"]), _round(r["first_round"]), _round(r["last_round"]))
        for r in rows
    ]  # fmt: skip
    return Table("Who was retracted, and who came in next", ("retracted", "came in", "times", "the other way round",
                 "for its own refusal", "first round", "last round"), cells, frozenset(range(2, 7)))  # fmt: skip


def _copies(source: Source) -> Table:
    rows = source.rows(
        "kind, count(*) AS n, sum(pages)::BIGINT AS pages, count(*) FILTER (acknowledged_round IS NULL) AS out,"
        " max(age_rounds) AS slowest, quantile_disc(age_ns, 0.5) AS p50, max(age_ns) AS longest",
        "acks", behind="GROUP BY kind ORDER BY kind",
    )  # fmt: skip
    names = {"write_back": "stores, device to host", "load_back": "loads, host to device"}
    cells = [
        (names.get(r["kind"], clean(r["kind"])), _round(r["n"]), _round(r["pages"]), _round(r["out"]),
         _round(r["slowest"]), duration(r["p50"]), duration(r["longest"]))
        for r in rows
    ]  # fmt: skip
    return Table("Copies between the tiers", ("copies", "operations", "pages", "never acknowledged", "most rounds",
                 "median time", "longest"), cells, frozenset(range(1, 7)))  # fmt: skip


def _ranks(source: Source) -> Table:
    rows = source.rows("against_rank, compared_rounds, different_rounds, first_round", "rank_divergence")
    cells = [
        (_round(r["against_rank"]), _round(r["compared_rounds"]), _round(r["different_rounds"]),
         _round(r["first_round"])) for r in rows
    ]  # fmt: skip
    return Table("Against another rank of its node", ("rank", "rounds compared", "rounds that differ", "first of them"),
                 cells, frozenset(range(4)))  # fmt: skip


def _groups(source: Source) -> Table:
    rows = source.rows("*", "groups", behind="ORDER BY group_index")
    cells = [
        (clean(r["group"]), clean(r["family"]), clean(r["retention"]), _round(r["block_tokens"]),
         _round(r["parent_pages"]), _round(r["window_tokens"]), "yes" if r["replayable"] else "no")
        for r in rows
    ]  # fmt: skip
    return Table("Cache groups", ("group", "family", "retention", "tokens a page", "pages an LCM parent", "window",
                 "never cached, replayed"), cells, frozenset((3, 4, 5)))  # fmt: skip
