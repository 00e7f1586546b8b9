"""Lost time by cause: where the spans of requests went (`replay.lost.blame`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tsviz.replay.lost.blame import Share
from tsviz.replay.lost.model import PHASES

from .chart import Chart, Table, patterned
from .text import charted, duration, percent
from .words import SPAN_LABELS, cause_label

_LEAST_SHARE = 0.005
_ROLES = ("c1", "c2", "c3", "c4", "c5", "c6")
_LEAST_LABEL = 6.0
"""Percent from which on a piece of a bar has its number on it."""
OTHER = "c7"


def cause_roles(shares: Sequence[Share]) -> dict[str, str]:
    """Return the causes that have a colour of their own in all charts of a part, those that took most time first."""
    totals: dict[str, int] = {}
    for share in shares:
        totals[share.cause] = totals.get(share.cause, 0) + share.time_ns
    causes = sorted((cause for cause in totals if cause != "scheduled"), key=lambda cause: (-totals[cause], cause))
    return dict(zip(causes, _ROLES, strict=False))


def lost_time(shares: Sequence[Share]) -> Chart | None:
    """Return a bar a span, split by cause; None where decisions are not known."""
    if not shares:
        return None
    phases = [phase for phase in PHASES if any(s.phase == phase for s in shares)]
    roles = cause_roles(shares)
    values = {(s.phase, s.cause): 100 * s.share for s in shares}
    rest = [cause for cause in {s.cause: 0 for s in shares} if cause not in roles and cause != "scheduled"]
    pieces = [("row", ["scheduled"], cause_label("scheduled"))]
    pieces += [(role, [cause], cause_label(cause)) for cause, role in roles.items()]
    pieces += [(OTHER, rest, "other causes")] if rest else []
    layers, labels = [], []
    begins = [0.0] * len(phases)
    for role, causes, name in pieces:
        x = [sum(values.get((phase, cause), 0.0) for cause in causes) for phase in phases]
        layers.append(_layer(name, role, [round(v, 2) for v in x], phases))
        labels += [_label(phase, begin + v / 2, v) for phase, begin, v in zip(phases, begins, x, strict=True)
                   if v >= _LEAST_LABEL]  # fmt: skip
        begins = [begin + v for begin, v in zip(begins, x, strict=True)]
    layout = {"barmode": "stack", "xaxis": {"range": [0, 100], "ticksuffix": " %"}, "yaxis": {"autorange": "reversed"},
              "bargap": 0.35, "annotations": labels}  # fmt: skip
    return Chart("lost", "Where the time went", _says(shares), layers, layout, timed=False,
                 height=110 + 60 * len(phases), table=_table(shares))  # fmt: skip


def _layer(name: str, role: str, x: list[float], phases: list[str]) -> dict[str, Any]:
    return {
        "type": "bar", "orientation": "h", "name": charted(name), "x": x, "y": [SPAN_LABELS[p] for p in phases],
        "marker": patterned(role), "hovertemplate": f"{charted(name)}: %{{x:.1f}} %<extra></extra>",
    }  # fmt: skip


def _label(phase: str, at: float, value: float) -> dict[str, Any]:
    return {"x": round(at, 2), "y": SPAN_LABELS[phase], "text": f"{value:.0f} %", "showarrow": False, "borderpad": 2,
            "font": {"color": "@text", "size": 12}, "bgcolor": "@ground"}  # fmt: skip


def _says(shares: Sequence[Share]) -> str:
    first = sorted((s for s in shares if s.phase == PHASES[0]), key=lambda s: -s.time_ns)[:3]
    if not first:
        return "No request had a first token."
    parts = ", ".join(f"{cause_label(s.cause)} {percent(s.share)}" for s in first)
    return f"Of the time to first token, summed over {first[0].spans:,} requests: {parts}."


def _table(shares: Sequence[Share]) -> Table:
    rows = [
        (SPAN_LABELS[s.phase], cause_label(s.cause), duration(s.time_ns), percent(s.share), duration(s.mean_ns))
        for s in shares if s.share >= _LEAST_SHARE
    ]  # fmt: skip
    return Table(
        f"Lost time by cause, from {percent(_LEAST_SHARE)} of a span on (tsviz blame has all)",
        ("span", "cause", "time, all requests", "of the span", "a request (a token between tokens)"), rows,
        frozenset({2, 3, 4}),
    )  # fmt: skip
