"""What moves between the tiers: what this round's plan began, and what is still out from before."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import Outstanding, Transfer
from tsviz.tui.clean import shorten
from tsviz.tui.glyphs import PINNED
from tsviz.tui.lines import Document, Lazy, Line, Lines, Span, Stack, clip, heading, line
from tsviz.tui.numbers import counted, grouped
from tsviz.tui.scene import Scene


def transfers(scene: Scene, width: int, _height: int) -> Document:
    """Return the operations of this plan and those that were out before it."""
    frame = scene.frame
    assert frame is not None
    begun = frame.snapshot.transfers
    parts: list[Document] = [transfer_list(" begun by this plan", begun, width)]
    out = scene.answer_for("transfers")
    if isinstance(out, tuple):
        older = [o for o in out if isinstance(o, Outstanding) and o.round < frame.snapshot.round]
        head = heading(" out from before", f"{len(older)} ", width)
        if not older:
            parts.append(Lines((head, line(Span("   none", "dim")))))
        else:
            make = Lazy(len(older), lambda y: _out(older[y].transfer, older[y].round, frame.snapshot.round, width))
            parts.append(Stack((Lines((head,)), make)))
    return Stack(parts)


def transfer_list(title: str, begun: tuple[Transfer, ...], width: int) -> Document:
    """Return one line an operation under a heading."""
    head = heading(title, f"{len(begun)} ", width)
    if not begun:
        return Lines((head, line(Span("   none", "dim"))))
    return Stack((Lines((head,)), Lazy(len(begun), lambda y: clip(_transfer(begun[y]), width))))


def _what(transfer: Transfer) -> list[Span]:
    glyph = {"write_back": "↓", "load_back": "↑"}.get(transfer.kind, "?")
    return [
        Span(f"  {glyph}", "transfer"),
        Span(f"{PINNED.glyph if transfer.source_pinned else ' '} ", PINNED.role),
        Span(shorten(transfer.kind.replace("_", " "), 16)),
        Span(f" {counted(transfer.pages, 'page')}"),
    ]


def _transfer(transfer: Transfer) -> Line:
    landed, spans = transfer.acknowledged_round, _what(transfer)
    if landed is None:
        spans.append(Span(" → out at the end", "warn"))
    else:
        spans.append(Span(f" → round {grouped(landed)}", "accent", ("round", landed)))
    spans.append(Span(f"  op {transfer.op_id}", "dim"))
    if transfer.source_pinned:
        spans.append(Span("  source pinned", PINNED.role))
    return Line(tuple(spans))


def _out(transfer: Transfer, begun: int, now: int, width: int) -> Line:
    spans = _what(transfer)
    spans.append(Span(f"  out for {counted(now - begun, 'round')}", "warn"))
    spans.append(Span(f", since {grouped(begun)}", "accent", ("round", begun)))
    spans.append(Span(f"  op {transfer.op_id}", "dim"))
    return clip(Line(tuple(spans)), width)
