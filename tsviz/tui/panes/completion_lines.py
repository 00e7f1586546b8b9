"""The list of what can stand at the cursor: kind, name, type, and a line of documentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tsviz.tui.clean import clean, fit, shorten
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, clip

if TYPE_CHECKING:
    from tsviz.query.completion import Completion
    from tsviz.query.vocabulary import Entry

KINDS = {
    "table": ("▤", "pool"), "view": ("▥", "good"), "macro": ("ƒ", "transfer"), "function": ("ƒ", "transfer"),
    "column": ("▪", "accent"), "keyword": ("·", "dim"), "query": ("◇", "position"),
}  # fmt: skip
_NAME_CELLS, _TYPE_CELLS = 24, 10


def completion_list(completion: Completion | None, cursor: int, width: int) -> Document:
    """Return one line an entry."""
    if completion is None or not completion.entries:
        return Lines(())
    entries = completion.entries
    return Lazy(len(entries), lambda y: _entry(entries[y], y, y == cursor, width), cursor)


def _entry(entry: Entry, number: int, here: bool, width: int) -> Line:
    glyph, role = KINDS.get(entry.kind, ("·", "dim"))
    name = entry.name + (f"({', '.join(entry.parameters)})" if entry.parameters else "")
    spans = (
        Span(f"{glyph} ", role),
        Span(fit(name, _NAME_CELLS), "strong" if here else "text"),
        Span(f" {fit(entry.type or entry.kind, _TYPE_CELLS)} ", "column"),
        Span(shorten(clean(entry.doc), max(width, 8)), "dim"),
    )
    return clip(Line(spans, "cursor" if here else "", ("entry", number)), width)
