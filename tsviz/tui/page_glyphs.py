"""How a page is drawn: one glyph a code of `tsviz.replay.pages.values`, with its word, role and a sentence."""

from __future__ import annotations

from tsviz.replay.pages.values import CODES
from tsviz.tui.glyphs import Mark

PAGE_MARKS: dict[str, Mark] = {
    "owned": Mark("■", "owned", "page", "one request holds it, and its tokens are computed"),
    "shared": Mark("2", "shared", "accent", "so many requests hold it (2 to 9; + for more): a common prefix"),
    "reserve": Mark("□", "reserve", "waiting", "held ahead of what is computed: the reserve of its request"),
    "written": Mark("◆", "written", "prefilling", "in flight: a row of this round writes it"),
    "zeroed": Mark("°", "zeroed", "zeroed", "taken fresh in this round, to be zeroed"),
    "pinned": Mark(
        "⊙", "pinned", "warn", "a copy to the other tier reads it: pinned by that operation until it is acknowledged"
    ),
    "loading": Mark(
        "↑", "loading", "transfer", "a copy from the other tier (or storage) fills it, until it is acknowledged"
    ),
    "cached": Mark("▒", "cached", "pool", "no request holds it; it stays in the prefix index until it is evicted"),
    "freed": Mark("-", "freed", "dropped", "held or cached before this round, free behind it (or cached by it)"),
    "unknown": Mark("?", "unknown", "unknown", "free or cached: not known without re-execution"),
    "empty": Mark("·", "empty", "hole", "a hole: in a parent of its group, holding nothing"),
}
"""By code, in the order in which the summary lists them."""

UNBOUND = Mark("∙", "no group", "hole", "a parent that no group holds: empty")
LIT = Mark("■", "lit", "lit", "underlined: a page of the request that was chosen with enter")

BY_CODE: tuple[Mark, ...] = tuple(PAGE_MARKS[name] for name in CODES)
"""Marks by number of the code."""

LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""The letter in front of a parent says which group holds it."""
