"""The two sheets that lie over the screen: help with every key, and the legend of every glyph."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from tsviz.tui.causes import CAUSES
from tsviz.tui.clean import fit
from tsviz.tui.glyphs import CELLS, COUNTED, KINDS, LANES, MARKS, OTHERS, OUTCOMES, UNKNOWN_STATE, Mark
from tsviz.tui.keys import Key, display
from tsviz.tui.lines import Line, Span, heading, line, wrapped
from tsviz.tui.panes.finding_lines import CLEAN, NOT_CHECKABLE, SEVERITIES

_KEY_CELLS = 14
_WORD_CELLS = 12

_MOUSE = (
    ("click", "a request selects it; a column of the timeline, a stop, or a position in an answer goes there"),
    ("", "a column head orders the list; ▸ at the end of a candidate opens it; tabs open"),
    ("wheel", "scrolls a pane; over the header and the timeline it steps rounds"),
    ("ctrl+wheel", "over the timeline zooms around the pointer; with shift it pans"),
    ("bottom", "every key in the last line is a button"),
)
_BARS = (
    ("━■╌", "prefilling", "a prompt: computed before, this round's chunk, still to come"),
    (
        "▁▄█",
        "pool",
        "pages that live tables hold, at most, in a column; without decisions all that are occupied",
    ),
    ("░", "pool-cached", "pages that are only cached: evicted when somebody needs them"),
    ("◆", "position", "where you are"),
    ("↻", "warn", "tokens of the row that are computed again (replay)"),
    ("↓ ↑", "transfer", "write back to the host tier, load back from it"),
    ("›", "dim", "an event that landed before this plan"),
)


def key_lines(keys: Iterable[Key], width: int) -> list[Line]:
    """Return every key with its help, by section, and the ids by which they are rebound."""
    keys = tuple(keys)
    lines: list[Line] = []
    for section, members in groupby(keys, key=lambda key: key.section):
        lines += [line(""), heading(section, "", width)]
        for key in members:
            lines += _entry(display(key.keys), "key", key.help, _KEY_CELLS, width)
    lines.append(line(""))
    lines += wrapped(f"Ids of the keys: {', '.join(key.id for key in keys)}.", width, "dim")
    return lines[1:]


def help_lines(keys: Iterable[Key], width: int) -> list[Line]:
    """Return every key with its help, by section."""
    lines: list[Line] = []
    for section, members in groupby(keys, key=lambda key: key.section):
        lines += [line(""), heading(section, "", width)]
        for key in members:
            lines += _entry(display(key.keys), "key", key.help, _KEY_CELLS, width)
    lines += [line(""), heading("Mouse", "", width)]
    for what, does in _MOUSE:
        lines += _entry(what, "key", does, _KEY_CELLS, width)
    lines.append(line(""))
    lines += wrapped(
        "A message stays in the last line until the next key. Keys are rebound by their ids:", width, "dim"
    )
    lines += wrapped(", ".join(key.id for key in keys) + ".", width, "dim")
    return lines[1:]


def legend_lines(width: int) -> list[Line]:
    """Return every glyph with its word and a sentence."""
    lines: list[Line] = []
    sections: tuple[tuple[str, Iterable[Mark]], ...] = (
        ("States of a request", (*COUNTED.values(), UNKNOWN_STATE)),
        ("Rows of a batch", KINDS.values()),
        ("Cells of a block table", CELLS),
        ("Lanes of the timeline", LANES[1:]),
        ("Marks of the timeline", MARKS.values()),
        ("What a stop ended with", OUTCOMES.values()),
        ("Marks", OTHERS),
        ("Findings", (*SEVERITIES.values(), CLEAN, NOT_CHECKABLE)),
        ("Causes of lost time", CAUSES.values()),
    )
    for title, marks in sections:
        lines += [line(""), heading(title, "", width)]
        shown = tuple(marks)
        cells = max(_WORD_CELLS, *(len(mark.word) + 3 for mark in shown))
        for mark in shown:
            lines += _entry(f"{mark.glyph} {mark.word}", mark.role, mark.meaning, cells, width)
    lines += [line(""), heading("Bars and signs", "", width)]
    for glyph, role, meaning in _BARS:
        lines += _entry(glyph, role, meaning, _WORD_CELLS, width)
    return lines[1:]


def _entry(term: str, role: str, text: str, cells: int, width: int) -> list[Line]:
    body = wrapped(text, max(width - cells - 3, 10))
    first = line(Span(f"  {fit(term, cells)} ", role), *body[0].spans)
    return [first, *(line(Span(" " * (cells + 3)), *rest.spans) for rest in body[1:])]
