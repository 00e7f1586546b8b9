"""The lines at the bottom: the pool as a bar with its numbers, and how many requests are in each state."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import Pool
from tsviz.tui.clean import shorten
from tsviz.tui.glyphs import COUNTED, UNKNOWN_STATE
from tsviz.tui.lines import Document, Line, Lines, Span, clip
from tsviz.tui.numbers import bar, counted, grouped, percent
from tsviz.tui.scene import Scene

_WIDEST_BAR = 60
_PINNED_BY_PEER = "pd_transfer"
_STRANGE_WORD_CELLS = 16
_LABEL_CELLS, _LEAST_BAR, _ROOMY_BAR = 8, 8, 24


def pool(scene: Scene, width: int, height: int) -> Document:
    """Return the pool line and, where `height` allows, the line of counts."""
    frame = scene.frame
    if frame is None:
        return Lines(())
    pages = frame.snapshot.pool
    share = percent(pages.occupied_pages, pages.usable_pages)
    role = "bad" if pages.usable_pages and pages.empty_pages == 0 else "text"
    size = len(grouped(pages.usable_pages))
    numbers = [Span(f" {grouped(pages.occupied_pages):>{size}} occupied", "strong")]
    if pages.active_pages is not None:
        role = "text"
        numbers = [
            Span(f" {grouped(pages.active_pages):>{size}} active", "strong"),
            Span(f" + {grouped(pages.occupied_pages - pages.active_pages)} cached", "text"),
        ]
    whole = f" = {counted(pages.usable_pages, 'page')}"
    numbers.append(Span(f" + {grouped(pages.empty_pages)} empty", role))
    tail = (Span(f"  {share:>7}", "text"),)
    zeroed, zero = f"  {grouped(pages.zeroed_pages)} zeroed", "zeroed" if pages.zeroed_pages else "dim"
    ways = (
        (Span(f"{whole} behind the plan", "dim"), *tail, Span(f"{zeroed} this round", zero)),
        (Span(whole, "dim"), *tail, Span(f"{zeroed} this round", zero)),
        (Span(whole, "dim"), *tail, Span(zeroed, zero)),
        (Span(whole, "dim"), *tail),
        (Span(whole, "dim"),),
    )
    room = width - _LABEL_CELLS - _LEAST_BAR
    most = (*(_ROOMY_BAR,) * 2, *(0,) * 3)  # more words only where the bar keeps a length that one can read
    numbers += next((way for way, bar_ in zip(ways, most, strict=True)
                     if Line((*numbers, *way)).cells + bar_ <= room), ())  # fmt: skip
    cells = min(max(width - Line(tuple(numbers)).cells - _LABEL_CELLS, _LEAST_BAR), _WIDEST_BAR)
    lines = [clip(Line((Span("  pool ", "dim"), *_bar(pages, cells), *numbers)), width)]
    if height > 1:
        lines.append(clip(_counts(scene), width))
    return Lines(lines)


def _bar(pages: Pool, cells: int) -> tuple[Span, ...]:
    """What live tables hold solid, what is only cached shaded, what is empty blank."""
    if pages.active_pages is None:
        full, empty = bar(pages.occupied_pages, pages.usable_pages, cells)
        return Span(full, "pool-bar"), Span(empty, "bar-empty")
    full, rest = bar(pages.active_pages, pages.usable_pages, cells)
    reach = round(cells * pages.occupied_pages / max(pages.usable_pages, 1))
    cached = max(min(reach, cells) - len(full), 0)
    return Span(full, "pool-bar"), Span("░" * cached, "pool-cached"), Span(rest[cached:], "bar-empty")


def _counts(scene: Scene) -> Line:
    frame = scene.frame
    assert frame is not None
    counts = frame.snapshot.counts
    spans = [Span(" state ", "dim")]
    for state in (*COUNTED, *(state for state in counts if state not in COUNTED)):
        if counts.get(state) and state != _PINNED_BY_PEER:
            mark = COUNTED.get(state, UNKNOWN_STATE)
            word = mark.word if state in COUNTED else shorten(state, _STRANGE_WORD_CELLS)
            spans += [Span(f"{mark.glyph} {grouped(counts[state])} ", mark.role), Span(f"{word}   ", "dim")]
    if counts.get(_PINNED_BY_PEER):  # these are counted in their states already
        mark = COUNTED[_PINNED_BY_PEER]
        spans += [Span("of them ", "dim"), Span(f"{mark.glyph} {grouped(counts[_PINNED_BY_PEER])} ", mark.role)]
        spans.append(Span("pinned by a transfer   ", "dim"))
    if frame.snapshot.retracted and "retracted" not in counts:
        mark = COUNTED["retracted"]
        spans += [Span("this plan ", "dim"), Span(f"{mark.glyph} {grouped(frame.snapshot.retracted)} ", mark.role)]
        spans.append(Span("retracted", "dim"))
    if len(spans) == 1:
        spans.append(Span("no requests", "dim"))
    return Line(tuple(spans))
