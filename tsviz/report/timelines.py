"""Charts over rounds: requests, what they wait for, budget, pool and cache of each group, computed again, hits."""

from __future__ import annotations

from .axis import Axis
from .chart import Chart, area, line, y_axis
from .lost import OTHER
from .pools import cached_pages, empty_pages, pool
from .subject import Row, Source
from .text import percent
from .words import cause_label
from .work import again, hits


def timelines(source: Source, axis: Axis, part: Row, roles: dict[str, str], decided: bool) -> list[Chart]:
    """Return the timelines of a part that its tables can fill; `part` is its row of `parts`.

    `roles` gives causes the colours that they have in other charts.
    """
    charts = [_requests(source, axis)]
    if decided:
        charts.append(_waits(source, axis, roles))
    charts.append(_budget(source, axis, part["budget_tokens"]))
    charts += [pool(source, axis), *cached_pages(source, axis)] if decided else [empty_pages(source, axis, part)]
    charts += [*again(source, axis), *hits(source, axis)]
    return charts


def _requests(source: Source, axis: Axis) -> Chart:
    rows = axis.means(source, "pool_timeline", "waiting_requests", "prefilling_requests", "decoding_requests")
    waiting, prefilling, decoding = (
        axis.filled(rows, f"{name}_requests", 0) for name in ("waiting", "prefilling", "decoding")
    )
    layers = [area("decode", "decode", decoding), area("prefill", "prefill", prefilling),
              area("wait", "queued", waiting)]  # fmt: skip
    most = [_most(source, f"{name}_requests") for name in ("waiting", "decoding")]
    says = f"Most that wait at once: {most[0]}; most that decode: {most[1]}."
    return Chart("requests", "Requests by state", says, layers, y_axis("requests"))


def _waits(source: Source, axis: Axis, roles: dict[str, str]) -> Chart:
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
    layers: dict[str, dict[int, float]] = {}
    for row in rows:
        n = float(row["n"])
        totals[row["cause"]] = totals.get(row["cause"], 0.0) + n
        layer = layers.setdefault(roles.get(row["cause"], OTHER), {})
        layer[row["bin"]] = layer.get(row["bin"], 0.0) + n
    names = {role: cause_label(cause) for cause, role in roles.items()} | {OTHER: "other causes"}
    stack = [
        area(names[role], role, axis.filled([{"bin": bin_, "n": n} for bin_, n in layers[role].items()], "n", 0))
        for role in names if role in layers
    ]  # fmt: skip
    named = sorted(totals, key=lambda cause: (-totals[cause], cause))
    whole = sum(totals.values()) or 1.0
    parts = ", ".join(f"{cause_label(cause)} {percent(totals[cause] / whole)}" for cause in named[:4])
    says = f"Requests without a row, by the reason of the scheduler: {parts or 'none'}."
    return Chart("waits", "What requests wait for", says, stack, y_axis("requests without a row"))


def _budget(source: Source, axis: Axis, budget: int | None) -> Chart:
    rows = axis.means(source, "budget_use()", "decode_tokens", "chunk_tokens", "replay_tokens")
    decode, chunk, replay = (axis.filled(rows, f"{n}_tokens", 0) for n in ("decode", "chunk", "replay"))
    layers = [area("decode rows", "decode", decode), area("prefill chunks", "prefill", chunk)]
    if any(replay):
        layers.append(area("fed again (replay)", "replay", replay))
    used = sum(map(sum, (decode, chunk, replay)))
    says = ""
    if budget:
        layers.append(line("budget", "text", [budget] * axis.columns, "dash", hoverinfo="skip"))
        says = f"On average {percent(used / (budget * max(1, axis.columns)))} of {budget:,} tokens a round."
    return Chart("budget", "Token budget of each round", says, layers, y_axis("forward tokens"))


def _most(source: Source, column: str) -> str:
    """Return the highest value of a column of `pool_timeline`, and the first round that has it."""
    row = source.first(f"{column} AS most, round", "pool_timeline", "most DESC, round")
    return f"{row['most']:,} (round {row['round']:,})" if row else "none"
