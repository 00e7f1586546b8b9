"""The numbers of a chart as a table, for those who do not see it: pieces of the trace, or the columns of a histogram.

A table has at most some twenty lines; the trace itself has the rest (`tsviz sql`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .axis import Axis
from .chart import Chart, Table
from .text import clean

_PIECES = 20


def told(chart: Chart, axis: Axis) -> Chart:
    """Return a chart with a table of its numbers, unless it has one or is drawn of lanes."""
    if chart.table is not None or not chart.data:
        return chart
    made = _over_rounds(chart, axis) if chart.timed else _columns(chart)
    return chart if made is None else replace(chart, table=made)


def _over_rounds(chart: Chart, axis: Axis) -> Table | None:
    """Return the mean of every layer in each of some pieces of the rounds; of points the highest one too."""
    layers = [layer for layer in chart.data if isinstance(layer.get("y"), list) and layer.get("hoverinfo") != "skip"]
    if not layers or not axis.columns:
        return None
    each = axis.coarse(_PIECES)
    firsts = range(axis.first, axis.last + 1, each)
    headings, columns = ["rounds"], [[_rounds(first, min(first + each - 1, axis.last)) for first in firsts]]
    for layer in layers:
        name = clean(str(layer.get("name") or chart.title))
        pieces = _pieces(layer, axis, each, len(firsts))
        headings.append(f"{name}, mean")
        columns.append([_number(sum(piece) / len(piece)) if piece else "–" for piece in pieces])
        if layer.get("mode") == "markers":
            headings.append(f"{name}, most")
            columns.append([_number(max(piece)) if piece else "–" for piece in pieces])
    rows = [tuple(row) for row in zip(*columns, strict=True)]
    unit = clean(str(chart.layout.get("yaxis", {}).get("title", {}).get("text", "")))
    caption = f"{chart.title}: {unit}" if unit else chart.title
    return Table(caption, tuple(headings), rows, frozenset(range(1, len(headings))))


def _pieces(layer: dict[str, Any], axis: Axis, each: int, many: int) -> list[list[float]]:
    """Return the values of a layer by the piece of rounds in which they stand."""
    x = layer.get("x") or axis.rounds
    pieces: list[list[float]] = [[] for _ in range(many)]
    for round_, value in zip(x, layer["y"], strict=False):
        place = (int(round_) - axis.first) // each
        if value is not None and 0 <= place < many:
            pieces[place].append(float(value))
    return pieces


def _columns(chart: Chart) -> Table | None:
    """Return how many stand in each column of a histogram that is not empty."""
    layer = chart.data[0]
    names, counts = layer.get("text"), layer.get("y")
    if not isinstance(names, list) or not isinstance(counts, list):
        return None
    rows = [(clean(str(name)), f"{count:,}") for name, count in zip(names, counts, strict=False) if count]
    return Table(chart.title, ("from, to", "requests"), rows, frozenset({1}))


def _rounds(first: int, last: int) -> str:
    return f"{first:,}" if first == last else f"{first:,} to {last:,}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) or value >= 1000 else f"{value:,.2f}"


def of_all(charts: Sequence[Chart], axis: Axis) -> list[Chart]:
    """Return charts, each with its table."""
    return [told(chart, axis) for chart in charts]
