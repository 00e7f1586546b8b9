"""Why the others are not in the batch: one line a request that waits, with its one named cause in words."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import RequestLine, Reserve, Snapshot
from tsviz.tui.causes import cause_text
from tsviz.tui.clean import fit, shorten
from tsviz.tui.glyphs import state_mark
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, heading, line, wrapped
from tsviz.tui.numbers import counted, grouped

_ID_CELLS = 12
_UNKNOWN = "not recorded at this level: tsviz index derives it"


def waits(snapshot: Snapshot, selected: int | None, width: int) -> Document:
    """Return the requests that this round did not schedule, each with its cause; a click selects one."""
    waiting = tuple(r for r in snapshot.requests if r.cause is not None and not r.scheduled)
    known = snapshot.decisions != "none"
    head = heading(" why not", f"{len(waiting)} {snapshot.decisions} " if known else "", width)
    if not known:
        return Lines((head, *wrapped(_UNKNOWN, width, "dim", indent=3)))
    if not waiting:
        words = "every request is scheduled" if snapshot.rows else "nobody waits"
        return Lines((head, line(Span(f"   {words}", "dim"))))
    round_ = snapshot.round
    return Stack((Lines((head,)), Lazy(len(waiting), lambda y: _line(waiting[y], round_, selected, width))))


def _line(request: RequestLine, round_: int, selected: int | None, width: int) -> Line:
    mark = state_mark(request.state)
    room = max(width - _ID_CELLS - 5, 8)
    words = cause_text(request.cause, round_, room) if request.cause is not None else ""
    spans = (
        Span("  "),
        Span(mark.glyph, mark.role),
        Span(" "),
        Span(fit(request.request, _ID_CELLS), "strong" if request.submission == selected else "text"),
        Span(" "),
        Span(words.rstrip(), "warn"),
    )
    return Line(spans, "cursor" if request.submission == selected else "", ("request", request.submission))


def why(request: RequestLine, width: int) -> tuple[Line, ...]:
    """Return the cause of one request in words, as lines of its card."""
    if request.cause is None:
        return ()
    lines = wrapped(shorten(request.cause.words, 400), max(width - 11, 8), "warn" if not request.scheduled else "text")
    first, *rest = lines
    return (
        Line((Span(f" {'why':>9} ", "dim"), *first.spans)),
        *(Line((Span(" " * 11), *each.spans)) for each in rest),
    )


def reserve_lines(reserve: Reserve | None, width: int) -> tuple[Line, ...]:
    """Return what the request's last prefill attempt held beyond its chunk, term by term."""
    if reserve is None:
        return ()
    terms = " + ".join(f"{term.name} {grouped(term.tokens)}" for term in reserve.terms if term.tokens)
    lines = [
        clip(
            line(
                Span(f" {'reserve':>9} ", "dim"),
                Span(counted(reserve.full_tokens, "token")),
                Span(f"  round {grouped(reserve.round)}", "dim"),
            ),
            width,
        )
    ]
    if terms:
        lines += [Line((Span(" " * 11), *each.spans)) for each in wrapped(terms, max(width - 11, 8), "dim")]
    return tuple(lines)
