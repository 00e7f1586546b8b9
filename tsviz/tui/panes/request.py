"""The selected request: its lengths and pages, why it waits, its reserve, and what this round did with it."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import RequestLine
from tsviz.replay.stops.story import RoundStory
from tsviz.tui.clean import clean, shorten
from tsviz.tui.glyphs import OUTCOMES, SELECTED, state_mark
from tsviz.tui.lines import Document, Line, Lines, Span, Stack, clip, heading, line, wrapped
from tsviz.tui.numbers import bar, counted, grouped, percent
from tsviz.tui.panes.facts import fact_lines
from tsviz.tui.panes.waits import reserve_lines, why
from tsviz.tui.scene import Scene


def selected_line(scene: Scene) -> RequestLine | None:
    """Return the selected request as it is in this round; None where none is selected or it is not there."""
    frame = scene.frame
    if frame is None or scene.selected is None:
        return None
    listed = frame.request(scene.selected)
    if listed is not None:
        return listed
    return next((r for r in frame.snapshot.requests if r.submission == scene.selected), None)


def title(scene: Scene, width: int) -> Document:
    """Return the name and state of the selected request, or why there is none."""
    if scene.selected is None:
        return Lines(wrapped("No request is selected: ↑ ↓ or a click selects one.", width, "dim", indent=1))
    request = selected_line(scene)
    if request is None:
        round_ = scene.frame.snapshot.round if scene.frame is not None else scene.round
        name = shorten(scene.selected_id or f"submission {scene.selected}", max(width - 3, 1))
        words = f"It is not in the system in round {grouped(round_)}. [ and ] go to rounds where it is, W to who waits."
        return Lines((line(Span(f" {name}", "title")), *wrapped(words, width, "dim", indent=1)))
    mark = state_mark(request.state)
    name = shorten(request.request, max(width - 14, 6))
    spans = (Span(f" {SELECTED.glyph} ", "accent"), Span(name, "title"), Span(f"  {mark.glyph} {mark.word}", mark.role))
    return Lines((clip(line(*spans), width),))


def request(scene: Scene, width: int, _height: int) -> Document:
    """Return everything of the selected request that fits a card, and what the phases did with it."""
    found, frame = selected_line(scene), scene.frame
    if found is None or frame is None:
        return title(scene, width)
    snapshot = frame.snapshot
    reserve = snapshot.reserve if snapshot.selected == scene.selected else None
    parts = [title(scene, width), _card(found, snapshot.head.groups, width)]
    parts.append(Lines((*why(found, width), *reserve_lines(reserve, width))))
    if isinstance(frame.story, RoundStory):
        parts.append(Lines(_told(frame.story, found.submission, width)))
    return Stack(parts)


def _card(request: RequestLine, groups: tuple[str, ...], width: int) -> Document:
    done, prompt = min(request.computed_tokens, request.prompt_tokens), request.prompt_tokens
    cells = min(max(width - 30, 6), 24)

    def fact(label: str, *spans: Span) -> Line:
        return clip(line(Span(f" {label:>9} ", "dim"), *spans), width)

    def share(part: int, whole: int, role: str, words: str) -> tuple[Span, ...]:
        full, empty = bar(part, whole, cells)
        return Span(full, role), Span(empty, "bar-empty"), Span(f" {words}")

    limit = f"of {grouped(request.max_new_tokens)}" if request.max_new_tokens else "of undeclared"
    output = f"{grouped(request.generated_tokens)} {limit}"
    least = "at least " if request.carried else ""
    times = Span(f"{least}{counted(request.retractions, 'time')}", "retracted" if request.retractions else "text")
    pages = [fact("holds", Span(counted(request.held_pages, "page")))]
    if len(groups) > 1 and request.group_pages:
        each = ", ".join(f"{grouped(n)} {shorten(g, 16)}" for n, g in zip(request.group_pages, groups, strict=False))
        pages = [fact("holds", Span(counted(request.held_pages, "page")), Span(f"  {each}", "dim"))]
    return Lines(
        (
            fact("prompt", *share(done, prompt, "budget", f"{percent(done, prompt)} of {grouped(prompt)}")),
            fact("output", *share(request.generated_tokens, request.max_new_tokens, "budget", output)),
            fact("computed", Span(counted(request.computed_tokens, "token"))),
            *pages,
            fact("age", Span(counted(request.age_rounds, "round")), Span(f"  submission {request.submission}", "dim")),
            fact("retracted", times),
        )
    )


def _told(story: RoundStory, submission: int, width: int) -> list[Line]:
    """What each phase that came to the request did, with everything told at its stops."""
    lines: list[Line] = []
    for phase, entry in story.of(submission):
        lines.append(heading(f" {phase.name}", f"stop {entry.stops[0].number:,} ", width))
        mark = OUTCOMES[entry.outcome]
        lines += [
            Line(
                (Span(f" {mark.glyph} " if i == 0 else "   ", mark.role), *each.spans),
                "",
                ("stop", entry.stops[0].number),
            )
            for i, each in enumerate(wrapped(clean(entry.words), max(width - 4, 8), mark.role))
        ]
        for stop in entry.stops:
            for told in stop.facts:
                lines += fact_lines(told, width, 3)
    return lines
