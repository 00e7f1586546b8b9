"""Charts over rounds: requests, what they wait for, budget, pool and cache of each group, computed again, hits."""

from __future__ import annotations

from typing import Any

from .axis import Axis
from .chart import DASHES, Chart, area, bars, line, y_axis
from .subject import Row, Source
from .text import counted, percent
from .words import cause_label

_MOST_CAUSES = 6
_MOST_GROUPS = 6
_COARSE_COLUMNS = 80
"""Columns of what needs many requests in each to be a rate."""


def timelines(source: Source, axis: Axis, part: Row) -> list[Chart]:
    """Return the timelines of a part that its tables can fill; `part` is its row of `parts`."""
    decided = part["decided_round"] is not None
    charts = [_requests(source, axis)]
    if decided:
        charts.append(_waits(source, axis))
    charts.append(_budget(source, axis, part["budget_tokens"]))
    charts += [_pool(source, axis), *_cached(source, axis)] if decided else [_empty(source, axis, part)]
    charts += [*_again(source, axis), *_hits(source, axis)]
    return charts


def _mean(axis: Axis, source: Source, relation: str, *columns: str, where: str = "true") -> list[Row]:
    chosen = ", ".join(f"avg({c}) AS {c}" for c in columns)
    return source.rows(f"{axis.column()} AS bin, {chosen}", relation, where, "GROUP BY bin ORDER BY bin")


def _peak(axis: Axis, values: list[Any]) -> str:
    """Return the highest value and its round."""
    known = [(v, -i) for i, v in enumerate(values) if v is not None]
    if not known:
        return "none"
    value, index = max(known)
    return f"{value:,.0f} (round {axis.rounds[-index]:,})"


def _requests(source: Source, axis: Axis) -> Chart:
    rows = _mean(axis, source, "pool_timeline", "waiting_requests", "prefilling_requests", "decoding_requests")
    waiting, prefilling, decoding = (
        axis.filled(rows, f"{name}_requests", 0) for name in ("waiting", "prefilling", "decoding")
    )
    layers = [area("decode", "decode", decoding), area("prefill", "prefill", prefilling),
              area("wait", "queued", waiting)]  # fmt: skip
    says = f"Most that wait at once: {_peak(axis, waiting)}; most that decode: {_peak(axis, decoding)}. {axis.says}"
    return Chart("requests", "Requests by state", says, layers, y_axis("requests"))


def _waits(source: Source, axis: Axis) -> Chart:
    low = f"{axis.first} + bin * {axis.width}"
    spread = (
        f"(SELECT *, unnest(range({axis.column('since_round')}, {axis.column('until_round')} + 1)) AS bin"
        " FROM verdict_runs WHERE cause <> 'scheduled')"
    )
    held = f"least(until_round, {low} + {axis.width - 1}) - greatest(since_round, {low}) + 1"
    rows = source.rows(
        f"cause, bin, sum({held}) / {axis.width}.0 AS n", spread, behind="GROUP BY cause, bin ORDER BY bin"
    )
    totals: dict[str, float] = {}
    for row in rows:
        totals[row["cause"]] = totals.get(row["cause"], 0.0) + float(row["n"])
    ordered = sorted(totals, key=lambda cause: (-totals[cause], cause))
    named = ordered[:_MOST_CAUSES]
    layers = []
    for number, cause in enumerate(named):
        mine = [{"bin": r["bin"], "n": float(r["n"])} for r in rows if r["cause"] == cause]
        layers.append(area(cause_label(cause), f"c{number + 1}", axis.filled(mine, "n", 0)))
    if len(ordered) > len(named):
        rest: dict[int, float] = {}
        for row in rows:
            if row["cause"] not in named:
                rest[row["bin"]] = rest.get(row["bin"], 0.0) + float(row["n"])
        layers.append(area("other causes", "c7", axis.filled([{"bin": a, "n": n} for a, n in rest.items()], "n", 0)))
    whole = sum(totals.values()) or 1.0
    parts = ", ".join(f"{cause_label(cause)} {percent(totals[cause] / whole)}" for cause in named[:4])
    says = f"Requests without a row, by the reason of the scheduler: {parts or 'none'}. {axis.says}"
    return Chart("waits", "What requests wait for", says, layers, y_axis("requests without a row"))


def _budget(source: Source, axis: Axis, budget: int | None) -> Chart:
    rows = _mean(axis, source, "budget_use()", "decode_tokens", "chunk_tokens", "replay_tokens")
    decode, chunk, replay = (axis.filled(rows, f"{n}_tokens", 0) for n in ("decode", "chunk", "replay"))
    layers = [area("decode rows", "decode", decode), area("prefill chunks", "prefill", chunk)]
    if any(replay):
        layers.append(area("fed again (replay)", "replay", replay))
    used = sum(map(sum, (decode, chunk, replay)))
    says = axis.says
    if budget:
        layers.append(line("budget", "text", [budget] * axis.columns, "dash", hoverinfo="skip"))
        says = f"On average {percent(used / (budget * max(1, axis.columns)))} of {budget:,} tokens a round. {says}"
    return Chart("budget", "Token budget of each round", says, layers, y_axis("forward tokens"))


def _pool(source: Source, axis: Axis) -> Chart:
    rows = source.rows(
        f"{axis.column()} AS bin, avg(active_blocks) AS active, avg(available_blocks - empty_blocks) AS cached,"
        " avg(empty_blocks) AS empty", "pool", '"group" = 0', "GROUP BY bin ORDER BY bin",
    )  # fmt: skip
    active, cached, empty = (axis.filled(rows, name) for name in ("active", "cached", "empty"))
    layers = [area("held by requests", "pool", active), area("cache, can be evicted", "cached", cached),
              area("empty", "empty", empty)]  # fmt: skip
    least = source.row("min(available_blocks) AS least, min_by(round, available_blocks) AS round", "pool")
    says = f"Fewest that could be had: {least['least']:,} blocks (round {least['round']:,}). {axis.says}"
    return Chart("pool", "Device pool", says, layers, y_axis("LCM blocks"))


def _empty(source: Source, axis: Axis, part: Row) -> Chart:
    rows = _mean(axis, source, "pool_timeline", "empty_pages")
    least = source.row("min(empty_pages) AS least, min_by(round, empty_pages) AS round", "pool_timeline")
    says = (
        f"Fewest empty: {least['least']:,} of {part['device_pages'] - 1:,} LCM parents (round {least['round']:,})."
        f" What the others hold is not known without decisions (tsviz index). {axis.says}"
    )
    return Chart("pool", "Device pool", says, [area("empty", "cached", axis.filled(rows, "empty_pages"))],
                 y_axis("LCM parents"))  # fmt: skip


def _cached(source: Source, axis: Axis) -> list[Chart]:
    groups = source.rows('group_index, "group"', "groups", behind="ORDER BY group_index")[:_MOST_GROUPS]
    layers = []
    for number, group in enumerate(groups):
        where = f'"group" = {group["group_index"]:d}'
        values = axis.filled(_mean(axis, source, "pool", "cached_pages", where=where), "cached_pages")
        layers.append(line(f"{group['group']}", f"c{number + 1}", values, DASHES[number % len(DASHES)]))
    says = f"Pages in the device index, of {counted(len(groups), 'group')}. {axis.says}"
    return [Chart("cached", "Cached pages of each group", says, layers, y_axis("pages"))] if layers else []


def _again(source: Source, axis: Axis) -> list[Chart]:
    tax = source.row("restarts, requests, computed_tokens, recomputed_tokens, tax", "recompute_tax")
    if not tax or not tax["restarts"]:
        return []
    rows = source.rows(
        f"{axis.column()} AS bin, sum(recomputed_tokens)::BIGINT AS again,"
        " sum(end_tokens - start_tokens - recomputed_tokens)::BIGINT AS new",
        "prefill_steps", behind="GROUP BY bin ORDER BY bin",
    )  # fmt: skip
    layers = [area("computed for the first time", "prefill", axis.filled(rows, "new", 0)),
              area("computed before", "again", axis.filled(rows, "again", 0))]  # fmt: skip
    says = (
        f"{percent(tax['tax'])} of {tax['computed_tokens']:,} prefilled positions had been computed before:"
        f" {counted(tax['requests'], 'request')} started over {tax['restarts']:,} times. {axis.says}"
    )
    gone = source.rows(f"{axis.column()} AS bin, sum(retracted_requests)::BIGINT AS n", "pool_timeline",
                       behind="GROUP BY bin ORDER BY bin")  # fmt: skip
    retracted = axis.filled(gone, "n", 0)
    total = sum(v for v in retracted if v)
    return [
        Chart("retractions", "Retractions", f"{total:,} for want of pages. {axis.says}",
              [bars("retracted", "retracted", retracted)], y_axis("requests"), height=170),
        Chart("again", "Prefilled positions, new and again", says, layers, y_axis("positions")),
    ]  # fmt: skip


def _hits(source: Source, axis: Axis) -> list[Chart]:
    width = axis.width * -(-axis.columns // _COARSE_COLUMNS)
    if not width:
        return []
    at = f"(first_round - {axis.first}) // {width}"
    rows = source.rows(
        f"{at} AS bin, sum(hit_tokens) / sum(prompt_tokens) AS hit,"
        " sum(possible_tokens) / sum(prompt_tokens) AS possible",
        "possible_hits", behind="GROUP BY bin ORDER BY bin",
    )  # fmt: skip
    whole = source.row("hit_rate, possible_rate", "possible_hit_rate")
    if not rows or not whole.get("possible_rate"):
        return []
    x = [axis.first + row["bin"] * width for row in rows]
    layers = [
        {**bars("found", "decode", [round(100 * r["hit"], 1) for r in rows]), "x": x, "width": width * 0.9,
         "offset": 0},
        {**line("possible, were the cache without bounds", "text", [round(100 * r["possible"], 1) for r in rows]),
         "x": x},
    ]  # fmt: skip
    says = (
        f"{percent(whole['hit_rate'])} of the prompt tokens were found at first admission;"
        f" {percent(whole['possible_rate'])} stood in earlier prompts. Each column is {counted(width, 'round')},"
        " by the round of the first row."
    )
    return [Chart("hits", "Prefix hits", says, layers, y_axis("% of prompt tokens"), height=200)]
