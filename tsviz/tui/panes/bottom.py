"""The last line (a message, or the keys) and the tabs of a narrow terminal."""

from __future__ import annotations

from tsviz.tui.clean import clean
from tsviz.tui.lines import Document, Line, Lines, Span, clip, line
from tsviz.tui.scene import PANES, Scene

TITLES = {"requests": "Requests", "round": "Round", "tables": "Block tables"}


def bottom(scene: Scene, width: int, _height: int) -> Document:
    """Return the message until the next key, otherwise the keys that fit; each is a button."""
    if scene.error and scene.frame is not None:
        shown = scene.frame.snapshot.round
        words = f" ✗ Round {scene.round:,} could not be read, still showing {shown:,} (r tries again): {scene.error}"
        return Lines((clip(line(Span(clean(words), "bad")), width),))
    if scene.message:
        return Lines((clip(line(Span(f" {clean(scene.message)}", scene.message_role)), width),))
    spans: list[Span] = [Span(" ")]
    used = 1
    for key, word, action in scene.keys:
        cells = len(key) + len(word) + 3
        if used + cells > width:
            break
        spans += [Span(key, "key", ("action", action)), Span(f" {word}  ", "dim", ("action", action))]
        used += cells
    return Lines((Line(tuple(spans)),))


def tabs(scene: Scene, width: int, _height: int) -> Document:
    """Return the tab line; the open tab stands in brackets."""
    spans: list[Span] = [Span(" ")]
    for number, pane in enumerate(PANES, 1):
        here = pane == scene.focus
        text = f"[{number} {TITLES[pane]}]" if here else f" {number} {TITLES[pane]} "
        spans += [Span(text, "tab-active" if here else "tab", ("pane", pane)), Span(" ")]
    return Lines((clip(Line(tuple(spans)), width),))
