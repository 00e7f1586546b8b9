"""Lost time: bars of causes for the fleet, a class or a request; each row has its longest run to jump to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tsviz.tui.causes import cause_mark
from tsviz.tui.clean import fit, shorten
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, clip, heading, line, spread, wrapped
from tsviz.tui.numbers import bar, counted, duration, grouped, percent
from tsviz.tui.study import Known

if TYPE_CHECKING:
    from tsviz.replay.lost.keys import LostCause, LostKey, LostPhase

VIEWS = {"fleet": "Fleet", "class": "Classes", "request": "Requests", "holder": "Holders"}
PHASES = {
    "ttft": ("time to first token", "request"),
    "tpot": ("time between tokens", "token"),
    "after_last_token": ("behind the last token of those that did not finish", "request"),
    "no_first_token": ("no first token by the end of the trace", "request"),
    "ended_without_token": ("ended without a first token", "request"),
}
_NAME_CELLS, _PERCENT_CELLS, _TIME_CELLS, _PER_CELLS = 30, 8, 12, 20
_PER_FROM_CELLS, _BAR_FROM_CELLS = 72, 34


def rows_of(key: LostKey | None) -> tuple[tuple[LostPhase, LostCause], ...]:
    """Return every cause of every phase, in the order in which they are listed."""
    return () if key is None else tuple((phase, cause) for phase in key.phases for cause in phase.causes)


def instead(known: Known, derived: Known, keys: Sequence[LostKey], width: int, height: int) -> Document | None:
    """Return what is shown where there are no times: running, broken, decisions not known, nobody waited."""
    if keys:
        return None
    if known.running:
        title, role, sentences = "◌ Splitting the time of every request …", "accent", ["esc leaves; it goes on."]
    elif known.error:
        title, role, sentences = "✗ The time could not be split.", "bad", [f"{known.error}.", "R tries again."]
    elif derived.running:
        progress = derived.progress
        far = f" {grouped(progress.done)} of {grouped(progress.total)} rounds" if progress is not None else ""
        title, role = f"◌ Decisions are being derived …{far}", "accent"
        sentences = ["The time is split as soon as they are known."]
    elif any(extent.source == "none" for extent in known.extents):
        title, role = "? Lost time needs decisions, which are not recorded at this level.", "warn"
        sentences = ["They are derived by re-executing the trace in the twin of the scheduler: D begins."]
        sentences += [f"{extent.part}: {extent.note}." for extent in known.extents if extent.note]
    else:
        title, role = "∅ No time was lost.", "heading"
        sentences = ["No request of this trace has a span to split."]
    body = wrapped(title, width, role, indent=2)
    for sentence in sentences:
        body += [line(""), *wrapped(sentence, width, indent=2)]
    return Lines([line("")] * max((height - len(body)) // 3, 0) + body)


def view_line(view: str, counts: dict[str, int], width: int) -> Document:
    """Return the three views as tabs; the open one stands in brackets."""
    spans = [Span(" ")]
    for number, (name, word) in enumerate(VIEWS.items(), 1):
        here = name == view
        text = f"{number} {word}" + (f" {grouped(counts[name])}" if counts.get(name, 0) > 1 else "")
        target = ("action", f"view('{name}')")
        spans += [Span(f"[{text}]" if here else f" {text} ", "tab-active" if here else "tab", target), Span(" ")]
    return Lines((clip(Line(tuple(spans)), width),))


def key_list(keys: Sequence[LostKey], cursor: int, width: int) -> Document:
    """Return classes or requests, most time first; a line is made when it is looked at."""
    return Lazy(len(keys), lambda y: _key(keys[y], keys[0].span_ns, y, y == cursor, width), cursor if keys else None)


def _key(key: LostKey, most_ns: int, number: int, here: bool, width: int) -> Line:
    time = f"{duration(key.span_ns)} "
    with_bar = width >= _BAR_FROM_CELLS
    cells = max(width - 2 - len(time) - (8 if with_bar else 3), 4)
    full, empty = bar(key.span_ns, most_ns, 5) if with_bar else ("", "")
    left = [Span("▸ " if here else "  ", "accent"), Span(fit(key.key, cells), "strong" if here else "text"), Span(" ")]
    right = [Span(full, "waiting"), Span(empty), Span(f" {time}", "dim")]
    return spread(left, right, width)._replace(base="cursor" if here else "", target=("key", number))


def bars(key: LostKey | None, cursor: int, width: int) -> Document:
    """Return the causes of every phase as bars with share, time, and time a request or token; None: a view is empty."""
    if key is None:
        return Lines((line(Span(" ∅ nobody was in another's way", "dim")),))
    lines: list[Line] = []
    number, focus = 0, None
    for phase in key.phases:
        words, per = PHASES.get(phase.phase, (phase.phase, "request"))
        each = f"{duration(phase.span_ns / phase.per)} a {per}" if phase.per else ""
        note = f"{counted(phase.spans, 'request')}, {each}, {duration(phase.span_ns)} "
        if width < _PER_FROM_CELLS:
            note = f"{each}, {duration(phase.span_ns)} "
        if lines:
            lines.append(line(""))
        lines.append(heading(f" {words}", note, width))
        for cause in phase.causes:
            if number == cursor:
                focus = len(lines)
            lines.append(_bar(phase, cause, per, number, number == cursor, width))
            number += 1
    return Lines(lines, focus)


def _bar(phase: LostPhase, cause: LostCause, per: str, number: int, here: bool, width: int) -> Line:
    mark = cause_mark(cause.cause)
    with_per = width >= _PER_FROM_CELLS
    name = min(_NAME_CELLS, max(width // 3, 12))
    numbers = _PERCENT_CELLS + _TIME_CELLS + (_PER_CELLS if with_per else 0)
    full, empty = bar(cause.time_ns, phase.span_ns, max(width - name - numbers - 6, 4))
    spans = [
        Span("▸" if here else " ", "accent"),
        Span(f"{mark.glyph} ", mark.role),
        Span(fit(mark.word, name), "strong" if here else "text"),
        Span(" "),
        Span(full, mark.role),
        Span(empty),
        Span(f"{_share(cause.time_ns, phase.span_ns):>{_PERCENT_CELLS}}", "strong"),
        Span(f"{duration(cause.time_ns):>{_TIME_CELLS}}"),
    ]
    if with_per and phase.per:
        spans.append(Span(f"{duration(cause.time_ns / phase.per)} a {per}".rjust(_PER_CELLS), "dim"))
    return clip(Line(tuple(spans), "cursor" if here else "", ("line", number)), width)


def _share(part_ns: int, whole_ns: int) -> str:
    """Return a percentage; a little is not nothing."""
    return "< 0.1 %" if 0 < part_ns < whole_ns / 2000 else percent(part_ns, whole_ns)


def detail(row: tuple[LostPhase, LostCause] | None, width: int) -> Document:
    """Return what the cause under the cursor means, and its longest run."""
    if row is None:
        return Lines(())
    _, cause = row
    mark, run = cause_mark(cause.cause), cause.run
    rounds = run.last_round - run.first_round + 1
    target = ("action", "choose")
    where = f"{grouped(run.first_round)}–{grouped(run.last_round)}" if rounds > 1 else grouped(run.first_round)
    return Lines(
        (
            clip(
                line(
                    Span(f" {mark.glyph} ", mark.role),
                    Span(mark.word, "title"),
                    Span(f"  {mark.meaning}", "dim"),
                ),
                width,
            ),
            clip(
                line(
                    Span("   longest run ", "dim"),
                    Span(shorten(cause.request, 32), "accent", target),
                    Span("  round " if rounds == 1 else "  rounds ", "dim"),
                    Span(where, "position", target),
                    Span(f"  {duration(run.time_ns)}, {counted(rounds, 'round')}"),
                    *((Span("  behind ", "dim"), Span(shorten(run.behind, 32), "accent")) if run.behind else ()),
                ),
                width,
            ),
        )
    )
