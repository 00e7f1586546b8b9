"""Help and legend of the pages screen."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from tsviz.tui.clean import fit
from tsviz.tui.key import Key
from tsviz.tui.keys import display
from tsviz.tui.lines import Line, Span, heading, line, wrapped
from tsviz.tui.page_glyphs import LIT, PAGE_MARKS, UNBOUND
from tsviz.tui.panes.page_card import EVENT_SIGNS

_MOUSE = (
    ("move", "the line under the map tells what is under the pointer"),
    ("click", "moves the cursor to a page; a second click lights the pages of its request"),
    ("life", "a click on an event of a page's life goes to that round"),
    ("wheel", "scrolls the map; over the header it steps rounds"),
)


def pages_help(keys: Iterable[Key], width: int) -> list[Line]:
    """Return every key of the pages screen with its help, by section, and the ids by which they are rebound."""
    keys = tuple(keys)
    lines: list[Line] = []
    for section, members in groupby(keys, key=lambda key: key.section):
        lines += [line(""), heading(section, "", width)]
        for key in members:
            lines += _entry(_shown(key.keys), "key", key.help, 14, width)
    lines += [line(""), heading("Mouse", "", width)]
    for what, does in _MOUSE:
        lines += _entry(what, "key", does, 14, width)
    lines.append(line(""))
    lines += wrapped(f"Ids of the keys: {', '.join(key.id for key in keys)}.", width, "dim")
    return lines[1:]


def pages_legend(width: int) -> list[Line]:
    """Return every glyph of the map and of a page's life with its meaning."""
    lines = [heading("Pages", "", width)]
    for mark in (*PAGE_MARKS.values(), UNBOUND, LIT):
        lines += _entry(f"{mark.glyph} {mark.word}", mark.role, mark.meaning, 12, width)
    letter = "the letter in front of a parent names the group that holds it, as in the summary"
    lines += _entry("a b c", "dim", letter, 12, width)
    lines += [line(""), heading("A page's life", "", width)]
    for glyph, role, words in EVENT_SIGNS:
        lines += _entry(glyph, role, words, 12, width)
    lines += [line("")]
    return lines + wrapped(
        "Who holds a page is recorded. What is cached follows from decisions (recorded, or derived by tsviz index); "
        "without them only what a later hit proves is called cached, and the rest is ?.",
        width, "dim",
    )  # fmt: skip


def _shown(keys: str) -> str:
    return display(keys).replace("question_mark", "?").replace("full_stop", ".").replace("comma", ",")


def _entry(term: str, role: str, text: str, cells: int, width: int) -> list[Line]:
    body = wrapped(text, max(width - cells - 3, 10))
    first = line(Span(f"  {fit(term, cells)} ", role), *body[0].spans)
    return [first, *(line(Span(" " * (cells + 3)), *rest.spans) for rest in body[1:])]
