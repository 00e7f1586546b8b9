"""Breakpoints as lines: whether they count, how often they hold, where next, and what is wrong with one."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.tui.clean import clean, fit, shorten
from tsviz.tui.lines import Document, Line, Lines, Span, clip, heading, line, wrapped
from tsviz.tui.numbers import counted, grouped, level
from tsviz.tui.watches import Watch

_HITS_CELLS = 18
_FACT_CELLS = 10
_SHOWN_HITS = 400


def watch_list(watches: Sequence[Watch], ideas: Sequence[tuple[str, str]], cursor: int, width: int) -> Document:
    """Return the breakpoints, and below them predicates about this place that one may add."""
    lines = [heading(" breakpoints and watches", f"{len(watches)} " if watches else "none yet ", width)]
    focus = None
    for number, watch in enumerate(watches):
        if number == cursor:
            focus = len(lines)
        lines.append(clip(_watch(watch, number, number == cursor, width), width))
    lines += [line(""), heading(" to add with enter", "about where the cursor is ", width)]
    for number, (predicate, says) in enumerate(ideas, len(watches)):
        here = number == cursor
        if here:
            focus = len(lines)
        spans = (
            Span("▸" if here else " ", "accent"),
            Span("+ ", "key"),
            Span(clean(predicate), "strong" if here else "text"),
            Span(f"  {clean(says)}", "dim"),
        )
        lines.append(clip(Line(spans, "cursor" if here else "", ("line", number)), width))
    return Lines(lines, focus)


def _watch(watch: Watch, number: int, here: bool, width: int) -> Line:
    glyph, role = ("◉", "bad") if watch.enabled else ("○", "dim")
    words, words_role = hits_words(watch)
    room = max(width - _HITS_CELLS - 8, 8)
    spans = (
        Span("▸" if here else " ", "accent"),
        Span(f"{glyph} ", role, ("action", f"on_off({number})")),
        Span(fit(watch.predicate, room), "strong" if here else "text"),
        Span(" "),
        Span(fit(words, _HITS_CELLS, "right"), words_role),
    )
    return Line(spans, "cursor" if here else "", ("line", number))


def hits_words(watch: Watch) -> tuple[str, str]:
    """Return how often a predicate holds, in words, and the role of these."""
    if watch.refused is not None or watch.error:
        return (
            "✗ not a predicate" if watch.refused is not None and watch.refused.kind == "failed" else "✗ no hits",
            "bad",
        )
    if watch.running:
        return "◌ looking", "accent"
    if watch.total is None:
        return "not looked for", "dim"
    more = "" if watch.total.exact else "> "
    mark = " ?" if watch.total.unknown else ""
    return f"{more}{counted(watch.total.of, 'hit')}{mark}", "position" if watch.total.of else "dim"


def watch_detail(watch: Watch | None, round_: int, rounds: int, width: int) -> Document:
    """Return everything about one breakpoint: an error at its place, hits over the trace, the nearest ones."""
    if watch is None:
        says = (
            "A breakpoint is an SQL predicate over the tables of the trace: pool.available_blocks < 4. The main screen"
        )
        return Lines([*wrapped(f"{says} goes to its hits with c and C.", width, "dim", indent=1)])
    lines = [clip(line(Span(f" {clean(watch.predicate)}", "title")), width)]
    if watch.refused is not None:
        return Lines([*lines, *_refusal(watch, width)])
    if watch.error:
        return Lines([*lines, *wrapped(f"✗ {watch.error}", width, "bad", indent=1)])
    for unknown in () if watch.total is None else watch.total.unknown:
        lines += wrapped(f"? {unknown}", width, "warn", indent=1)
    places = watch.places
    if rounds and len(places):
        cells = max(width - _FACT_CELLS - 4, 8)
        lines.append(Line((_label("hits"), *_density(watch, rounds, cells))))
        lines.append(Line((_label("rounds"), Span(f"{grouped(1)}{grouped(rounds):>{cells - 1}}", "dim"))))
    for word, step in (("next", 1), ("previous", -1)):
        index = places.beside(round_, None, step)
        if index is None:
            words: tuple[Span, ...] = (Span("none behind here" if step > 0 else "none before here", "dim"),)
        else:
            target = ("round", places.rounds[index])
            stop = places.stops[index]
            position = f"round {grouped(places.rounds[index])}" + (f".{stop}" if stop >= 0 else "")
            words = (
                Span(position, "position", target),
                Span(f"  {shorten(places.requests[index], 40)}", "accent", target),
            )
        lines.append(clip(Line((_label(word), *words)), width))
    return Lines(lines)


def _label(word: str) -> Span:
    return Span(f" {word:>{_FACT_CELLS}}  ", "dim")


def _density(watch: Watch, rounds: int, cells: int) -> list[Span]:
    """Return how many hits there are in each piece of the trace as columns; a click goes there."""
    edges = [1 + cell * rounds // cells for cell in range(cells)] + [rounds + 1]
    counts = [watch.places.between(edges[c], max(edges[c + 1] - 1, edges[c])) for c in range(cells)]
    most = max(counts)
    return [Span(level(n, most), "bad", ("round", edges[c])) for c, n in enumerate(counts)]


def _refusal(watch: Watch, width: int) -> list[Line]:
    refused = watch.refused
    assert refused is not None
    lines: list[Line] = []
    if refused.at is not None:
        first, length = refused.at
        lines.append(clip(line(Span(" " * (first + 1)), Span("^" * max(length, 1), "bad")), width))
    lines += wrapped(f"✗ {refused.message}", width, "bad", indent=1)
    if refused.candidates:
        lines += wrapped(f"did you mean {', '.join(refused.candidates)}?", width, "dim", indent=3)
    return lines
