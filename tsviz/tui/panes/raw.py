"""The recorded rows behind what is shown: of the round, and of the selected request in it, column by column."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import Record
from tsviz.tui.clean import fit, shorten
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, heading, line, wrapped
from tsviz.tui.scene import Scene


def raw(scene: Scene, width: int, _height: int) -> Document:
    """Return each row as names and values, as recorded."""
    found = scene.answer_for("raw")
    if not isinstance(found, tuple):
        return Lines((line(Span(" ◌ loading …", "dim")),))
    records = [each for each in found if isinstance(each, Record)]
    if not records:
        return Lines(wrapped("No row of this round is recorded.", width, "dim", indent=1))
    parts: list[Document] = []
    for record in records:
        parts.append(Lines((heading(f" {record.table}", "", width),)))
        parts.append(Lazy(len(record.fields), lambda y, r=record: _field(r, y, width)))  # type: ignore[misc]
    return Stack(parts)


def _field(record: Record, y: int, width: int) -> Line:
    name, value = record.fields[y]
    cells = min(24, width // 2)
    return clip(line(Span(f" {fit(name, cells)} ", "dim"), Span(shorten(value, max(width - cells - 2, 4)))), width)
