"""One scheduler of the trace: headlines, figures, findings, charts and tables."""

from __future__ import annotations

import re
from typing import Any

from tsviz.replay.scenario.predicates import Finding

from .axis import Axis, axis_of
from .chart import Chart
from .figures import figure, timeline_section
from .gantt import gantt
from .headlines import GLYPHS, headlines, tiles
from .latency import distributions, over_time
from .lost import cause_roles, lost_time
from .markup import table
from .problems import problems
from .subject import Source, Subject, SubjectPart
from .tables import tables
from .text import clean, escape
from .timelines import timelines
from .told import of_all
from .words import check_label


def anchor(part: SubjectPart) -> str:
    """Return the id of a part in the page."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", f"part-{part.name}")


def part_section(subject: Subject, part: SubjectPart, data: list[dict[str, Any]]) -> str:
    """Return the HTML of a part, and put what its charts draw behind `data`. Raises QueryError."""
    source = Source(subject, part)
    twin = _same_as(source)
    if twin is not None:
        says = f"makes the same plans as {part.node}/{twin} in every round: what is said of that one holds for it too."
        return f'<section class="part" id="{anchor(part)}"><h2 class="part">{escape(part.name)}</h2>' \
               f"<p>{escape(part.name)} {escape(says)}</p></section>"  # fmt: skip
    axis = axis_of(source)
    row = source.row("*", "parts")
    about: dict[str, Any] = next((p for p in subject.about["parts"] if p["part"] == part.name), {})
    ended = clean(about.get("ended", "not closed")).replace("_", " ")
    decided = row["decided_round"] is not None and row["decided_round"] >= axis.last
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
        "first": axis.first, "last": axis.last, "width": axis.width, "shade": _standing(part),
        "charts": [_packed(chart) for chart in (*timed, *others)],
    })  # fmt: skip
    title = f'<h2 class="part">{escape(part.name)} <small>{escape(clean(row["role"]))}</small></h2>' if several else ""
    return (
        f'<section class="part" id="{anchor(part)}">{title}<ul class="headlines">{says}</ul>'
        f'<dl class="tiles">{figures}</dl>{_unknown(row, axis)}'
        f'<section class="findings" aria-label="Findings"><h2>Findings</h2>{problems(subject, part, source, decided)}'
        f"</section>{timeline_section(number, timed, axis.says)}"
        f'<section><h2>Distributions</h2><div class="grid">'
        f"{''.join(figure(number, chart) for chart in others)}</div></section>"
        f"<section><h2>Tables</h2>{''.join(table(one) for one in tables(source, decided))}</section></section>"
    )


def _charts(
    source: Source, axis: Axis, part: SubjectPart, row: dict[str, Any], decided: bool
) -> tuple[list[Chart], list[Chart]]:
    if not axis.columns:
        return [], []
    lanes, arrivals, lost = gantt(source, axis, part, decided), over_time(source, axis), lost_time(part.shares)
    timed = [
        *([lanes] if lanes else []),
        *timelines(source, axis, row, cause_roles(part.shares), decided),
        *([arrivals] if arrivals else []),
    ]
    return of_all(timed, axis), of_all([*([lost] if lost else []), *distributions(source)], axis)


def _same_as(source: Source) -> int | None:
    """Return the lowest rank of the node if this one is another and makes its plans, all of them."""
    row = source.row("against_rank, compared_rounds, different_rounds", "rank_divergence")
    rounds = source.row("count(*) AS n", "rounds")["n"]
    if not row or row["different_rounds"] or row["compared_rounds"] != rounds:
        return None
    rank: int = row["against_rank"]
    return rank


def _unknown(row: dict[str, Any], axis: Axis) -> str:
    """Say which rounds' decisions are missing, and what is left out for it."""
    known = row["decided_round"]
    if not axis.columns or (known is not None and known >= axis.last):
        return ""
    upto = "are not known" if not known else f"are known only up to round {known:,} of {axis.last:,}"
    return (
        f'<p class="warning">▲ Decisions {upto}: the charts that need them for every round are left out (what requests'
        " wait for, what the pool holds), and phases of requests are those that rows of the trace show.</p>"
    )


def _standing(part: SubjectPart) -> tuple[int, int, str] | None:
    """Return the rounds that the charts mark from the start: those in which nothing moves on."""
    for one in part.checked:
        if isinstance(one.ended, Finding) and one.check.name in ("livelock", "stall"):
            return one.ended.first_round, one.ended.last_round, check_label(one.check.name)
    return None


def _packed(chart: Chart) -> dict[str, Any]:
    return {"name": chart.name, "timed": chart.timed, "data": chart.data, "layout": chart.layout,
            "height": chart.height, **chart.extra}  # fmt: skip
