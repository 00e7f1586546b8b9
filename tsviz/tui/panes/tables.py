"""The inspector: the selected request, and its block tables per group with what this round changed.

First one line a run of changed slots (`64..95  · → 301..332`), so that a change is read without searching; then every
slot as a cell with its page id, virtual by line, so that a table of 8,000 slots costs what is seen of it.
"""

from __future__ import annotations

from tsviz.replay.snapshot import RequestLine
from tsviz.tui.clean import shorten
from tsviz.tui.glyphs import SELECTED, state_mark
from tsviz.tui.lines import Document, Line, Lines, Span, Stack, clip, line, wrapped
from tsviz.tui.numbers import bar, counted, grouped, percent
from tsviz.tui.panes.blocks import changes, grid
from tsviz.tui.panes.states import without_frame
from tsviz.tui.panes.waits import reserve_lines, why
from tsviz.tui.scene import Scene


def tables(scene: Scene, width: int, height: int) -> Document:
    """Return the selected request, the changes of its tables, and the tables."""
    instead = without_frame(scene, width, height)
    if instead is not None:
        return instead
    frame = scene.frame
    assert frame is not None
    if scene.selected is None:
        return Lines(wrapped("No request is selected: ↑ ↓ or a click selects one.", width, "dim", indent=1))
    request = next((r for r in (frame.request(scene.selected),) if r is not None), None)
    if request is None:
        request = next((r for r in frame.snapshot.requests if r.submission == scene.selected), None)
    if request is None:
        name = shorten(scene.selected_id or f"submission {scene.selected}", max(width - 3, 1))
        words = f"It is not in the system in round {grouped(frame.snapshot.round)}. [ and ] go to rounds where it is."
        return Lines((line(Span(f" {name}", "title")), *wrapped(words, width, "dim", indent=1)))
    reserve = frame.snapshot.reserve if frame.snapshot.selected == scene.selected else None
    parts: list[Document] = [_card(request, width), Lines((*why(request, width), *reserve_lines(reserve, width)))]
    if frame.snapshot.selected != scene.selected:
        return Stack((*parts, Lines((line(""), line(Span(" ◌ loading its tables …", "dim"))))))
    if not frame.snapshot.tables:
        reason = _WITHOUT_TABLE.get(request.state, "it holds no pages in this round")
        return Stack((*parts, Lines((line(""), *wrapped(f"No block table: {reason}.", width, "dim", indent=1)))))
    parts += [changes(table, width) for table in frame.snapshot.tables]
    for table in frame.snapshot.tables:
        parts += grid(table, width)
    return Stack(parts)


_WITHOUT_TABLE = {
    "waiting": "it waits to be admitted",
    "bootstrapping": "it waits for its peer",
    "retracted": "its pages were given to others",
    "finished": "it has ended and its pages were given back",
    "aborted": "it was aborted and its pages were given back",
}


def _card(request: RequestLine, width: int) -> Document:
    mark = state_mark(request.state)
    done, prompt = min(request.computed_tokens, request.prompt_tokens), request.prompt_tokens
    cells = min(max(width - 30, 6), 24)

    def fact(label: str, *spans: Span) -> Line:
        return clip(line(Span(f" {label:>9} ", "dim"), *spans), width)

    def share(part: int, whole: int, role: str, words: str) -> tuple[Span, ...]:
        full, empty = bar(part, whole, cells)
        return Span(full, role), Span(empty, "bar-empty"), Span(f" {words}")

    name = Span(shorten(request.request, max(width - 14, 6)), "title")
    prompt_words = f"{percent(done, prompt)} of {grouped(prompt)}"
    limit = f"of {grouped(request.max_new_tokens)}" if request.max_new_tokens else "of undeclared"
    output_words = f"{grouped(request.generated_tokens)} {limit}"
    times = Span(counted(request.retractions, "time"), "retracted" if request.retractions else "text")
    return Lines(
        (
            clip(
                line(Span(f" {SELECTED.glyph} ", "accent"), name, Span(f"  {mark.glyph} {mark.word}", mark.role)), width
            ),
            fact("prompt", *share(done, prompt, "budget", prompt_words)),
            fact("output", *share(request.generated_tokens, request.max_new_tokens, "budget", output_words)),
            fact("computed", Span(counted(request.computed_tokens, "token"))),
            fact("holds", Span(counted(request.held_pages, "page"))),
            fact("age", Span(counted(request.age_rounds, "round")), Span(f"  submission {request.submission}", "dim")),
            fact("retracted", times),
        )
    )
