"""The retraction loop of the round: every turn with its candidates, ranks, exemptions, retries and grant."""

from __future__ import annotations

from tsviz.replay.stops.story import ITERATION, Entry, RoundStory, Stop
from tsviz.tui.clean import clean
from tsviz.tui.glyphs import OUTCOMES
from tsviz.tui.lines import Document, Line, Lines, Span, Stack, heading, line, wrapped
from tsviz.tui.numbers import counted
from tsviz.tui.panes.facts import fact_lines
from tsviz.tui.panes.phases import unknown
from tsviz.tui.panes.victims import victim_table
from tsviz.tui.scene import Scene


def retraction(scene: Scene, width: int, _height: int) -> Document:
    """Return the turns of the loop, or why there was none."""
    frame = scene.frame
    assert frame is not None
    if not isinstance(frame.story, RoundStory):
        return unknown(frame.story, scene, width)
    turns = [e for phase in frame.story.phases for e in phase.entries if e.stops[0].kind == ITERATION]
    blockers = [fact.request for stop in frame.story.stops() for fact in stop.of("blocker")]
    if not turns:
        return Lines(_none(frame.story, blockers, width))
    parts: list[Document] = []
    for number, turn in enumerate(turns, 1):
        first = turn.stops[0]
        victims = [fact for fact in first.facts if fact.kind == "victim"]
        exempt = sum(fact.numbers["exempt"] for fact in victims)
        title = f" turn {number} of {len(turns)}, stop {first.number}"
        notes = (f"{counted(len(victims), 'candidate')}, {exempt:,} exempt ", f"{len(victims):,}, {exempt:,} exempt ")
        head = heading(title, next((n for n in notes if len(title) + len(n) + 2 <= width), ""), width)
        parts.append(Lines((head._replace(target=("stop", first.number)), *_told(first, turn, "", width))))
        if victims:
            parts.append(victim_table(victims, width, 3))
        below = [
            found for fact in first.facts if fact.kind in ("chunk", "reserve") for found in fact_lines(fact, width, 3)
        ]
        for stop in turn.stops[1:]:
            below += _told(stop, stop, f"{stop.number} ", width)
            below += [found for fact in stop.facts for found in fact_lines(fact, width, 3)]
        parts.append(Lines(below))
    return Stack(parts)


def _told(stop: Stop, about: Stop | Entry, number: str, width: int) -> list[Line]:
    """Return the outcome of a stop as its mark, and words that go on in the next line."""
    mark = OUTCOMES[about.outcome]
    words = wrapped(clean(number + about.words), max(width - 4, 8), "text" if number else mark.role)
    leads = [f" {mark.glyph} ", *["   "] * (len(words) - 1)]
    return [
        Line((Span(lead, mark.role), *each.spans), "", ("stop", stop.number))
        for lead, each in zip(leads, words, strict=True)
    ]


def _none(story: RoundStory, blockers: list[str], width: int) -> list[Line]:
    lines = [line(Span(" No retraction in this round.", "title"))]
    if not blockers:
        return [*lines, *wrapped("Nobody was refused for capacity, so nobody had to give way.", width, "dim", indent=1)]
    words = f"{blockers[0]} was refused first and is the blocker; but a prefill moved on, so nobody is retracted."
    if any(phase.name == "retraction" for phase in story.phases):
        words = f"{blockers[0]} is the blocker; the loop made no turn."
    return [*lines, *wrapped(words, width, "dim", indent=1)]
