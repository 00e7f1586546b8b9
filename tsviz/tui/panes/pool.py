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
_WORDS_FROM_CELLS = 100
_PLAN_FROM_CELLS = 132


def pool(scene: Scene, width: int, height: int) -> Document:
    """Return the pool line and, where `height` allows, the line of counts."""
    frame = scene.frame
    if frame is None:
        return Lines(())
    pages = frame.snapshot.pool
    share = percent(pages.occupied_pages, pages.usable_pages)
    role = "bad" if pages.usable_pages and pages.empty_pages == 0 else "text"
    zeroed = f"  {grouped(pages.zeroed_pages)} zeroed" + (" this round" if width >= _WORDS_FROM_CELLS else "")
    size = len(grouped(pages.usable_pages))
    numbers = [Span(f" {grouped(pages.occupied_pages):>{size}} occupied", "strong")]
    if pages.active_pages is not None:
        role = "text"
        numbers = [
            Span(f" {grouped(pages.active_pages):>{size}} active", "strong"),
            Span(f" + {grouped(pages.occupied_pages - pages.active_pages)} cached", "text"),
        ]
    numbers += [
        Span(f" + {grouped(pages.empty_pages)} empty", role),
        Span(
            f" = {counted(pages.usable_pages, 'page')}{' behind the plan' if width >= _PLAN_FROM_CELLS else ''}", "dim"
        ),
        Span(f"  {share:>7}", "text"),
        Span(zeroed, "zeroed" if pages.zeroed_pages else "dim"),
    ]
    cells = min(max(width - Line(tuple(numbers)).cells - 8, 8), _WIDEST_BAR)
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
