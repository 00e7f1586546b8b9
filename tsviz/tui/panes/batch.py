"""The rows of a batch: prefills with their chunk in the prompt, decodes, remote rows; each row on demand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from tsviz.replay.recorded.snapshot import Row, Snapshot
from tsviz.tui.clean import fit, told_apart
from tsviz.tui.frame import Frame
from tsviz.tui.glyphs import COMPLETES, KINDS, SELECTED, kind_mark
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, heading, line
from tsviz.tui.numbers import counted, grouped

_LEAD_CELLS = 3
_ID_CELLS = 7
_TOLD_APART_ROWS = 512
"""Of a batch of more rows each id is cut for itself: the pane is made within a frame."""
_CHUNK_BAR_CELLS = 7


def round_rows(snapshot: Snapshot) -> list[Row]:
    """Return the rows in the order in which they are drawn: prefills, decodes, remote rows, kinds not known."""
    return [row for _, rows in _groups(snapshot.rows) for row in rows]


def _groups(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    groups: dict[str, list[Row]] = {"prefill": [], "decode": [], "remote": [], "other": []}
    for row in rows:
        name = "remote" if row.kind.startswith("remote_") else row.kind
        groups[name if row.kind in KINDS else "other"].append(row)
    return [(name, group) for name, group in groups.items() if group]


@dataclass(frozen=True, slots=True)
class _Layout:
    """Cells of the columns of the batch; 0 leaves a column out."""

    identity: int
    slot: int
    begin: int
    tokens: int
    replay: int
    prompt: int
    bar: int


def _layout(rows: Sequence[Row], width: int) -> _Layout:
    room = width - _LEAD_CELLS - _ID_CELLS - 2

    def take(cells: int, wanted: bool = True) -> int:
        nonlocal room
        if not wanted or room < cells + 1:
            return 0
        room -= cells + 1
        return cells

    tokens, begin = take(6), take(7)
    replay = take(6, any(row.replay_tokens for row in rows))
    bar_, prompt, slot = take(_CHUNK_BAR_CELLS), take(7), take(4)
    return _Layout(_ID_CELLS + max(room, 0), slot, begin, tokens, replay, prompt, bar_)


def batch(frame: Frame, selected: int | None, width: int) -> list[Document]:
    """Return the rows by kind, each kind under a heading with its rows and tokens; the selected row is marked."""
    snapshot = frame.snapshot
    layout = _layout(snapshot.rows, width)
    parts: list[Document] = []
    for name, rows in _groups(snapshot.rows):
        mark = kind_mark(rows[0].kind)
        tokens = sum(row.input_tokens for row in rows)
        title = heading(f" {mark.glyph} {name}", f"{counted(len(rows), 'row')}, {grouped(tokens)} tok ", width)
        title = title._replace(spans=(title.spans[0]._replace(role=mark.role), *title.spans[1:]))
        focus = next((i for i, row in enumerate(rows) if row.submission == selected), None)
        parts.append(Lines((title, _column_heads(layout)) if name == "prefill" else (title,)))
        named = [row.request for row in rows]
        names = told_apart(named, layout.identity) if len(rows) <= _TOLD_APART_ROWS else named
        parts.append(Lazy(len(rows), partial(_row_line, rows, names, frame, selected, layout), focus))
    return parts


def _column_heads(layout: _Layout) -> Line:
    text = " " * _LEAD_CELLS + fit("request", layout.identity)
    for name, cells in (("slot", layout.slot), ("begin", layout.begin), ("input", layout.tokens),
                        ("replay", layout.replay), ("prompt", layout.prompt)):  # fmt: skip
        text += fit(name, cells + 1, "right") if cells else ""
    return line(Span(text, "column"))


def _row_line(
    rows: Sequence[Row], names: Sequence[str], frame: Frame, selected: int | None, layout: _Layout, y: int
) -> Line:
    row = rows[y]
    mark, chosen = kind_mark(row.kind), row.submission == selected
    prefill = row.kind.endswith("prefill")
    begin = "" if row.begin_tokens is None else grouped(row.begin_tokens)
    spans = [
        Span(SELECTED.glyph if chosen else " ", SELECTED.role),
        Span(f"{mark.glyph} ", mark.role),
        Span(fit(names[y], layout.identity)),
    ]
    cells = (
        (grouped(row.slot), layout.slot, "dim"),
        (begin, layout.begin, "dim"),
        (f"+{grouped(row.input_tokens)}", layout.tokens, "strong"),
        (f"↻{grouped(row.replay_tokens)}" if row.replay_tokens else "", layout.replay, "warn"),
        (grouped(row.prefill_tokens) if prefill else "", layout.prompt, "dim"),
    )
    spans += [Span(" " + fit(text, size, "right"), role) for text, size, role in cells if size]
    if layout.bar and prefill and row.begin_tokens is not None:
        spans += [Span(" "), *_chunk_bar(row, layout.bar)]
    elif layout.bar:
        request = frame.in_batch.get(row.submission)
        generated = grouped(request.generated_tokens) if request else ""
        text = f"{generated} gen" if generated and len(generated) + 4 <= layout.bar else generated
        spans.append(Span(" " + fit(text, layout.bar, "right"), "dim"))
    spans.append(Span(f" {COMPLETES.glyph}" if row.completes else "", COMPLETES.role))
    return Line(tuple(spans), "cursor" if chosen else "", ("request", row.submission))


def _chunk_bar(row: Row, cells: int) -> list[Span]:
    """The prompt as a bar: computed before, this chunk (at least one cell), still to come."""
    whole = max(row.prefill_tokens, 1)
    begin = row.begin_tokens or 0
    before = min(begin * cells // whole, cells - 1)
    end = cells if row.completes else min(-(-(begin + row.input_tokens) * cells // whole), cells)
    end = max(end, before + 1)
    return [
        Span("━" * before, "past"),
        Span("■" * (end - before), "prefilling"),
        Span("╌" * (cells - end), "rule"),
    ]
