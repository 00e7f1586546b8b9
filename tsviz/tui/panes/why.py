"""Why the selected request has no row (or has one): a paragraph, and the tree of facts behind it."""

from __future__ import annotations

from collections.abc import Iterator

from tsviz.replay.stops.story import NotKnown
from tsviz.replay.why.tree import Answer, Branch
from tsviz.tui.clean import clean
from tsviz.tui.lines import Document, Line, Lines, Span, Stack, Target, line, wrapped
from tsviz.tui.panes.phases import unknown
from tsviz.tui.panes.request import selected_line, title
from tsviz.tui.panes.waits import why as one_sentence
from tsviz.tui.scene import Scene

_ROLES = {"deficit": "bad", "cycle": "retracted", "evictions": "retracted", "grant": "good", "victims": "heading",
          "holders": "heading", "rest": "heading"}  # fmt: skip

_WHEN = {"holders": " (at the refusal, before the plan)", "rest": " (at the refusal, before the plan)"}
"""What is told of the pool inside a round; the pool line of the screen tells of the pool behind the plan."""


def why(scene: Scene, width: int, _height: int) -> Document:
    """Return the answer when it is there; until then the cause in one sentence."""
    request = selected_line(scene)
    if request is None:
        return title(scene, width)
    found = scene.answer_for("why")
    match found:
        case Answer():
            return Stack((title(scene, width), Lines(_answer(found, width))))
        case NotKnown():
            return Stack((title(scene, width), unknown(found, scene, width)))
    waits = (*one_sentence(request, width), line(""), line(Span(" ◌ looking for what is behind it …", "dim")))
    return Stack((title(scene, width), Lines(waits)))


def _answer(answer: Answer, width: int) -> list[Line]:
    sentences = wrapped(clean(answer.paragraph), max(width - 2, 10), "text", indent=1)
    if not answer.tree.children and answer.tree.words in answer.paragraph:
        return sentences  # nothing stands behind it, and all of it is said
    return [*sentences, line(""), *_tree(answer.tree, width, "", "")]


def _tree(branch: Branch, width: int, lead: str, below: str) -> Iterator[Line]:
    target: Target | None = None
    at = ""
    if branch.position:
        at, target = f" @{branch.position}", ("position", branch.position)
    elif branch.request:
        target = ("name", branch.request)
    room = max(width - len(lead) - 2, 12)
    words = wrapped(branch.words + _WHEN.get(branch.kind, "") + at, room, _ROLES.get(branch.kind, "text"))
    for number, each in enumerate(words):
        edge = lead if number == 0 else below
        yield Line((Span(f" {edge}", "rule"), *each.spans), "", target)
    for index, child in enumerate(branch.children):
        last = index == len(branch.children) - 1
        yield from _tree(child, width, below + ("└ " if last else "├ "), below + ("  " if last else "│ "))
