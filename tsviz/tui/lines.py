"""What a pane draws: lines of spans, and documents that make a line only when somebody looks at it.

No toolkit here: a document is a pure function of a frozen scene, so it is tested by reading its text. Documents are
virtual: the height is known at once, a line is made on demand, so 100,000 requests cost what is visible.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import NamedTuple, Protocol

from rich.cells import cell_len, set_cell_size

from tsviz.tui.clean import clean, shorten

Target = tuple[str, int] | tuple[str, str]
"""What a click means: ("request", submission), ("name", request id), ("round", round), ("stop", stop), ("fold", stop),
("position", round.stop), ("step", rounds), ("action", name), ("pane", id), ("view", name)."""


class Span(NamedTuple):
    """Text in one role of the theme; `target` is what a click on it does."""

    text: str
    role: str = "text"
    target: Target | None = None


class Line(NamedTuple):
    """Spans from left to right; `base` is the role under the whole line (the cursor bar), `target` its click."""

    spans: tuple[Span, ...] = ()
    base: str = ""
    target: Target | None = None

    @property
    def text(self) -> str:
        """The characters alone, as a terminal without colour shows them."""
        return "".join(span.text for span in self.spans)

    @property
    def cells(self) -> int:
        """Width in terminal cells."""
        return sum(cell_len(span.text) for span in self.spans)


class Document(Protocol):
    """A pane's content for one width: how many lines, each line on demand, and the line to keep in sight."""

    @property
    def height(self) -> int:
        """Number of lines."""
        ...

    @property
    def focus(self) -> int | None:
        """Line that holds the selection, if any."""
        ...

    def line(self, y: int) -> Line:
        """Return line `y`, 0 <= y < height."""
        ...


class Lazy:
    """A document of `height` lines that `make` produces."""

    def __init__(self, height: int, make: Callable[[int], Line], focus: int | None = None) -> None:
        self.height = height
        self.focus = focus
        self._make = make

    def line(self, y: int) -> Line:
        """Return line `y`."""
        return self._make(y)


class Lines(Lazy):
    """A short document whose lines are ready."""

    def __init__(self, lines: Iterable[Line], focus: int | None = None) -> None:
        ready = tuple(lines)
        super().__init__(len(ready), ready.__getitem__, focus)


class Stack:
    """Documents one below the other."""

    def __init__(self, parts: Iterable[Document]) -> None:
        self._parts = tuple(part for part in parts if part.height)
        self._starts = (0, *accumulate(part.height for part in self._parts))
        self.height = self._starts[-1]
        self.focus: int | None = None
        for start, part in zip(self._starts, self._parts, strict=False):
            if part.focus is not None:
                self.focus = start + part.focus

    def line(self, y: int) -> Line:
        """Return line `y`."""
        index = bisect_right(self._starts, y) - 1
        return self._parts[index].line(y - self._starts[index])


def line(*parts: Span | str, base: str = "", target: Target | None = None) -> Line:
    """Return a line of spans; a bare string is a span in the ordinary role."""
    return Line(tuple(Span(part) if isinstance(part, str) else part for part in parts), base, target)


def target_at(whole: Line, cell: int) -> Target | None:
    """Return what a click on terminal cell `cell` of the line means."""
    for span in whole.spans:
        cell -= cell_len(span.text)
        if cell < 0:
            return span.target or whole.target
    return whole.target


def heading(title: str, note: str, width: int) -> Line:
    """Return a section heading `title ───── note`, exactly `width` cells where there is room for one."""
    room = width - cell_len(title) - 2
    note = f" {shorten(note, max(room, 0))}" if note else ""
    rule = "─" * max(width - cell_len(title) - cell_len(note) - 1, 0)
    return Line((Span(title, "heading"), Span(f" {rule}", "rule"), Span(note, "dim")))


def spread(left: Iterable[Span], right: Iterable[Span], width: int) -> Line:
    """Return a line with `left` at the left and `right` at the right edge; where they touch, `left` is cut."""
    right = tuple(right)
    line_right = Line(right)
    room = max(width - line_right.cells - 1, 0)
    kept = clip(Line(tuple(left)), room)
    gap = " " * max(width - kept.cells - line_right.cells, 0)
    return Line((*kept.spans, Span(gap), *right))


def clip(whole: Line, width: int) -> Line:
    """Return the line, cut to `width` cells with a `…` where something was left out."""
    if whole.cells <= width:
        return whole
    spans: list[Span] = []
    room = max(width - 1, 0)
    for span in whole.spans:
        text = span.text if cell_len(span.text) <= room else set_cell_size(span.text, max(room, 0))
        spans.append(span._replace(text=text))
        room -= cell_len(text)
        if text != span.text:
            break
    return whole._replace(spans=(*spans, Span("…" if width else "", "dim")))


def wrapped(text: str, cells: int, role: str = "text", indent: int = 0) -> list[Line]:
    """Return `text`, cleaned, broken between words (inside one that is too long) into lines of `cells` cells."""
    margin, width = " " * indent, cells - indent
    lines: list[Line] = []
    current = ""
    for word in clean(text).split(" "):
        while cell_len(word) > width > 0:
            if current:
                lines.append(line(Span(margin + current, role)))
            piece = word[: width if word.isascii() else max(width // 2, 1)]
            lines.append(line(Span(margin + piece, role)))
            current, word = "", word[len(piece) :]
        if current and cell_len(current) + 1 + cell_len(word) > width:
            lines.append(line(Span(margin + current, role)))
            current = word
        else:
            current = f"{current} {word}" if current else word
    if current:
        lines.append(line(Span(margin + current, role)))
    return lines
