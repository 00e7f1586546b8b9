"""The frames of charts: title, words, and what plotly draws into; the tools that move all charts of a part."""

from __future__ import annotations

from .chart import Chart
from .gantt import KEYS
from .markup import folded, table
from .text import escape


def timeline_section(number: int, charts: list[Chart], says: str) -> str:
    """Return the charts that share the axis of part `number`, below the tools that move them; `says` is on the axis."""
    if not charts:
        return '<section><h2>Over the rounds</h2><p class="none">No round was recorded.</p></section>'
    buttons = "".join(
        f'<button type="button" data-move="{move}" title="{title}">{label}</button>'
        for move, label, title in (
            ("left", "◀", "earlier (left arrow)"), ("right", "▶", "later (right arrow)"), ("in", "+", "closer (+)"),
            ("out", "−", "wider (-)"), ("all", "whole trace", "the whole trace (0)"),
        )
    )  # fmt: skip
    return (
        f'<section class="timelines" data-number="{number}"><h2>Over the rounds</h2>'
        f'<p class="none">{escape(says)}</p><div class="tools" tabindex="0" role="toolbar"'
        f' aria-label="Part of the trace that all charts show">{buttons}'
        '<form class="range"><label>from round <input name="first" inputmode="numeric" size="8"></label>'
        '<label>to <input name="last" inputmode="numeric" size="8"></label><button>show</button></form>'
        '<span class="columns" role="status"></span></div>'
        + "".join(figure(number, chart) for chart in charts) + "</section>"
    )  # fmt: skip


def figure(number: int, chart: Chart) -> str:
    """Return the frame of a chart of part `number`."""
    name = f"chart-{number}-{chart.name}"
    more = "" if chart.table is None else folded("as a table", table(chart.table))
    keys = "" if chart.name != "gantt" else '<ul class="keys">' + "".join(
        f'<li><svg aria-hidden="true" viewBox="0 0 36 14">{drawing}</svg>{words}</li>' for words, drawing in KEYS
    ) + "</ul>"  # fmt: skip
    return (
        f'<figure class="{chart.name}"><h3 id="{name}-title">{escape(chart.title)}</h3>'
        f"<figcaption>{escape(chart.says)}</figcaption>{keys}"
        f'<div class="chart" id="{name}" role="img" aria-labelledby="{name}-title" style="height:{chart.height}px">'
        f"</div>{more}</figure>"
    )
