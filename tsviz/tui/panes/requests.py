"""The list of requests by state. Virtual: a line is made when it is seen."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial

from rich.cells import cell_len

from tsviz.replay.recorded.snapshot import RequestLine
from tsviz.tui.causes import cause_text
from tsviz.tui.clean import clean, fit
from tsviz.tui.frame import NOTHING_WIDE, ORDERS, PINNED, Frame, Widest
from tsviz.tui.glyphs import PIN, SCHEDULED, SELECTED, STATES, state_mark
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, clip, heading, line, spread
from tsviz.tui.numbers import grouped
from tsviz.tui.panes.states import being_indexed, without_frame
from tsviz.tui.scene import Scene

_LEAD_CELLS = 4
_UNITS_FROM_CELLS = 44


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    cells: int


_PAGES_CELLS = 5
_COLUMNS = (
    _Column("word", 7),
    _Column("computed", 8),
    _Column("prompt", 7),
    _Column("gen", 6),
    _Column("pages", _PAGES_CELLS),
    _Column("age", 6),
    _Column("retr", 4),
)
_WHY_FROM_CELLS = 20
"""Cells that must be left over before the cause of a wait is told in the list."""
_ID_MOST_CELLS = 16
_ORDER_OF = {"word": "state", "pages": "pages", "age": "age", "retr": "retractions"}
"""Order of the list that a click on the head of a column asks for."""
_KEEP_FIRST = ("computed", "prompt", "gen", "pages", "age", "retr")
_KEEP_FOR_ORDER = {"state": (), "age": ("word", "age"), "pages": ("word", "pages"), "retractions": ("word", "retr")}
_ID_CELLS = 7
_ID_STEP_CELLS = 4
"""The cause of a wait begins behind the id, in steps, so that ids of about a length have theirs in a column."""


@lru_cache(maxsize=16)
def request_columns(width: int, order: str, widest: Widest = NOTHING_WIDE) -> tuple[tuple[_Column, ...], int]:
    """Return the columns that fit, in drawing order, and the cells of the id column.

    The column that is sorted by and the word of the state (which headings say where the order is by state) come first.
    What is left over tells why a request waits, where it is enough for some words; where ids are longer than their
    column they have what the numbers of tokens do not need.
    """
    room = width - _LEAD_CELLS - _ID_CELLS
    by_name = {column.name: column for column in _COLUMNS}
    kept: set[str] = set()
    for name in dict.fromkeys((*_KEEP_FOR_ORDER.get(order, ("word",)), *_KEEP_FIRST)):
        if room < by_name[name].cells + 1:
            break
        kept.add(name)
        room -= by_name[name].cells + 1
    columns = [column for column in _COLUMNS if column.name in kept]
    if room >= _WHY_FROM_CELLS:
        more = min(max(room - _WHY_FROM_CELLS, 0), _ID_MOST_CELLS - _ID_CELLS)
        columns.append(_Column("why", room - more - 2))
        room = more
    id_cells = _ID_CELLS + max(room, 0)
    for name, tokens in (("gen", widest.generated_tokens), ("prompt", widest.prompt_tokens)):
        at = next((i for i, column in enumerate(columns) if column.name == name), None)
        if at is not None and id_cells < min(widest.id_cells, _ID_MOST_CELLS):
            spare = columns[at].cells - max(len(name), len(grouped(tokens)))
            taken = min(max(spare, 0), widest.id_cells - id_cells)
            columns[at], id_cells = _Column(name, columns[at].cells - taken), id_cells + taken
    return tuple(columns), id_cells


def requests_title(scene: Scene, width: int, _height: int) -> Document:
    """Return the two fixed lines above the list: what is listed, and the column heads with their units."""
    if scene.frame is None:
        return Lines(())
    listing, total = scene.frame.listing, len(scene.frame.snapshot.requests)
    what = f"{grouped(listing.shown)} of {grouped(total)}" if scene.filter else grouped(total)
    top = [Span(f" {what}", "strong"), Span(f" {ORDERS[scene.order][0]}{', reversed' if scene.reverse else ''}", "dim")]
    units = [Span("tokens, pages, rounds ", "dim")] if width >= _UNITS_FROM_CELLS else []
    if scene.filter:
        top += [Span("  filter ", "dim"), Span(fit(scene.filter, min(len(scene.filter), 24)), "accent")]
    columns, id_cells = request_columns(width, scene.order, scene.frame.listing.widest)
    heads = [Span(" " * _LEAD_CELLS + fit("request", id_cells), "column", ("order", "id"))]
    for column in columns:
        left = column.name in ("word", "why")
        name = " state" if column.name == "word" else ("  why" if column.name == "why" else column.name)
        target = ("order", _ORDER_OF[column.name]) if column.name in _ORDER_OF else None
        heads.append(Span(fit(name, column.cells + 1, "left" if left else "right"), "column", target))
    return Lines((spread(top, units, width), clip(Line(tuple(heads)), width)))


def requests(scene: Scene, width: int, height: int) -> Document:
    """Return the list: headings by state where it is sorted so, a line a request, the selected one marked."""
    instead = without_frame(scene, width, height)
    if instead is not None:
        return instead
    frame = scene.frame
    assert frame is not None
    if frame.snapshot.preparing is not None:
        return being_indexed(frame.snapshot.preparing, width)
    if not frame.listing.shown:
        words = "No request passes this filter. Esc clears it." if scene.filter else "No request is in the system."
        return Lines((line(""), line(Span(f"  {words}", "dim"))))
    selected = None if scene.selected is None else frame.listing.line_of.get(scene.selected)
    make = partial(_line, frame, scene.selected, width, scene.order)
    return Lazy(len(frame.listing.entries), make, selected)


def _line(frame: Frame, selected: int | None, width: int, order: str, y: int) -> Line:
    entry = frame.listing.entries[y]
    if entry < 0:
        state, number = frame.listing.headings[-1 - entry]
        mark = PIN if state == PINNED else state_mark(state)
        title = heading(f" {mark.glyph} {fit(_long_word(state), 14).rstrip()}", f"{grouped(number)} ", width)
        return title._replace(spans=(title.spans[0]._replace(role=mark.role), *title.spans[1:]))
    request = frame.snapshot.requests[entry]
    columns, id_cells = request_columns(width, order, frame.listing.widest)
    return request_line(request, frame.snapshot.round, request.submission == selected, columns, id_cells)


def _long_word(state: str) -> str:
    return state.replace("_", " ") if state in STATES or state == PINNED else f"{state} (unknown)"


@lru_cache(maxsize=1024)
def request_line(
    request: RequestLine, round_: int, selected: bool, columns: tuple[_Column, ...], id_cells: int
) -> Line:
    """Return the line of one request; a click on it selects it. Kept, because most lines outlast many keys."""
    mark = state_mark(request.state)
    spans = [
        Span(SELECTED.glyph if selected else " ", SELECTED.role),
        Span(SCHEDULED.glyph if request.scheduled else " ", SCHEDULED.role),
        Span(mark.glyph, mark.role),
        Span(" "),
        Span(fit(request.request, id_cells), "strong" if request.scheduled else "text"),
    ]
    cause = request.cause
    if (
        cause is not None
        and not (request.scheduled or request.held_pages)
        and not any(c.name == "why" for c in columns)
    ):
        # It has nothing that the columns could tell: why it waits is what is asked.
        room = sum(column.cells + 1 for column in columns) - 1
        own = min(-(-cell_len(clean(request.request)) // _ID_STEP_CELLS) * _ID_STEP_CELLS, id_cells)
        least = cell_len(cause_text(cause, round_, room + id_cells - _ID_CELLS, roomy=False).rstrip())
        own = min(own, max(room + id_cells - least, _ID_CELLS))
        spans[-1] = Span(fit(request.request, own))
        spans.append(Span(f" {cause_text(cause, round_, room + id_cells - own)}", "warn"))
        columns = ()
    for column in columns:
        text, role = _why(request, round_, column.cells) if column.name == "why" else _cell(request, column.name)
        left = column.name in ("word", "why")
        lead = "  " if column.name == "why" else " "
        spans.append(Span(lead + fit(text, column.cells, "left" if left else "right"), role))
    return Line(tuple(spans), "cursor" if selected else "", ("request", request.submission))


def _why(request: RequestLine, round_: int, cells: int) -> tuple[str, str]:
    waits = request.cause is not None and not request.scheduled
    return (cause_text(request.cause, round_, cells) if waits and request.cause else "", "warn")


def _cell(request: RequestLine, name: str) -> tuple[str, str]:
    match name:
        case "word":
            mark = state_mark(request.state)
            return (mark.word, mark.role)
        case "computed":
            return grouped(request.computed_tokens), "text"
        case "prompt":
            return grouped(request.prompt_tokens), "dim"
        case "gen":
            return grouped(request.generated_tokens), "text" if request.generated_tokens else "dim"
        case "pages":
            each = "/".join(map(str, request.group_pages)) if len(request.group_pages) > 1 else ""
            text = each if each and len(each) <= _PAGES_CELLS else grouped(request.held_pages)
            return text, "text" if request.held_pages else "dim"
        case "age":
            return grouped(request.age_rounds), "dim"
        case _:
            more = "+" if request.carried else ""
            return (f"{grouped(request.retractions)}{more}", "retracted") if request.retractions else ("·", "dim")
