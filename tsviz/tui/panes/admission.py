"""The admissions of the selected request in this round: need, supply and deficit per group, reserve, evictions."""

from __future__ import annotations

from tsviz.replay.stops.story import ATTEMPT, CANDIDATE, RoundStory, Stop
from tsviz.tui.clean import clean
from tsviz.tui.glyphs import OUTCOMES
from tsviz.tui.lines import Document, Line, Lines, Span, Stack, clip, heading, line, wrapped
from tsviz.tui.panes.facts import fact_lines
from tsviz.tui.panes.phases import unknown
from tsviz.tui.panes.request import selected_line, title
from tsviz.tui.panes.waits import why
from tsviz.tui.scene import Scene


def admission(scene: Scene, width: int, _height: int) -> Document:
    """Return every attempt to admit the selected request, in order; where none was made, why."""
    frame, request = scene.frame, selected_line(scene)
    assert frame is not None
    if not isinstance(frame.story, RoundStory):
        return unknown(frame.story, scene, width)
    if request is None:
        return title(scene, width)
    parts: list[Document] = [title(scene, width)]
    tried = [
        stop for stop in frame.story.stops()
        if stop.kind in (CANDIDATE, ATTEMPT) and stop.submission == request.submission and stop.facts
    ]  # fmt: skip
    if not tried:
        in_place = request.scheduled and request.state == "decoding"
        words = (
            "It decodes in place: its row touches no page, so nothing was admitted."
            if in_place
            else "No admission was tried for it in this round."
        )
        parts.append(Lines((*wrapped(words, width, "dim", indent=1), *why(request, width))))
    parts += [Lines(_attempt(stop, width)) for stop in tried]
    return Stack(parts)


def _attempt(stop: Stop, width: int) -> list[Line]:
    mark = OUTCOMES[stop.outcome]
    lines = [
        heading(f" stop {stop.number}", f"{mark.glyph} {mark.word} ", width)._replace(target=("stop", stop.number))
    ]
    lines.append(clip(line(Span(f" {clean(stop.words)}", "text")), width))
    for fact in stop.facts:
        lines += fact_lines(fact, width, 1)
    return lines
