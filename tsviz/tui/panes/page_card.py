"""The inspector of the pages screen: the page under the cursor, and its life."""

from __future__ import annotations

from functools import partial

from tsviz.replay.pages import values as v
from tsviz.replay.pages.values import PageEvent, PageLife, PagesMap
from tsviz.tui.clean import shorten
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, heading, line, wrapped
from tsviz.tui.numbers import counted, grouped
from tsviz.tui.page_glyphs import BY_CODE
from tsviz.tui.pages_scene import PagesScene

_TURNS = {
    "taken": ("°", "zeroed"), "placed": ("+", "new"), "released": ("-", "dropped"), "cached": ("▒", "pool"),
    "published": ("▣", "good"), "evicted": ("×", "bad"), "pinned": ("⊙", "warn"), "loading": ("↑", "transfer"),
    "acknowledged": ("✓", "dim"),
}  # fmt: skip
EVENT_SIGNS = tuple(
    (glyph, role, words)
    for (glyph, role), words in zip(
        _TURNS.values(),
        ("taken fresh", "placed in a table", "given back", "kept in the cache", "entered the prefix index",
         "evicted from the index", "pinned: a copy reads it", "a copy fills it", "operation acknowledged"),
        strict=True,
    )
)  # fmt: skip
"""Signs of a page's life for the legend: glyph, role, words."""


def page_facts(scene: PagesScene, width: int, _height: int) -> Document:
    """Return the page under the cursor: what it is and who holds it."""
    pages, where = scene.map, scene.page
    if pages is None:
        return Lines(())
    return Lines(_no_page(scene, pages, width) if where is None else _facts(scene, pages, *where, width))


def page_life(scene: PagesScene, width: int, _height: int) -> Document:
    """Return what happened to the page under the cursor, in order; the last event at or before the round is marked."""
    where, life = scene.page, scene.life
    if scene.map is None or where is None:
        return Lines(())
    if life is None or (life.group, life.page) != where:
        return Lines((line(Span(" ◌ reading its life …", "dim")),))
    return Stack(_life(scene, life, width))


def _no_page(scene: PagesScene, pages: PagesMap, width: int) -> list[Line]:
    bound = pages.parents[scene.parent]
    lines = [line(Span(f" parent {grouped(scene.parent)}", "title"))]
    if bound == v.UNBOUND:
        words = "No group holds it: it is empty, and the next group that needs one may bind it."
    elif bound == v.UNBOUND_OR_CACHED:
        words = "No request holds it. Whether it keeps cached pages is not known without re-execution."
    else:
        words = f"Group {pages.groups[bound].name} holds it: it has fewer pages in a parent than other groups."
    return [*lines, *wrapped(words, width, "dim", indent=1)]


def _facts(scene: PagesScene, pages: PagesMap, group: int, page: int, width: int) -> list[Line]:
    described, mark = pages.groups[group], BY_CODE[pages.codes[group][page]]
    owner, shares = pages.owners[group][page], pages.shares[group][page]

    def fact(label: str, *spans: Span | str) -> Line:
        return clip(line(Span(f" {label:>9} ", "dim"), *spans), width)

    name = shorten(described.name, 16)
    parent = f"{grouped(scene.parent)}, page {scene.child + 1} of {described.packing}"
    lines = [
        clip(line(Span(f" page {grouped(page)}", "title"), Span(f" of {name}  ", "dim"),
                  Span(f"{shares if mark.word == 'shared' else mark.glyph} {mark.word}", mark.role)), width),
        fact("group", f"{name} ({described.kind}), {counted(described.block_tokens, 'token')} a page"),
        fact("parent", parent if described.packing > 1 else grouped(scene.parent)),
    ]  # fmt: skip
    if owner >= 0:
        who = shorten(pages.names.get(owner, f"submission {owner}"), max(width - 24, 8))
        more = f" and {counted(shares - 1, 'other')}" if shares > 1 else ""
        lines.append(
            fact(
                "copy of" if pages.tier == v.HOST else "owner", Span(who, "accent", ("light", owner)), Span(more, "dim")
            )
        )
    held = pages.tickets.get((group, page), ())
    if held:
        lines.append(fact("held by", Span(", ".join(f"operation {op}" for op in held), "warn")))
    return lines + _cached(scene, pages, group, page, width)


def _cached(scene: PagesScene, pages: PagesMap, group: int, page: int, width: int) -> list[Line]:
    if pages.live is None:
        words = f"Kind and recency are not known without re-execution: {scene.live_words}"
        return wrapped(words, width, "dim", indent=1)[:3]
    entry = pages.live.get((group, page))
    if entry is None:
        return wrapped("Not in the prefix index.", width, "dim", indent=1)
    place = "pinned" if entry.recency < 0 else f"evicted as number {entry.recency + 1:,}"
    hit = "hit since" if entry.acquired else "never hit"
    return wrapped(f"In the index: {entry.kind}, epoch {entry.epoch:,}, {hit}, {place}.", width, indent=1)


def _life(scene: PagesScene, life: PageLife, width: int) -> list[Document]:
    here = sum(1 for event in life.events if event.round <= scene.round)
    before = sum(1 for event in life.events if event.round < life.rounds[0])
    note = counted(len(life.events), "event") + ("" if life.complete else ", evictions not known")
    if any(life.rounds):
        note = f"{counted(len(life.events) - before, 'event')}, rounds {life.rounds[0]:,} to {life.rounds[1]:,}"
    head = [heading(" life", note + " ", width)]
    if before:
        head.append(line(Span(f" and {counted(before, 'event')} before; not all are told", "dim")))
    if not life.events:
        words = "Nothing in these rounds; [ and ] look further." if any(life.rounds) else "It was never held."
        return [Lines((*head, line(Span(f" {words}", "dim"))))]
    lines = Lazy(len(life.events), partial(_event_line, life.events, here, width), focus=max(here - 1, 0))
    return [Lines(head), lines]


def _event_line(events: tuple[PageEvent, ...], here: int, width: int, y: int) -> Line:
    event = events[y]
    glyph, role = _TURNS[event.what]
    digits = len(str(events[-1].round))
    past = y < here
    room = max(width - digits - len(event.words) - (len(f" slot {event.slot}: ") if event.slot >= 0 else 2) - 5, 6)
    slot = f" slot {event.slot}" if event.slot >= 0 else ""
    who = f"{shorten(event.request, room)}{slot}: " if event.request else ""
    base = "cursor" if y == here - 1 else ""
    spans = (
        Span("▸" if base else " ", "accent"),
        Span(f"{event.round:>{digits}} ", "text" if past else "dim"),
        Span(f"{glyph} ", role),
        Span(who, "accent" if past else "dim"),
        Span(event.words, "text" if past else "dim"),
    )
    return clip(Line(spans, base, ("round", event.round)), width)
