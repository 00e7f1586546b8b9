"""The round: what landed before the plan, the batch with its lengths, what was moved, and the budget it used."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import Snapshot
from tsviz.replay.stops.story import RoundStory
from tsviz.tui.clean import clean
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, heading, line
from tsviz.tui.numbers import bar, counted, grouped, percent
from tsviz.tui.panes.batch import batch
from tsviz.tui.panes.idle import idle
from tsviz.tui.panes.phases import phases, unknown
from tsviz.tui.panes.states import being_indexed, without_frame
from tsviz.tui.panes.transfers import transfer_list
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
    if not snapshot.rows and not (snapshot.preparing is not None and snapshot.preparing.words):
        parts.insert(1, Lines(idle(snapshot, width)))
    if isinstance(frame.story, RoundStory):
        parts += phases(scene, frame.story, width)
    else:
        parts.append(Lines((heading(" phases and stops", "", width),)))
        parts.append(unknown(frame.story, scene, width))
    if snapshot.preparing is not None and snapshot.preparing.words:
        parts.append(being_indexed(snapshot.preparing, width))
        return Stack(parts)
    parts += batch(frame, scene.selected, width)
    parts.append(waits(snapshot, scene.selected, width))
    parts.append(transfer_list(" transfers", snapshot.transfers, width))
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
    if snapshot.preparing is None or not snapshot.preparing.words:
        lines.append(line(Span("  batch ", "dim"), f"{len(snapshot.rows)} of {counted(snapshot.batch_slots, 'row')}"))
    return Lines(clip(each, width) for each in lines)


def _events(snapshot: Snapshot, width: int) -> Document:
    events = snapshot.events
    head = heading(" landed before this plan", f"{len(events)} ", width)
    if not events:
        return Lines((head, line(Span("   nothing", "dim"))))
    landed = Lazy(len(events), lambda y: clip(line(Span("  › ", "dim"), clean(events[y])), width))
    return Stack((Lines((head,)), landed))
