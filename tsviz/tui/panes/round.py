"""The round: what landed before the plan, the batch with its lengths, what was moved, and the budget it used."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.replay.snapshot import Snapshot, Transfer
from tsviz.tui.clean import clean, shorten
from tsviz.tui.glyphs import PINNED
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, heading, line
from tsviz.tui.numbers import bar, counted, grouped, percent
from tsviz.tui.panes.batch import batch
from tsviz.tui.panes.states import without_frame
from tsviz.tui.panes.waits import waits
from tsviz.tui.scene import Scene

_LABEL_CELLS = 8
_ONE_LINE_FROM_CELLS = 56
_INDENT = Span(" " * _LABEL_CELLS)


def round_pane(scene: Scene, width: int, height: int) -> Document:
    """Return the round from its budget to its transfers; rows are virtual, the selected request's row is marked."""
    instead = without_frame(scene, width, height)
    if instead is not None:
        return instead
    frame = scene.frame
    assert frame is not None
    snapshot = frame.snapshot
    parts: list[Document] = [_budget(snapshot, width), _events(snapshot, width)]
    parts += batch(frame, scene.selected, width)
    parts.append(waits(snapshot, scene.selected, width))
    parts.append(_transfers(snapshot.transfers, width))
    return Stack(parts)


def _budget(snapshot: Snapshot, width: int) -> Document:
    used, budget = snapshot.scheduled_tokens, snapshot.budget_tokens
    amount = Span(f"{grouped(used)} of {counted(budget, 'token')}")
    share = Span(f" {percent(used, budget):>7}", "strong")
    one_line = width >= _ONE_LINE_FROM_CELLS
    cells = max(min(width - _LABEL_CELLS - len(share.text) - (len(amount.text) + 2 if one_line else 0), 40), 4)
    full, empty = bar(used, budget, cells)
    first = [Span(" budget ", "dim"), Span(full, "budget"), Span(empty, "bar-empty"), share]
    lines = [Line((*first, Span("  "), amount))] if one_line else [Line(tuple(first)), line(_INDENT, amount)]
    lines.append(line(Span("  batch ", "dim"), f"{len(snapshot.rows)} of {counted(snapshot.batch_slots, 'row')}"))
    return Lines(clip(each, width) for each in lines)


def _events(snapshot: Snapshot, width: int) -> Document:
    events = snapshot.events
    head = heading(" landed before this plan", f"{len(events)} ", width)
    if not events:
        return Lines((head, line(Span("   nothing", "dim"))))
    landed = Lazy(len(events), lambda y: clip(line(Span("  › ", "dim"), clean(events[y])), width))
    return Stack((Lines((head,)), landed))


def _transfers(transfers: Sequence[Transfer], width: int) -> Document:
    head = heading(" transfers", f"{len(transfers)} ", width)
    if not transfers:
        return Lines((head, line(Span("   none", "dim"))))
    return Stack((Lines((head,)), Lazy(len(transfers), lambda y: clip(_transfer(transfers[y]), width))))


def _transfer(transfer: Transfer) -> Line:
    glyph = {"write_back": "↓", "load_back": "↑"}.get(transfer.kind, "?")
    landed = transfer.acknowledged_round
    spans = [
        Span(f"  {glyph}", "transfer"),
        Span(f"{PINNED.glyph if transfer.source_pinned else ' '} ", PINNED.role),
        Span(shorten(transfer.kind.replace("_", " "), 16)),
        Span(f" {counted(transfer.pages, 'page')}"),
    ]
    if landed is None:
        spans.append(Span(" → out at the end", "warn"))
    else:
        spans.append(Span(f" → round {grouped(landed)}", "accent", ("round", landed)))
    spans.append(Span(f"  op {transfer.op_id}", "dim"))
    if transfer.source_pinned:
        spans.append(Span("  source pinned", PINNED.role))
    return Line(tuple(spans))
