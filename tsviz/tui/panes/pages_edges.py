"""The lines at the edges of the pages screen: where we are and whose pages are lit; and its keys."""

from __future__ import annotations

from tsviz.replay.pages.values import HOST
from tsviz.tui.clean import shorten
from tsviz.tui.lines import Document, Lines, Span, spread
from tsviz.tui.numbers import counted, grouped, percent
from tsviz.tui.page_glyphs import LIT
from tsviz.tui.pages_scene import PagesScene
from tsviz.tui.panes.bottom import key_line, named

_BAR = Span(" │ ", "rule")
_NAME_CELLS = 40


def pages_header(scene: PagesScene, width: int, _height: int) -> Document:
    """Return the trace, the round, and the request whose pages are lit."""
    head = scene.head
    total = grouped(head.rounds)
    left = [
        Span(" tsviz ", "brand"),
        Span(" "),
        Span(shorten(head.name, min(_NAME_CELLS, max(width // 4, 8))), "title"),
        _BAR,
        Span(f"{shorten(head.node, 12)}/{head.rank}"),
        _BAR,
        Span("round ", "dim"),
        Span(f"{grouped(scene.round if head.rounds else 0):>{len(total)}}", "position"),
        Span(f" of {total}"),
        Span(f"  {percent(scene.round, head.rounds):>7}", "dim"),
    ]
    if scene.tier == HOST:
        left += [_BAR, Span("host tier", "accent")]
    right: list[Span] = []
    if scene.lit is not None:
        name = shorten(scene.lit_name or f"submission {scene.lit}", 32)
        held = sum(map(len, scene.lit_pages))
        right = [Span(LIT.glyph, LIT.role), Span(f" {name} ", "accent"), Span(f"{counted(held, 'page')} ", "dim")]
    if scene.error:
        right = [Span("✗ unreadable ", "bad")]
    elif scene.loading:
        right = [Span("◌ loading ", "accent")]
    return Lines((spread(left, right, width),))


def pages_bottom(scene: PagesScene, width: int, _height: int) -> Document:
    """Return the keys that fit, each a button; help always."""
    offered = (k for k in scene.keys if k.word and (k.id != "pages.tier" or scene.head.host_pages))
    keys = sorted(offered, key=lambda k: k.id != "pages.leave")
    return Lines((key_line([named(key) for key in keys], ("help",), width),))
