"""How far an answer about the whole trace has come, in words: running, stopped, broken, decisions known to where."""

from __future__ import annotations

from tsviz.replay.survey.ask import Extent
from tsviz.tui.clean import shorten
from tsviz.tui.lines import Line, Span, spread
from tsviz.tui.numbers import grouped, percent
from tsviz.tui.study import Known

_TRACE_CELLS = 40


def title(name: str, trace: str, known: Known, state: tuple[Span, ...], width: int) -> tuple[Line, Line]:
    """Return the two lines at the top of a screen: what it is of which trace, and what it stands on."""
    left = [Span(" tsviz ", "brand"), Span(" "), Span(name, "title"), Span(" │ ", "rule")]
    left.append(Span(shorten(trace, min(_TRACE_CELLS, max(width // 3, 8)))))
    return spread(left, state, width), spread(_ground(known), _progress(known), width)


def _progress(known: Known) -> tuple[Span, ...]:
    if known.error:
        return (Span("✗ ", "bad"), Span(shorten(known.error, 60), "bad"), Span(" "))
    progress = known.progress
    if not known.running or progress is None:
        return ()
    words = f"◌ {grouped(progress.done)} of {grouped(progress.total)} {progress.words}"
    return (Span(f"{words}  {percent(progress.done, progress.total)} ", "accent"),)


def _ground(known: Known) -> tuple[Span, ...]:
    if not known.extents:
        return (Span(" reading the trace …" if known.running else "", "dim"),)
    spans: list[Span] = [Span(" decisions ", "dim")]
    several = len(known.extents) > 1
    for number, extent in enumerate(known.extents):
        if number:
            spans.append(Span(" │ ", "rule"))
        if several:
            spans.append(Span(f"{shorten(extent.part, 16)} ", "dim"))
        spans += _extent(extent)
        if extent.lacks:
            spans += [Span("  ▲ ", "warn"), Span(extent.lacks, "warn")]
    return tuple(spans)


def _extent(extent: Extent) -> tuple[Span, ...]:
    if extent.source == "none":
        return (Span("? not known", "warn"), Span(f": {extent.note or 'D re-executes the trace for them'}", "dim"))
    mark, role = ("●", "good") if extent.complete else ("▲", "warn")
    if extent.complete:
        reach = f"all {grouped(extent.last_round - extent.first_round + 1)} rounds"
    else:
        reach = f"up to round {grouped(extent.decided_round)} of {grouped(extent.last_round)}"
    words = f"{mark} {extent.source}, {reach}"
    return (Span(words, role), Span(f" ({shorten(extent.note, 60)})" if extent.note else "", "dim"))
