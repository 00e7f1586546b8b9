"""Charts of prefill work: what is computed again, retractions, and what the cache saved."""

from __future__ import annotations

from .axis import Axis
from .chart import Chart, area, line, y_axis
from .subject import Source
from .text import counted, percent

_COARSE_COLUMNS = 100
"""Columns of what is counted, or needs many requests in each to be a rate."""


def again(source: Source, axis: Axis) -> list[Chart]:
    """Return retractions and the recompute tax; nothing where no request started over.

    Of a slice the tax is not known where a request that starts over had run before it.
    """
    tax = source.row("restarts, requests, computed_tokens, recomputed_tokens, tax", "recompute_tax")
    if not tax or not tax["restarts"]:
        return []
    if tax["tax"] is None:
        return [_retractions(source, axis)]
    rows = source.rows(
        f"{axis.column()} AS bin, sum(recomputed_tokens) / {axis.width}.0 AS again,"
        f" sum(end_tokens - start_tokens - recomputed_tokens) / {axis.width}.0 AS new",
        "prefill_steps", behind="GROUP BY bin ORDER BY bin",
    )  # fmt: skip
    layers = [area("computed for the first time", "prefill", axis.filled(rows, "new", 0)),
              area("computed before", "again", axis.filled(rows, "again", 0))]  # fmt: skip
    says = (
        f"{percent(tax['tax'])} of {tax['computed_tokens']:,} prefilled positions had been computed before:"
        f" {counted(tax['requests'], 'request')} started over {tax['restarts']:,} times."
    )
    return [
        _retractions(source, axis),
        Chart("again", "Prefilled positions, new and again", says, layers, y_axis("positions a round")),
    ]


def _retractions(source: Source, axis: Axis) -> Chart:
    width = axis.coarse(_COARSE_COLUMNS)
    rows = source.rows(f"(round - {axis.first}) // {width} AS bin, sum(retracted_requests)::BIGINT AS n",
                       "pool_timeline", behind="GROUP BY bin HAVING n > 0 ORDER BY bin")  # fmt: skip
    total, most = sum(row["n"] for row in rows), max(rows, key=lambda row: row["n"])
    begin = axis.first + most["bin"] * width
    says = (
        f"{total:,} for want of pages. Each column is {counted(width, 'round')}; the highest, {most['n']:,}, begins"
        f" with round {begin:,}."
    )
    return Chart("retractions", "Retractions", says, [axis.bars("retracted", "retracted", rows, "n", width)],
                 y_axis("retractions"), height=180)  # fmt: skip


def hits(source: Source, axis: Axis) -> list[Chart]:
    """Return hits at first admission beside what was possible; nothing where the views do not say."""
    width = axis.coarse(_COARSE_COLUMNS)
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
        axis.bars("found", "decode", rows, "hit", width, 100),
        {**line("possible, were the cache without bounds", "text", [round(100 * r["possible"], 1) for r in rows]),
         "x": x},
    ]  # fmt: skip
    says = (
        f"{percent(whole['hit_rate'])} of the prompt tokens were found at first admission;"
        f" {percent(whole['possible_rate'])} stood in earlier prompts. Each column is {counted(width, 'round')},"
        " by the round of the first row."
    )
    return [Chart("hits", "Prefix hits", says, layers, y_axis("% of prompt tokens"), height=200)]
