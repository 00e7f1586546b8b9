"""The recorded rows behind what is shown: of the round, and of the selected request in it, column by column."""

from __future__ import annotations

from rich.cells import cell_len

from tsviz.replay.recorded.snapshot import Record
from tsviz.tui.clean import clean, fit, shorten
from tsviz.tui.lines import Document, Line, Lines, Span, Stack, heading, line, wrapped
from tsviz.tui.scene import Scene

_VALUE_CELLS = 8
"""Cells that are left for values beside names, however long those are."""


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
        cells = min(max((cell_len(name) for name, _ in record.fields), default=0), max(width - _VALUE_CELLS - 2, 4))
        parts += [Lines(_field(name, value, cells, width)) for name, value in record.fields]
    return Stack(parts)


def _field(name: str, value: str, cells: int, width: int) -> list[Line]:
    """Return a name with its value; one that is too long stands below it."""
    named, room = Span(f" {fit(name, cells)} ", "dim"), width - cells - 2
    if cell_len(clean(value)) <= room:
        return [line(named, Span(clean(value)))]
    return [line(named), line(Span("   "), Span(shorten(value, max(width - 4, 4))))]
