"""The inspector: the selected request, and its block tables per group with what this round changed.

First one line a run of changed slots (`64..95  · → 301..332`), so that a change is read without searching; then every
slot as a cell with its page id, virtual by line, so that a table of 8,000 slots costs what is seen of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from tsviz.replay.snapshot import BlockTable, RequestLine
from tsviz.tui.clean import shorten
from tsviz.tui.glyphs import DROPPED, HOLE, NEW, REPLACED, SELECTED, ZEROED, Mark, state_mark
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, heading, line, wrapped
from tsviz.tui.numbers import counted, grouped, percent
from tsviz.tui.panes.states import without_frame
from tsviz.tui.scene import Scene

_FEWEST_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Run:
    """Consecutive slots that changed alike: pages and what stood there before both count up, or are holes."""

    mark: Mark
    first_slot: int
    slots: int
    before: int
    page: int
    zeroed: bool


def change_mark(table: BlockTable, slot: int) -> Mark | None:
    """Return how the change of a slot is drawn: new, replaced or dropped; None where this round wrote nothing."""
    if slot not in table.changed:
        return None
    if not table.pages[slot]:
        return DROPPED
    return REPLACED if table.before.get(slot) else NEW


def is_zeroed(table: BlockTable, slot: int) -> bool:
    """Return whether the page in `slot` was zeroed in this round (`zeroed` holds page ids, as table `zeroed` does)."""
    return table.pages[slot] in table.zeroed


def runs(table: BlockTable) -> list[Run]:
    """Return the changes of a table as runs, in slot order."""
    found: list[Run] = []
    for slot in sorted(s for s in table.changed if 0 <= s < len(table.pages)):
        mark = change_mark(table, slot)
        assert mark is not None
        page, before, zeroed = table.pages[slot], table.before.get(slot, 0), is_zeroed(table, slot)
        if found:
            run = found[-1]
            follows = slot == run.first_slot + run.slots and mark is run.mark and zeroed == run.zeroed
            counts = page == (run.page and run.page + run.slots) and before == (run.before and run.before + run.slots)
            if follows and counts:
                found[-1] = Run(mark, run.first_slot, run.slots + 1, run.before, run.page, zeroed)
                continue
        found.append(Run(mark, slot, 1, before, page, zeroed))
    return found


def tables(scene: Scene, width: int, height: int) -> Document:
    """Return the selected request, the changes of its tables, and the tables."""
    instead = without_frame(scene, width, height)
    if instead is not None:
        return instead
    frame = scene.frame
    assert frame is not None
    if scene.selected is None:
        return Lines(wrapped(" No request is selected: ↑ ↓ or a click selects one.", width, "dim"))
    request = next((r for r in (frame.request(scene.selected),) if r is not None), None)
    if request is None:
        request = next((r for r in frame.snapshot.requests if r.submission == scene.selected), None)
    if request is None:
        name = shorten(scene.selected_id or f"submission {scene.selected}", max(width - 3, 1))
        words = f"It is not in the system in round {grouped(frame.snapshot.round)}. [ and ] go to rounds where it is."
        return Lines((line(Span(f" {name}", "title")), *wrapped(f" {words}", width, "dim")))
    parts: list[Document] = [_card(request, width)]
    if frame.snapshot.selected != scene.selected:
        return Stack((*parts, Lines((line(""), line(Span(" ◌ loading its tables …", "dim"))))))
    if not frame.snapshot.tables:
        why = _WITHOUT_TABLE.get(request.state, "it holds no pages in this round")
        return Stack((*parts, Lines((line(""), *wrapped(f" No block table: {why}.", width, "dim")))))
    parts += [_changes(table, width) for table in frame.snapshot.tables]
    for table in frame.snapshot.tables:
        parts += _grid(table, width)
    return Stack(parts)


_WITHOUT_TABLE = {
    "waiting": "it waits to be admitted",
    "bootstrapping": "it waits for its peer",
    "retracted": "its pages were given to others",
    "finished": "it has ended and its pages were given back",
    "aborted": "it was aborted and its pages were given back",
}


def _card(request: RequestLine, width: int) -> Document:
    mark = state_mark(request.state)
    computed, prompt = request.computed_tokens, request.prompt_tokens
    facts = (
        ("computed", f"{grouped(computed)} tokens", f"{percent(min(computed, prompt), prompt)} of prompt"),
        ("prompt", f"{grouped(prompt)} tokens", ""),
        ("generated", f"{grouped(request.generated_tokens)} tokens", f"of at most {grouped(request.max_new_tokens)}"),
        ("holds", counted(request.held_pages, "page"), ""),
        ("age", counted(request.age_rounds, "round"), f"submission {request.submission}"),
        ("retracted", counted(request.retractions, "time"), ""),
    )
    name = shorten(request.request, max(width - 14, 6))
    lines = [
        line(Span(f" {SELECTED.glyph} ", "accent"), Span(name, "title"), Span(f"  {mark.glyph} {mark.word}", mark.role))
    ]
    for label, value, note in facts:
        role = "retracted" if label == "retracted" and request.retractions else "text"
        lines.append(line(Span(f" {label:>9} ", "dim"), Span(f"{value}  ", role), Span(note, "dim")))
    return Lines(clip(each, width) for each in lines)


def _changes(table: BlockTable, width: int) -> Document:
    found = runs(table)
    holes = table.pages.count(0)
    name = shorten(table.group, max(width // 3, 6))
    note = f"{counted(len(table.pages), 'slot')} × {table.block_tokens} tok"
    note += f", {counted(holes, 'hole')} " if holes else " "
    head = heading(f" {name}", note, width)
    if not found:
        return Lines((head, line(Span("   unchanged in this round", "dim"))))
    return Stack((Lines((head,)), Lazy(len(found), lambda y: clip(_run_line(found[y]), width))))


def _run_line(run: Run) -> Line:
    last = run.first_slot + run.slots - 1
    place = f"{run.first_slot}" if run.slots == 1 else f"{run.first_slot}..{last}"
    spans = [
        Span(f"  {run.mark.glyph} ", run.mark.role),
        Span(f"slot {place:<9} ", "dim"),
        Span(_pages(run.before, run.slots), "dim" if run.before else HOLE.role),
        Span(" → ", "dim"),
        Span(_pages(run.page, run.slots), run.mark.role),
        Span(f" {run.mark.word}", "dim"),
    ]
    if run.zeroed:
        spans.append(Span(f" {ZEROED.glyph}zeroed", ZEROED.role))
    return Line(tuple(spans))


def _pages(first: int, number: int) -> str:
    if not first:
        return HOLE.glyph
    return f"{first}" if number == 1 else f"{first}..{first + number - 1}"


def _grid(table: BlockTable, width: int) -> list[Document]:
    digits = max(len(str(max(table.pages, default=0))), _FEWEST_DIGITS)
    label = max(len(str(max(len(table.pages) - 1, 0))), _FEWEST_DIGITS)
    columns = max((width - label - 3) // (digits + 3), 1)
    for nice in (32, 16, 8, 4):
        if columns >= nice:
            columns = nice if columns < nice * 3 // 2 or nice == 32 else columns - columns % (nice // 2)
            break
    rows = -(-len(table.pages) // columns)
    head = heading(f" table {shorten(table.group, max(width // 3, 6))}", "slot, page ids ", width)
    return [Lines((head,)), Lazy(rows, partial(_grid_line, table, columns, digits, label))]


def _grid_line(table: BlockTable, columns: int, digits: int, label: int, y: int) -> Line:
    first = y * columns
    spans = [Span(f" {first:>{label}} ", "dim"), Span("│", "rule")]
    for slot in range(first, min(first + columns, len(table.pages))):
        page, mark = table.pages[slot], change_mark(table, slot)
        zeroed = bool(page) and is_zeroed(table, slot)
        text = f"{page}" if page else HOLE.glyph
        role = mark.role if mark else ("page" if page else HOLE.role)
        spans.append(Span(f"{mark.glyph if mark else ' '}{text:>{digits}}", role))
        spans.append(Span(ZEROED.glyph if zeroed else " ", ZEROED.role))
        spans.append(Span(" "))
    return Line(tuple(spans))
