"""Distributions of time to first token, time per token and queue time, and the first of them over the run."""

from __future__ import annotations

import math
from typing import Any

from .axis import Axis
from .chart import Chart, Table, bars, y_axis
from .subject import Row, Source
from .text import counted, duration

_MOST_POINTS = 3_000
_SHORTEST_NS = 100_000
"""What a logarithmic axis draws shorter times at."""
_BINS = 40
MEASURES = (("ttft", "Time to first token"), ("tpot", "Time per output token"), ("queue", "Queue"))
_POINTS = (("half", 50), ("99 in 100", 99))


def distributions(source: Source) -> list[Chart]:
    """Return a histogram a measure, over requests that have it."""
    charts = []
    for name, title in MEASURES:
        rows = source.rows(f"{name}_ns AS ns", "requests", f"{name}_ns IS NOT NULL", f"ORDER BY {name}_ns")
        values = [float(row["ns"]) for row in rows]
        if values:
            charts.append(_histogram(name, title, values))
    return charts


def quantile(ordered: list[float], percent: int) -> float:
    """Return the smallest value that at least `percent` of the values do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def _histogram(name: str, title: str, ordered: list[float]) -> Chart:
    low, high = (math.log10(max(v, 1e6)) for v in (ordered[0], ordered[-1]))
    low, high = math.floor(low * 4) / 4, max(math.ceil(high * 4) / 4, low + 0.5)
    width = (high - low) / _BINS
    counts = [0] * _BINS
    below = 0
    for value in ordered:
        if value < 1e6:
            below += 1
        counts[min(_BINS - 1, int((math.log10(max(value, 1e6)) - low) / width))] += 1
    centres = [round(10 ** (low + (i + 0.5) * width) / 1e9, 6) for i in range(_BINS)]
    edges = [duration(10 ** (low + i * width)) for i in range(_BINS + 1)]
    data: dict[str, Any] = bars(title, "decode", counts) | {
        "x": centres, "width": [round(10 ** (low + (i + 1) * width) / 1e9 - 10 ** (low + i * width) / 1e9, 7)
                                for i in range(_BINS)],
        "text": [f"{edges[i]} to {edges[i + 1]}" for i in range(_BINS)], "textposition": "none",
        "hovertemplate": "%{text}: %{y:,} requests<extra></extra>", "showlegend": False,
    }  # fmt: skip
    points = [(label, quantile(ordered, p)) for label, p in _POINTS]
    marked = [(*point, dash) for point, dash in zip(points, ("solid", "dash"), strict=True) if point[1] >= 1e6]
    layout = y_axis("requests") | {
        "xaxis": {"type": "log", "range": [low - 9, high - 9], **_ticks(low, high)}, "bargap": 0.05,
        "shapes": [{"type": "line", "x0": at / 1e9, "x1": at / 1e9, "yref": "paper", "y0": 0, "y1": 1,
                    "line": {"color": "@text", "width": 1.2, "dash": dash}} for _, at, dash in marked],
        "annotations": [{"x": math.log10(at / 1e9), "y": 1 - 0.14 * row, "yref": "paper", "text": label,
                         "xanchor": "right", "yanchor": "top", "showarrow": False, "bgcolor": "@ground", "borderpad": 1,
                         "font": {"size": 11, "color": "@text"}} for row, (label, at, _) in enumerate(marked)],
    }  # fmt: skip
    says = f"Half of {counted(len(ordered), 'request')} within {duration(points[0][1])}, 99 in 100 within" \
           f" {duration(points[1][1])}, the longest {duration(ordered[-1])}."  # fmt: skip
    if below:
        says += f" {below:,} below 1 ms stand in the first column."
    return Chart(f"hist-{name}", title, says, [data], layout, timed=False, height=230)


def _ticks(low: float, high: float) -> dict[str, Any]:
    """Return round times between two powers of ten of nanoseconds; more of them where there are few."""
    steps = (1, 2, 5) if high - low < 2.5 else (1,)
    times = [s * 10**e for e in range(math.floor(low), math.ceil(high) + 1) for s in steps]
    times = [t for t in times if low - 0.01 <= math.log10(t) <= high + 0.01]
    words = [f"{t // 10**9:,} s" if t >= 10**9 else f"{t // 10**6} ms" for t in times]
    return {"tickvals": [t / 1e9 for t in times], "ticktext": words}


def percentiles(source: Source) -> Table:
    """Return the percentiles as the views `ttft` and `tpot` have them."""
    rows = []
    for name, title in MEASURES[:2]:
        found: Row = source.row("*", name)
        if found and found["requests"]:
            figures = [duration(found[f"{p}_ns"]) for p in ("mean", "p50", "p90", "p99", "max")]
            rows.append((title, f"{found['requests']:,}", *figures))
    return Table("Latencies", ("", "requests", "mean", "median", "90 %", "99 %", "longest"), rows,
                 frozenset(range(1, 7)))  # fmt: skip


def over_time(source: Source, axis: Axis) -> Chart | None:
    """Return time to first token by the round of submission, a point a request."""
    total = source.row("count(ttft_ns) AS n", "requests").get("n") or 0
    if not total or not axis.columns:
        return None
    step = -(-total // _MOST_POINTS)
    rows = source.rows("submission, submit_round, ttft_ns", "requests",
                       f"ttft_ns IS NOT NULL AND submission % {step} = 0", "ORDER BY submission")  # fmt: skip
    data = {
        "type": "scatter", "mode": "markers", "name": "time to first token",
        "x": [r["submit_round"] for r in rows], "y": [round(max(r["ttft_ns"], _SHORTEST_NS) / 1e9, 4) for r in rows],
        "marker": {"color": "@decode", "size": 4, "symbol": "circle", "opacity": 0.7}, "showlegend": False,
        "hovertemplate": "%{y:.3f} s<extra></extra>",
    }  # fmt: skip
    says = "A point a request, at the round in which it was submitted."
    if step > 1:
        says += f" One request in {step:,} is drawn."
    layout = y_axis("seconds", type="log", dtick=1)
    return Chart("ttft", "Time to first token, by submission", says, [data], layout, height=220)
