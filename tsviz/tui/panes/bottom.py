"""The last line (a message, or the keys) and the tabs of a narrow terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from rich.cells import cell_len

from tsviz.tui.clean import clean
from tsviz.tui.key import Key
from tsviz.tui.keys import display
from tsviz.tui.lines import Document, Line, Lines, Span, clip, line
from tsviz.tui.scene import PANES, Scene

_ALWAYS = ("help", "app.quit")
"""Actions that the last line offers however narrow it is."""

TITLES = {"requests": "Requests", "round": "Round", "inspector": "Inspector", "timeline": "Timeline"}


def bottom(scene: Scene, width: int, _height: int) -> Document:
    """Return the message until the next key, otherwise the keys that fit; each is a button."""
    if scene.error and scene.frame is not None:
        shown = scene.frame.snapshot.round
        words = f" ✗ Round {scene.round:,} could not be read, still showing {shown:,} (r tries again): {scene.error}"
        return Lines((clip(line(Span(clean(words), "bad")), width),))
    if scene.kept:
        typed = " ".join(map(display, scene.kept))
        words = " ◌ Kept until the trace is open, esc forgets: "
        return Lines((clip(line(Span(words, "dim"), Span(clean(typed), "key")), width),))
    if scene.message:
        return Lines((clip(line(Span(f" {clean(scene.message)}", scene.message_role)), width),))
    return Lines((key_line(scene.keys, _ALWAYS, width),))


def named(key: Key) -> tuple[str, str, str]:
    """Return a key as `key_line` takes it: the first of its names, its word, its action."""
    return display(key.keys).split(" ")[0], key.word, key.action


def key_line(keys: Sequence[tuple[str, str, str]], always: Collection[str], width: int) -> Line:
    """Return the keys (name, word, action) that fit, each whole and a button; those of `always` are kept, and last."""
    pinned = [key for key in keys if key[2] in always]
    room = width - 1 - sum(map(_cells, pinned))
    offered: list[tuple[str, str, str]] = []
    for key in keys:
        if key not in pinned and _cells(key) <= room:
            offered.append(key)
            room -= _cells(key)
        elif key not in pinned:
            break
    spans = [Span(" ")]
    for name, word, action in (*offered, *pinned):
        spans += [Span(name, "key", ("action", action)), Span(f" {word}  ", "dim", ("action", action))]
    return clip(Line(tuple(spans)), width)


def _cells(key: tuple[str, str, str]) -> int:
    return cell_len(key[0]) + cell_len(key[1]) + 3


def tabs(scene: Scene, width: int, _height: int) -> Document:
    """Return the tab line; the open tab stands in brackets."""
    spans: list[Span] = [Span(" ")]
    for number, pane in enumerate(PANES, 1):
        here = pane == scene.focus
        text = f"[{number} {TITLES[pane]}]" if here else f" {number} {TITLES[pane]} "
        spans += [Span(text, "tab-active" if here else "tab", ("pane", pane)), Span(" ")]
    return Lines((clip(Line(tuple(spans)), width),))
