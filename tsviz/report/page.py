"""The page: header, headlines, findings, charts and tables of every part, in one file that needs nothing else."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import Any

from .axis import Axis, axis_of
from .chart import Chart
from .gantt import gantt
from .headlines import GLYPHS, headlines, tiles
from .latency import distributions, over_time
from .library import Library, digest
from .lost import lost_time
from .markup import folded, table
from .problems import problems
from .subject import Source, Subject, SubjectPart
from .tables import tables
from .text import clean, embedded, escape
from .timelines import timelines


def page(subject: Subject, library: Library) -> str:
    """Return the HTML of the report. Raises QueryError where the trace cannot be asked."""
    script = _asset("page.js")
    data: list[dict[str, Any]] = []
    sections = [_part(subject, part, data) for part in subject.parts]
    name = escape(clean(subject.about["name"]))
    policy = (
        f"default-src 'none'; script-src '{digest(script)}' '{library.digest}'; style-src 'unsafe-inline';"
        " img-src data: blob:; base-uri 'none'; form-action 'none'"
    )
    return "".join((
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n',
        '<meta name="referrer" content="no-referrer">\n',
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n',
        '<meta name="color-scheme" content="light dark">\n',
        f"<title>{name} · tsviz report</title>\n<style>{_asset('page.css')}</style>\n</head>\n<body>\n",
        _header(subject), "<main>", *sections, _about(subject, library), "</main>\n",
        '<div id="place" role="status" aria-live="polite" hidden></div><div id="tip" hidden></div>\n',
        f'<script type="application/json" id="report-data">{embedded(data)}</script>\n',
        f'<script type="text/plain" id="plotly-packed">{library.packed}</script>\n',
        f"<script>{script}</script>\n</body>\n</html>\n",
    ))  # fmt: skip


def _asset(name: str) -> str:
    return files("tsviz.report").joinpath("assets", name).read_text(encoding="utf-8")


def _header(subject: Subject) -> str:
    about = subject.about
    links = ""
    if len(subject.parts) > 1:
        links = '<nav aria-label="Schedulers">' + "".join(
            f'<a href="#{_anchor(part)}">{escape(part.name)}</a>' for part in subject.parts
        ) + "</nav>"  # fmt: skip
    engines = ", ".join(dict.fromkeys(clean(part["engine"]) for part in about["parts"]))
    warnings = "".join(f'<p class="warning">▲ {escape(text)}</p>' for text in about["warnings"])
    return (
        f'<header><div><p class="kind">tsviz report</p><h1>{escape(clean(about["name"]))}</h1>'
        f'<p class="facts">{escape(engines)}, {escape(_workload(about))}</p></div>{links}'
        '<div class="switches"><label>time axis <select id="axis"><option value="rounds">rounds</option>'
        '<option value="seconds">seconds</option></select></label>'
        '<label>theme <select id="theme"><option value="">system</option><option value="light">light</option>'
        f'<option value="dark">dark</option></select></label></div></header>{warnings}'
    )


def _workload(about: dict[str, Any]) -> str:
    workload = about["workload"]
    return clean(workload.get("file") or workload.get("kind") or "unknown workload")


def _anchor(part: SubjectPart) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "-", f"part-{part.name}")


def _part(subject: Subject, part: SubjectPart, data: list[dict[str, Any]]) -> str:
    source = Source(subject, part)
    axis = axis_of(source)
    row = source.row("*", "parts")
    about: dict[str, Any] = next((p for p in subject.about["parts"] if p["part"] == part.name), {})
    ended = clean(about.get("ended", "not closed")).replace("_", " ")
    decided = row["decided_round"] is not None
    several = len(subject.parts) > 1
    number = len(data)
    says = "".join(
        f'<li class="{h.grade}"><span class="glyph {h.grade}" aria-hidden="true">{GLYPHS[h.grade]}</span>'
        f" {escape(h.says)}</li>"
        for h in headlines(source, part, ended)
    )
    figures = "".join(
        f'<div class="tile {t.grade}"><dt>{escape(t.name)}</dt><dd><b>{escape(t.figure)}</b>'
        f"<span>{escape(t.below)}</span></dd></div>"
        for t in tiles(source, ended)
    )
    timed, others = _charts(source, axis, part, row, decided)
    data.append({
        "trace": subject.trace, "part": part.name, "rounds": axis.rounds, "seconds": axis.seconds,
        "first": axis.first, "last": axis.last, "width": axis.width,
        "charts": [_packed(chart) for chart in (*timed, *others)],
    })  # fmt: skip
    title = f'<h2 class="part">{escape(part.name)} <small>{escape(clean(row["role"]))}</small></h2>' if several else ""
    return (
        f'<section class="part" id="{_anchor(part)}">{title}<ul class="headlines">{says}</ul>'
        f'<dl class="tiles">{figures}</dl>'
        f'<section class="findings" aria-label="Findings"><h2>Findings</h2>{problems(subject, part, source, decided)}'
        f"</section>{_timelines(number, timed)}"
        f'<section><h2>Distributions</h2><div class="grid">'
        f"{''.join(_figure(number, chart) for chart in others)}</div></section>"
        f"<section><h2>Tables</h2>{''.join(table(one) for one in tables(source, decided))}</section></section>"
    )


def _charts(
    source: Source, axis: Axis, part: SubjectPart, row: dict[str, Any], decided: bool
) -> tuple[list[Chart], list[Chart]]:
    if not axis.columns:
        return [], []
    lanes, arrivals, lost = gantt(source, axis, part, decided), over_time(source, axis), lost_time(part.shares)
    timed = [*([lanes] if lanes else []), *timelines(source, axis, row), *([arrivals] if arrivals else [])]
    return timed, [*([lost] if lost else []), *distributions(source)]


def _packed(chart: Chart) -> dict[str, Any]:
    return {"name": chart.name, "timed": chart.timed, "data": chart.data, "layout": chart.layout,
            "height": chart.height, **chart.extra}  # fmt: skip


def _timelines(number: int, charts: list[Chart]) -> str:
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
        f'<div class="tools" tabindex="0" role="toolbar" aria-label="Part of the trace that all charts show">{buttons}'
        '<form class="range"><label>from round <input name="first" inputmode="numeric" size="8"></label>'
        '<label>to <input name="last" inputmode="numeric" size="8"></label><button>show</button></form></div>'
        + "".join(_figure(number, chart) for chart in charts) + "</section>"
    )  # fmt: skip


def _figure(number: int, chart: Chart) -> str:
    name = f"chart-{number}-{chart.name}"
    more = "" if chart.table is None else folded("as a table", table(chart.table))
    return (
        f'<figure class="{chart.name}"><h3 id="{name}-title">{escape(chart.title)}</h3>'
        f"<figcaption>{escape(chart.says)}</figcaption>"
        f'<div class="chart" id="{name}" role="img" aria-labelledby="{name}-title" style="height:{chart.height}px">'
        f"</div>{more}</figure>"
    )


def _about(subject: Subject, library: Library) -> str:
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>"
        for name, text in (
            ("trace", subject.trace), ("recorded by", subject.about["command"]),
            ("schema", subject.about["schema"]), ("tokens", subject.about["tokens"]),
            ("drawn by", f"tsviz {subject.version}, plotly {library.version}"),
        )
    )  # fmt: skip
    return f'<section class="about"><h2>About this file</h2><dl>{rows}</dl></section>'
