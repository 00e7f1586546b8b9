"""The phases of a round in the order of the role's grammar, each candidate with its verdict, each open to its stops.

Virtual: a phase with 3,000 candidates costs what is seen of it. What is open is the entry at the cursor (without a
stop, the selected request's), and what was opened or closed by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby

from tsviz.replay.stops.story import ATTEMPT, IN_PLACE, ITERATION, Entry, Fact, NotKnown, PhaseStory, RoundStory, Stop
from tsviz.tui.clean import clean, fit
from tsviz.tui.glyphs import OUTCOMES, SELECTED, Mark
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, line, wrapped
from tsviz.tui.panes.facts import fact_lines
from tsviz.tui.panes.victims import id_cells, victim_table
from tsviz.tui.scene import Scene

_NUMBER_CELLS = 4
_INDENT = _NUMBER_CELLS + 3
_NARROW_INDENT, _INDENTED_FROM = 3, 50


def phases(scene: Scene, story: RoundStory, width: int) -> list[Document]:
    """Return the phases of a story, one document a run of closed entries, one an open entry."""
    parts: list[Document] = []
    if story.opening:
        parts.append(Lines((line(Span(" before the first phase", "heading")), *_facts(story.opening, width, 5))))
    for phase in story.phases:
        parts.append(Lines((_head(phase, scene, width), *_facts(phase.stop.facts, width, _INDENT))))
        parts += _entries(scene, story, phase, width)
    if story.behind:
        parts.append(Lines((line(Span(" behind the plan", "heading")), *_facts(story.behind, width, 5))))
    return parts


def entries(story: RoundStory) -> list[Entry]:
    """Return every entry of a round in order: what up and down walk."""
    return [entry for phase in story.phases for entry in phase.entries]


def open_entries(scene: Scene, story: RoundStory) -> frozenset[int]:
    """Return the first stops of the entries that are open."""
    return _opened(story, scene.folds, scene.stop, scene.selected)


@lru_cache(maxsize=8)
def _opened(story: RoundStory, folds: frozenset[int], stop: int | None, selected: int | None) -> frozenset[int]:
    found = set(folds)
    for entry in entries(story):
        first, last = entry.stops[0].number, entry.stops[-1].end
        mine = entry.submission == selected and entry.submission >= 0
        here = first <= stop <= last if stop is not None else mine
        if here and entry.stops[0].kind != IN_PLACE:
            found ^= {first}
    return frozenset(found)


def _head(phase: PhaseStory, scene: Scene, width: int) -> Line:
    here = scene.stop == phase.stop.number
    name = f" {phase.stop.number:>{_NUMBER_CELLS - 1}} {phase.name} "
    room = width - len(name) - 2
    note = next((each for each in _notes(phase) if len(each) <= room), "")
    rule = "─" * max(width - len(name) - len(note) - 2, 0)
    spans = (Span(name, "heading"), Span(rule, "rule"), Span(f" {note} ", "dim"))
    return Line(spans, "cursor" if here else "", ("stop", phase.stop.number))


def _notes(phase: PhaseStory) -> Iterator[str]:
    """Yield what a phase began with, in fewer and fewer words."""
    budget, rows = f"{phase.budget_tokens:,}", f"{phase.batch_rows:,} in batch"
    if phase.holdback_tokens:
        yield f"{budget} tok left, {phase.holdback_tokens:,} held back, {rows}"
        yield f"{budget} left, {phase.holdback_tokens:,} held back, {rows}"
        yield f"{budget} left, {phase.holdback_tokens:,} held back"
    yield f"{budget} tok left, {rows}"
    yield f"{budget} left, {rows}"
    yield f"{budget} tok left"
    yield f"{budget} left"


def _entries(scene: Scene, story: RoundStory, phase: PhaseStory, width: int) -> Iterator[Document]:
    if not phase.entries:
        yield Lines((line(Span(" " * _INDENT + "nobody", "dim")),))
    number = story.phases.index(phase)
    for piece in _pieces(story, open_entries(scene, story))[number]:
        yield _open(piece, scene, width) if isinstance(piece, Entry) else _closed(piece, scene, width)


@lru_cache(maxsize=8)
def _pieces(story: RoundStory, opened: frozenset[int]) -> tuple[tuple[Entry | tuple[Entry, ...], ...], ...]:
    """Return, per phase, its open entries alone and its closed ones in runs."""
    found = []
    for phase in story.phases:
        pieces: list[Entry | tuple[Entry, ...]] = []
        for is_open, group in groupby(phase.entries, key=lambda entry: entry.stops[0].number in opened):
            run = tuple(group)
            pieces += run if is_open else [run]
        found.append(tuple(pieces))
    return tuple(found)


def _closed(run: Sequence[Entry], scene: Scene, width: int) -> Document:
    at = None
    if scene.stop is not None:
        at = next((i for i, e in enumerate(run) if e.stops[0].number <= scene.stop <= e.stops[-1].end), None)
    return Lazy(len(run), lambda y: _entry_line(run[y], scene, width, closed=True), at)


def _entry_line(entry: Entry, scene: Scene, width: int, *, closed: bool) -> Line:
    mark = OUTCOMES[entry.outcome]
    first, last = entry.stops[0].number, entry.stops[-1].end
    here = scene.stop is not None and (first <= scene.stop <= last if closed else scene.stop == first)
    chosen = entry.submission == scene.selected and entry.submission >= 0
    name = entry.request if entry.stops[0].kind != IN_PLACE else ""
    words = entry.words
    cells = scene_id_cells(scene, width)
    spans = [
        Span(f"{first:>{_NUMBER_CELLS}} ", "position" if here else "dim"),
        Span(SELECTED.glyph if chosen else " ", SELECTED.role),
        Span(f"{mark.glyph} ", mark.role),
    ]
    if name:
        spans.append(Span(f"{fit(name, cells)} ", "strong" if chosen else "text"))
    foldable = entry.stops[0].kind != IN_PLACE
    spans += _words(clean(words), mark) if name else [Span(clean(words), "dim")]
    whole = clip(Line(tuple(spans)), width - 2)
    fold = Span(" " * max(width - 1 - whole.cells, 0) + ("▸" if closed else "▾"), "dim", ("fold", first))
    return Line((*whole.spans, *((fold,) if foldable else ())), "cursor" if here else "", ("stop", first))


def _words(words: str, mark: Mark) -> list[Span]:
    """The first word, which names the outcome, in its colour; the rest plain."""
    verdict, colon, rest = words.partition(":")
    return [Span(verdict + colon, mark.role), Span(rest)] if colon else [Span(words, mark.role)]


def scene_id_cells(scene: Scene, width: int) -> int:
    """Return the cells of the ids of a round's entries."""
    requests = scene.frame.snapshot.requests if scene.frame is not None else ()
    return max(id_cells((request.request for request in requests), max(width // 4, 7)), 3)


def _open(entry: Entry, scene: Scene, width: int) -> Document:
    parts: list[Document] = [Lines((_entry_line(entry, scene, width, closed=False),))]
    focus = scene.stop
    parts += [_stop(stop, entry, width, focus == stop.number) for stop in entry.stops]
    whole = Stack(parts)
    if focus is not None and entry.stops[0].number <= focus <= entry.stops[-1].end:
        top = 0
        for stop, part in zip(entry.stops, parts[1:], strict=True):
            if stop.number == focus:
                whole.focus = 0 if stop is entry.stops[0] else 1 + top
            top += part.height
    return whole


def _stop(stop: Stop, entry: Entry, width: int, here: bool) -> Document:
    lines: list[Line] = []
    if stop is not entry.stops[0]:
        mark = OUTCOMES[stop.outcome]
        spans = (
            Span(f"{stop.number:>{_NUMBER_CELLS}} ", "position" if here else "dim"),
            Span("   "),
            Span(f"{mark.glyph} ", mark.role),
            Span(f"{_KINDS.get(stop.kind, stop.kind)} ", "dim"),
            Span(clean(stop.words), "text"),
        )
        lines.append(clip(Line(spans, "cursor" if here else "", ("stop", stop.number)), width))
    victims = [fact for fact in stop.facts if fact.kind == "victim"]
    rest = [fact for fact in stop.facts if fact.kind != "victim"]
    parts: list[Document] = [Lines(lines)]
    indent = _INDENT if width >= _INDENTED_FROM else _NARROW_INDENT
    if victims:
        parts.append(victim_table(victims, width, indent))
    parts.append(Lines(_facts(rest, width, indent)))
    return Stack(parts)


_KINDS = {ATTEMPT: "attempt", ITERATION: "turn", "grant": "grant"}


def _facts(facts: Sequence[Fact], width: int, indent: int) -> list[Line]:
    return [found for fact in facts for found in fact_lines(fact, width, indent)]


def unknown(found: NotKnown, scene: Scene, width: int) -> Document:
    """Return why there is no story, and the command that derives one, unless that is being done."""
    lines = wrapped(found.words, width, "dim", indent=3)
    if scene.verifying is not None and found.kind == "not_recorded":
        lines.append(line(Span(" ".join(("   ◌ that is being done now", *scene.verified_share)), "accent")))
    elif found.command:
        lines.append(line(Span("   $ ", "dim"), Span(clean(found.command), "accent")))
    return Lines(lines)
