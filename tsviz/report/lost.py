"""Lost time by cause: where the spans of requests went (`replay.blame`)."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.replay.blame import PHASES, Share

from .chart import Chart, Table, patterned
from .text import charted, duration, percent
from .words import SPAN_LABELS, cause_label

_LEAST_SHARE = 0.005
_ROLES = ("c1", "c2", "c3", "c4", "c5", "c6", "c7")


def lost_time(shares: Sequence[Share]) -> Chart | None:
    """Return a bar a span, split by cause; None where decisions are not known."""
    if not shares:
        return None
    phases = [phase for phase in PHASES if any(s.phase == phase for s in shares)]
    totals: dict[str, float] = {}
    for share in shares:
        totals[share.cause] = totals.get(share.cause, 0.0) + share.share
    causes = sorted((c for c in totals if c != "scheduled"), key=lambda c: (-totals[c], c))
    named, rest = causes[: len(_ROLES) - 1], causes[len(_ROLES) - 1 :]
    values = {(s.phase, s.cause): 100 * s.share for s in shares}
    layers = []
    for role, causes_here, name in [
        ("decode", ["scheduled"], "had a row"),
        *((role, [cause], cause_label(cause)) for role, cause in zip(_ROLES, named, strict=False)),
        *([("c7", rest, "other causes")] if rest else []),
    ]:
        x = [round(sum(values.get((phase, cause), 0.0) for cause in causes_here), 2) for phase in phases]
        layers.append({
            "type": "bar", "orientation": "h", "name": charted(name), "x": x,
            "y": [SPAN_LABELS[phase] for phase in phases],
            "marker": patterned(role),
            "text": [f"{v:.0f} %" if v >= 6 else "" for v in x], "insidetextanchor": "middle", "textangle": 0,
            "hovertemplate": f"{charted(name)}: %{{x:.1f}} %<extra></extra>",
        })  # fmt: skip
    layout = {"barmode": "stack", "xaxis": {"range": [0, 100], "ticksuffix": " %"}, "yaxis": {"autorange": "reversed"},
              "bargap": 0.35}  # fmt: skip
    return Chart("lost", "Where the time went", _says(shares), layers, layout, timed=False,
                 height=110 + 60 * len(phases), table=_table(shares))  # fmt: skip


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
