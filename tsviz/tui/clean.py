"""The door: every string of a trace passes here before it may reach a terminal.

Request ids, engine names and error texts come from outside. Nothing in the toolkit removes escape sequences, so a
request id could move the cursor, set the clipboard or turn text around (library notes, Textual). Here they become
visible stand-ins, and a string is cut to a number of terminal cells, whatever its characters are.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from rich.cells import cell_len, set_cell_size

_HIDDEN = (
    0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180E, *range(0x200B, 0x2010), *range(0x2028, 0x202F),
    *range(0x2060, 0x2070), 0x3164, 0xFEFF, 0xFFA0, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080),
)  # fmt: skip
_STAND_INS = {
    **{code: 0x2400 + code for code in range(0x20)},
    0x7F: 0x2421,
    **dict.fromkeys(range(0x80, 0xA0), 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),
    **dict.fromkeys(_HIDDEN, 0xFFFD),
}
_EMOJI = "\u2190-\u21ff\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff"
_JOINER = re.compile(f"(?<=[{_EMOJI}])\u200d(?=[{_EMOJI}])")
"""Between two emoji a joiner only asks for one picture; left out, both are drawn, in cells that can be counted."""
_MARKS_KEPT = 2
_READ_AT_MOST = 4096
_KEPT_LENGTH = 256


def clean(text: str) -> str:
    """Return `text` with controls, C1, bidi, zero-width, surrogates and stacked marks made visible or dropped.

    A zero-width joiner between two emoji is dropped, anywhere else it is made visible. The result never holds a
    character that moves a cursor, changes direction or takes no cell, except up to two combining marks a letter.
    Cleaning twice changes nothing more.
    """
    if text.isascii() and text.isprintable():
        return text
    return _cleaned_before(text) if len(text) <= _KEPT_LENGTH else _cleaned(text)


def _cleaned(text: str) -> str:
    text = _JOINER.sub("", text).translate(_STAND_INS)
    if not any(map(unicodedata.combining, text)):
        return text
    kept: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.combining(character) else 0
        if marks <= _MARKS_KEPT:
            kept.append(character)
    return "".join(kept)


_cleaned_before = lru_cache(maxsize=4096)(_cleaned)
"""Rules, bars and glyphs of the screen are cleaned again and again."""


def shorten(text: str, cells: int) -> str:
    """Return `text`, cleaned, in at most `cells` terminal cells; what is left out of its middle is shown as `…`."""
    if cells <= 0:
        return ""
    text = clean(_within_reason(text))
    if cells == 1 and cell_len(text) > 1:
        return "…"
    return _cut(text, cells, (cells - 1) // 2)


def fit(text: str, cells: int, align: str = "left") -> str:
    """Return `text`, cleaned, in exactly `cells` terminal cells; `align` is left, right or centre."""
    if not (text.isascii() and text.isprintable() and len(text) <= cells):  # most are: a list is made of such
        text = shorten(text, cells)
    spare = cells - cell_len(text)
    if spare <= 0:
        return text
    if align == "right":
        return " " * spare + text
    if align == "centre":
        return " " * (spare // 2) + text + " " * (spare - spare // 2)
    return text + " " * spare


def told_apart(texts: Sequence[str], cells: int) -> list[str]:
    """Return texts, cleaned, each in at most `cells` cells, cut at one place so that most of them differ.

    That is the middle, as `shorten` cuts, unless different texts would look the same: then more of their ends is kept,
    or what stands behind the beginning that all have in common.
    """
    best = [shorten(text, cells) for text in texts]
    wanted = len(set(texts))
    if len(set(best)) == wanted or cells < 3:
        return best
    cleaned = [clean(_within_reason(text)) for text in texts]
    long = [text for text in cleaned if cell_len(text) > cells]
    shared = _shared(min(long, default=""), max(long, default=""))
    for tail in range(cells // 2, cells):
        best = _more_apart(best, [_cut(text, cells, tail) for text in cleaned])
    return _more_apart(best, [text if cell_len(text) <= cells else _behind(text, shared, cells) for text in cleaned])


def _more_apart(old: list[str], new: list[str]) -> list[str]:
    return new if len(set(new)) > len(set(old)) else old


def _shared(first: str, last: str) -> int:
    """Return how many characters two texts begin with alike: of a list's least and greatest, how many all do."""
    pairs = enumerate(zip(first, last, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(first), len(last)))


def _behind(text: str, shared: int, cells: int) -> str:
    """Leave out the first `shared` characters, and at the end what does not fit."""
    rest = text[shared:]
    return f"…{rest}" if cell_len(rest) < cells else f"…{_head(rest, cells - 2)}…"


def _within_reason(text: str) -> str:
    return text if len(text) <= _READ_AT_MOST else text[: _READ_AT_MOST // 2] + text[-_READ_AT_MOST // 2 :]


def _cut(text: str, cells: int, tail: int) -> str:
    if cell_len(text) <= cells:
        return text
    return f"{_head(text, cells - 1 - tail)}…{_tail(text, tail)}"


def _head(text: str, cells: int) -> str:
    return set_cell_size(text, cells).rstrip() if cells else ""


def _tail(text: str, cells: int) -> str:
    start = len(text)
    while start and cell_len(text[start - 1 :]) <= cells:
        start -= 1
    return text[start:].lstrip()
