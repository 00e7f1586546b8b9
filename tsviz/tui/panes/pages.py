"""The pages map: parents in the order of their addresses, the pages of each as cells, a line at a time.

With one group of one page a parent a cell is both. Otherwise each parent is drawn as the letter of the group that holds
it and a cell for each of its pages, as wide as the group with most pages a parent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from tsviz.replay.pages import values as v
from tsviz.replay.pages.values import PagesMap
from tsviz.tui.clean import shorten
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, clip, line, wrapped
from tsviz.tui.numbers import counted, grouped, percent
from tsviz.tui.page_glyphs import BY_CODE, LETTERS, PAGE_MARKS, UNBOUND
from tsviz.tui.pages_scene import PagesScene, place

_NICE = (256, 192, 128, 96, 64, 48, 32, 24, 16, 8, 4, 2)
_BUNCH = 8
_GLYPHS = "".join(mark.glyph for mark in BY_CODE)
_ROLES = tuple(mark.role for mark in BY_CODE)
_LIT_ROLE, _CURSOR_ROLE, _GAP_ROLE = len(_ROLES), len(_ROLES) + 1, len(_ROLES) + 2
_PLAIN_ROLES = (*_ROLES, "lit", "brand", "text")
_GAP = bytes([_GAP_ROLE])
_RUN = re.compile(rb"(.)\1*", re.DOTALL)
_SHARED, _EMPTY = re.compile(re.escape(bytes([v.SHARED])) + b"+"), re.compile(re.escape(bytes([v.EMPTY])) + b"+")
_PAD = (("", "text"), (" ", "text"))
_role = itemgetter(1)


class Geometry(NamedTuple):
    """How parents stand in a line: cells of the label, of a parent (`pad` blank ones at its end included), parents a
    line, and a gap behind so many.
    """

    label: int
    unit: int
    letters: bool
    per_line: int
    bunch: int
    pad: int

    def x_of(self, index: int, child: int) -> int:
        """Return the cell of a child of the parent at `index` in its line."""
        return self.label + 1 + index * self.unit + index // self.bunch + int(self.letters) + child

    def at(self, x: int) -> tuple[int, int] | None:
        """Return (index in the line, child) at a cell; None between the parents."""
        x -= self.label + 1
        whole = self.bunch * self.unit + 1
        bunch, inside = divmod(x, whole)
        index, child = divmod(inside, self.unit)
        child = max(child - int(self.letters), 0)
        index += bunch * self.bunch
        if x < 0 or inside == whole - 1 or index >= self.per_line:
            return None
        return index, child


def geometry(pages: PagesMap, width: int, height: int) -> Geometry:
    """Return how the parents of a map are laid out in `width` cells: twice as wide where `height` lines still do."""
    label = max(len(str(len(pages.parents) - 1)), 4) + 1
    most = max((group.packing for group in pages.groups), default=1)
    letters = len(pages.groups) > 1
    bunch = 1 if most > 1 else (4 if letters else _BUNCH)

    def shaped(pad: int) -> Geometry:
        unit = most + int(letters) + pad
        room = width - label - 1
        fitting = (n for n in _NICE if n * unit + -(-n // bunch) - 1 <= room)
        return Geometry(label, unit, letters, next(fitting, 1), bunch, pad)

    wide = shaped(1)
    airy = most == 1 and -(-(len(pages.parents) - 1) // wide.per_line) <= height
    return wide if airy else shaped(0)


class Drawn:
    """The lines of the map that was drawn last but for the one with the cursor, which moves at every key."""

    def __init__(self) -> None:
        self._pages: PagesMap | None = None
        self._of: tuple[object, ...] = ()
        self._lines: dict[int, Line] = {}

    def line(self, scene: PagesScene, pages: PagesMap, shape: Geometry, width: int, y: int) -> Line:
        """Return line `y`, as it was made before where nothing about it is new."""
        if (scene.parent - 1) // shape.per_line == y:
            return _map_line(scene, pages, shape, width, y)
        of = (scene.lit_pages, scene.group, shape, width)
        if pages is not self._pages or of != self._of:
            self._pages, self._of, self._lines = pages, of, {}
        made = self._lines.get(y)
        if made is None:
            made = self._lines[y] = _map_line(scene, pages, shape, width, y)
        return made


def pages_map(scene: PagesScene, drawn: Drawn, width: int, height: int) -> Document:
    """Return the map, or what is said in its place; lines that are the same as in `drawn` are taken from there."""
    pages = scene.map
    if pages is None:
        return _instead(scene, width, height)
    shape = geometry(pages, width, height)
    parents = len(pages.parents) - 1
    focus = (scene.parent - 1) // shape.per_line
    return Lazy(-(-parents // shape.per_line), partial(drawn.line, scene, pages, shape, width), focus)


def parent_at(scene: PagesScene, size: tuple[int, int], x: int, y: int) -> tuple[int, int] | None:
    """Return (parent, child) at a cell of the map's document in `size` columns and lines; None where there is none."""
    if scene.map is None:
        return None
    shape = geometry(scene.map, *size)
    found = shape.at(x)
    if found is None:
        return None
    parent = y * shape.per_line + found[0] + 1
    if not 1 <= parent < len(scene.map.parents):
        return None
    group = scene.map.parents[parent]
    most = scene.map.groups[group].packing if group >= 0 else max(g.packing for g in scene.map.groups)
    return parent, min(found[1], most - 1)


def _map_line(scene: PagesScene, pages: PagesMap, shape: Geometry, width: int, y: int) -> Line:
    first = y * shape.per_line + 1
    last = min(first + shape.per_line, len(pages.parents))
    label = Span(f"{first:>{shape.label}} ", "dim")
    if shape.unit == 1 + shape.pad and not shape.letters:
        drawn = Line((label, *_plain_cells(scene, pages, shape, first, last)))
        return drawn if shape.per_line > 1 else clip(drawn, width)  # more than one stand in a line where they fit
    cells = _cells(scene, pages, shape, first, last)
    runs = (Span("".join(cell[0] for cell in run), role) for role, run in groupby(cells, _role))
    return clip(Line((label, *runs)), width)


def _plain_cells(scene: PagesScene, pages: PagesMap, shape: Geometry, first: int, last: int) -> list[Span]:
    """Return the cells of one group of one page a parent: the same as `_cells`, a line at a time for speed.

    `roles` holds a number a cell (a code, or one of the three behind them) so that runs are found by one expression.
    """
    codes, shares, lit = pages.codes[0][first:last], pages.shares[0], scene.lit_pages[0] if scene.lit_pages else None
    glyphs, roles = [_GLYPHS[code] for code in codes], bytearray(codes)
    for found in _SHARED.finditer(codes):
        for at in range(*found.span()):
            glyphs[at] = str(shares[first + at]) if shares[first + at] < 10 else "+"
    for found in _EMPTY.finditer(codes):
        for at in range(*found.span()):
            if pages.parents[first + at] < 0:
                glyphs[at] = UNBOUND.glyph
    if lit:
        for page in lit.intersection(range(first, last)):
            roles[page - first] = _LIT_ROLE
    if first <= scene.parent < last:
        roles[scene.parent - first] = _CURSOR_ROLE
    between, gap = (" ", _GAP) if shape.pad else ("", b"")
    bunches = range(0, last - first, shape.bunch)
    text = (between + " ").join(between.join(glyphs[i : i + shape.bunch]) for i in bunches)
    marks = (gap + _GAP).join(gap.join(roles[j : j + 1] for j in range(i, min(i + shape.bunch, len(roles))))
                              for i in bunches)  # fmt: skip
    return [Span(text[run.start() : run.end()], _PLAIN_ROLES[marks[run.start()]]) for run in _RUN.finditer(marks)]


def _cells(scene: PagesScene, pages: PagesMap, shape: Geometry, first: int, last: int) -> Iterator[tuple[str, str]]:
    """Yield (glyph, role) of every cell of a line, gaps included."""
    cursor, only, lit = (scene.parent, scene.child), scene.group, scene.lit_pages
    pitch = shape.unit - int(shape.letters) - shape.pad
    for parent in range(first, last):
        if parent > first and (parent - first) % shape.bunch == 0:
            yield " ", "text"
        group = pages.parents[parent]
        shown = group if group >= 0 else (0 if len(pages.groups) == 1 else -1)
        if shape.letters:
            yield (LETTERS[group % 26], "dim") if group >= 0 and only in (None, group) else (" ", "text")
        if shown < 0 or (only is not None and only != shown):
            glyph, role = _no_group(group)
            for child in range(pitch):
                yield glyph if child == 0 else " ", "brand" if (parent, child) == cursor else role
            yield _PAD[shape.pad]
            continue
        packing = pages.groups[shown].packing
        page = 1 + (parent - 1) * packing
        codes, shares = pages.codes[shown], pages.shares[shown]
        for child in range(pitch):
            if child >= packing:
                yield " ", "text"
                continue
            code = codes[page + child]
            glyph = _GLYPHS[code]
            if code == v.SHARED:
                glyph = str(shares[page + child]) if shares[page + child] < 10 else "+"
            elif code == v.EMPTY and group < 0:
                glyph = UNBOUND.glyph
            role = _ROLES[code]
            if lit and page + child in lit[shown]:
                role = "lit"
            yield glyph, "brand" if (parent, child) == cursor else role
        yield _PAD[shape.pad]


def _no_group(group: int) -> tuple[str, str]:
    if group >= 0:
        return " ", "text"
    mark = PAGE_MARKS["unknown"] if group == v.UNBOUND_OR_CACHED else UNBOUND
    return mark.glyph, mark.role


def _instead(scene: PagesScene, width: int, height: int) -> Document:
    if scene.error:
        body = [*wrapped("✗ The pages could not be read.", width, "bad", indent=1), line("")]
        body += wrapped(scene.error, width, indent=1)
    elif scene.head.rounds == 0:
        body = wrapped("∅ This trace has no rounds, so no page was ever held.", width, "heading", indent=1)
    elif scene.preparing is not None:
        share = percent(scene.preparing.done_rows, scene.preparing.of_rows)
        body = wrapped(f"◌ This large trace is being indexed, once: {share}.", width, "dim", indent=1)
        body += wrapped("Its pages follow by themselves.", width, indent=1)
    else:
        body = wrapped("◌ Reading who held which page …", width, "dim", indent=1)
    return Lines([line("")] * max((height - len(body)) // 3, 0) + body)


def summary(scene: PagesScene, width: int, _height: int) -> Document:
    """Return a line a group with how many of its pages are what, and one of the parents."""
    pages = scene.map
    if pages is None:
        return Lines(())
    lines = [_parents_line(pages, width)]
    several = len(pages.groups) > 1
    name_cells = min(max((len(g.name) for g in pages.groups), default=4), 16)
    for index, group in enumerate(pages.groups):
        spans = [Span(f" {LETTERS[index % 26]} " if several else " ", "dim")]
        chosen = scene.group == index
        spans += [
            Span(f"{shorten(group.name, name_cells):<{name_cells}}", "title" if chosen else "heading"),
            Span("  "),
        ]
        counts = pages.counts[index]
        for name, mark in PAGE_MARKS.items():
            if name == "shared" and counts.get(name):
                spans += [Span(f"{grouped(counts[name])} ", mark.role), Span("shared (2 to +)  ", "dim")]
            elif counts.get(name):
                spans += [Span(f"{mark.glyph} {grouped(counts[name])} ", mark.role), Span(f"{mark.word}  ", "dim")]
        if len(spans) == 3:
            spans.append(Span("nothing", "dim"))
        lines.append(clip(Line(tuple(spans)), width))
    return Lines(lines)


def _parents_line(pages: PagesMap, width: int) -> Line:
    parents = len(pages.parents) - 1
    spans = [
        Span(" host parents " if pages.tier == v.HOST else " parents ", "dim"),
        Span(grouped(parents), "strong"),
        Span("  empty ", "dim"),
        Span(grouped(pages.empty_parents), "bad" if parents and pages.empty_parents == 0 else "strong"),
    ]
    if pages.unknown_parents:
        counted_ = f" ({grouped(pages.unknown_cached)} cached by the scheduler's count)"
        spans += [
            Span(f"  ? {grouped(pages.unknown_parents)} ", PAGE_MARKS["unknown"].role),
            Span(f"empty or cached{counted_ if pages.unknown_cached >= 0 else ''}", "dim"),
        ]
    if pages.live is not None:
        spans.append(Span("  caching: re-executed and verified", "good"))
    else:
        known = {"recorded": "recorded decisions", "derived": "derived decisions"}
        said = known.get(pages.source, "tsviz index tells more")
        spans.append(Span(f"  caching: {said}", "dim"))
    return clip(Line(tuple(spans)), width)


def under(scene: PagesScene, width: int, _height: int) -> Document:
    """Return one line: the message, or what is under the pointer (the cursor, where the pointer is elsewhere)."""
    if scene.message:
        return Lines((clip(line(Span(f" {scene.message}", "message")), width),))
    pages = scene.map
    if pages is None:
        return Lines((line(""),))
    parent, child = scene.hover or (scene.parent, scene.child)
    where = place(pages, scene.group, parent, child)
    said = f" parent {grouped(parent)}"
    if where is None:
        words = "empty" if pages.parents[parent] == v.UNBOUND else "empty or cached"
        if pages.parents[parent] >= 0:
            words = f"held by {pages.groups[pages.parents[parent]].name}"
        return Lines((clip(line(Span(said, "dim"), Span(f"  {words}")), width),))
    group, page = where
    mark = BY_CODE[pages.codes[group][page]]
    spans = [Span(f"{said}  page {grouped(page)} of {shorten(pages.groups[group].name, 16)}", "dim")]
    owner, shares = pages.owners[group][page], pages.shares[group][page]
    spans += [Span(f"  {shares if mark.word == 'shared' else mark.glyph} {mark.word}", mark.role)]
    if owner >= 0:
        lead = "  copy of a page of " if pages.tier == v.HOST else "  "
        spans.append(Span(f"{lead}{shorten(pages.names.get(owner, str(owner)), 32)}"))
    if shares > 1:
        spans.append(Span(f" and {counted(shares - 1, 'other')}", "dim"))
    return Lines((clip(Line(tuple(spans)), width),))
