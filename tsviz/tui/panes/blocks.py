"""One block table: its changes as runs of slots, and its slots as cells. Virtual by line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tsviz.replay.recorded.snapshot import BlockTable
from tsviz.tui.clean import shorten
from tsviz.tui.glyphs import DROPPED, HOLE, NEW, REPLACED, ZEROED, Mark
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, heading, line
from tsviz.tui.numbers import counted

_FEWEST_DIGITS = 3
_MOST_PIECES = 4
_NICE_COLUMNS = (32, 20, 16, 10, 8, 5, 4, 2)
"""Slots a line: numbers in which a slot is easily counted off."""


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent slots that changed alike: what stood there before and what stands there now, in slot order."""

    mark: Mark
    first_slot: int
    before: tuple[int, ...]
    pages: tuple[int, ...]
    zeroed: bool


def change_mark(table: BlockTable, slot: int) -> Mark | None:
    """Return how the change of a slot is drawn: new, replaced or dropped; None where this round wrote nothing."""
    if slot not in table.changed:
        return None
    if not table.pages[slot]:
        return DROPPED
    return REPLACED if table.before.get(slot) else NEW


def is_zeroed(table: BlockTable, slot: int) -> bool:
    """Return whether the page in `slot` was zeroed in this round."""
    return slot in table.zeroed


def runs(table: BlockTable) -> list[Run]:
    """Return the changes of a table as runs, in slot order."""
    stretches: list[tuple[Mark, bool, list[int]]] = []
    for slot in sorted(s for s in table.changed if 0 <= s < len(table.pages)):
        mark, zeroed = change_mark(table, slot), is_zeroed(table, slot)
        assert mark is not None
        if stretches and stretches[-1][:2] == (mark, zeroed) and stretches[-1][2][-1] == slot - 1:
            stretches[-1][2].append(slot)
        else:
            stretches.append((mark, zeroed, [slot]))
    return [
        Run(
            mark,
            slots[0],
            tuple(table.before.get(slot, 0) for slot in slots),
            tuple(table.pages[slot] for slot in slots),
            zeroed,
        )
        for mark, zeroed, slots in stretches
    ]


def ranges(pages: tuple[int, ...]) -> str:
    """Return pages in few words: `803..818` up, `10..1` down, `43 17 9..1` mixed, `·` for holes, or how many pages."""
    pieces: list[tuple[int, int]] = []
    for page in pages:
        if pieces:
            first, last = pieces[-1]
            step = page - last
            if page == last == 0 or (0 not in (page, last) and abs(step) == 1 and (last - first) * step >= 0):
                pieces[-1] = (first, page)
                continue
        pieces.append((page, page))
    if len(pieces) > _MOST_PIECES:
        return counted(sum(1 for page in pages if page), "page")
    words = [str(first) if first == last else f"{first}..{last}" for first, last in pieces]
    return " ".join(HOLE.glyph if word == "0" else word for word in words)


def changes(table: BlockTable, width: int) -> Document:
    """Return a line a run of changed slots, before and after."""
    found = runs(table)
    holes = table.pages.count(0)
    name = shorten(table.group, max(width // 3, 6))
    note = counted(len(table.pages), "slot") + (f", {counted(holes, 'hole')} " if holes else " ")
    head = heading(f" {name}", note, width)
    if not found:
        return Lines((head, line(Span("   unchanged in this round", "dim"))))
    return Stack((Lines((head,)), Lazy(len(found), lambda y: _run_line(found[y], width))))


def _run_line(run: Run, width: int) -> Line:
    last = run.first_slot + len(run.pages) - 1
    place = f"{run.first_slot}" if last == run.first_slot else f"{run.first_slot}..{last}"
    spans = [
        Span(f"  {run.mark.glyph} ", run.mark.role),
        Span(f"{place:<7} ", "dim"),
        Span(ranges(run.before), "dim" if any(run.before) else HOLE.role),
        Span(" → ", "dim"),
        Span(ranges(run.pages), run.mark.role),
        Span(f" {run.mark.word}", "dim"),
    ]
    if run.zeroed:
        room = width - Line(tuple(spans)).cells
        spans.append(Span(f" {ZEROED.glyph}zeroed" if room >= len(" °zeroed") else ZEROED.glyph, ZEROED.role))
    return clip(Line(tuple(spans)), width)


def grid(table: BlockTable, width: int) -> list[Document]:
    """Return the slots as cells: page id, glyph of the change before it, glyph of zeroing behind it."""
    digits = max(len(str(max(table.pages, default=0))), _FEWEST_DIGITS)
    label = max(len(str(max(len(table.pages) - 1, 0))), _FEWEST_DIGITS)
    room = (width - label - 3) // (digits + 2)
    columns = next((nice for nice in _NICE_COLUMNS if nice <= room), 1)
    rows = -(-len(table.pages) // columns)
    head = heading(f" table {shorten(table.group, max(width // 3, 6))}", f"{table.block_tokens} tokens a slot ", width)
    return [Lines((head,)), Lazy(rows, partial(_grid_line, table, columns, digits, label))]


def _grid_line(table: BlockTable, columns: int, digits: int, label: int, y: int) -> Line:
    first = y * columns
    spans = [Span(f" {first:>{label}} ", "dim"), Span("│", "rule")]
    for slot in range(first, min(first + columns, len(table.pages))):
        page, mark = table.pages[slot], change_mark(table, slot)
        zeroed = bool(page) and is_zeroed(table, slot)
        text = f"{page}" if page else HOLE.glyph
        role = mark.role if mark else ("page" if page else HOLE.role)
        spans.append(Span(f"{(mark.glyph if mark else '') + text:>{digits + 1}}", role))
        spans.append(Span(ZEROED.glyph if zeroed else " ", ZEROED.role))
    return Line(tuple(spans))
