"""What the device measured: the forward of this round, and those around it as bars."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import Forward
from tsviz.tui.lines import Document, Line, Lines, Span, clip, heading, line, wrapped
from tsviz.tui.numbers import bar, clock_time, grouped
from tsviz.tui.scene import Scene


def device(scene: Scene, width: int, _height: int) -> Document:
    """Return times of this round's forward and a bar a round near it; says so where nothing was measured."""
    frame, found = scene.frame, scene.answer_for("device")
    assert frame is not None
    if found is None:
        return Lines((line(Span(" ◌ loading …", "dim")),))
    forwards = [each for each in found if isinstance(each, Forward)] if isinstance(found, tuple) else []
    if not forwards:
        words = "No forward was measured near this round: the recording has no device times (table forwards)."
        return Lines(wrapped(words, width, "dim", indent=1))
    here = next((each for each in forwards if each.round == frame.snapshot.round), None)
    lines: list[Line] = []
    if here is None:
        lines += wrapped("This round has no forward: its plan was empty, or was not measured.", width, "dim", indent=1)
    else:
        before = next((each for each in reversed(forwards) if each.round < here.round), None)
        lines += _facts(here, before, frame.snapshot.head.zero_ns, width)
    most = max(each.end_ns - each.start_ns for each in forwards)
    lines.append(heading(" forwards around it", "ms ", width))
    cells = max(width - 30, 4)
    for each in forwards:
        took = each.end_ns - each.start_ns
        full, empty = bar(took, most, cells)
        mine = each.round == frame.snapshot.round
        spans = (
            Span(f" {grouped(each.round):>9} ", "position" if mine else "dim"),
            Span(full, "budget"), Span(empty, "bar-empty"),
            Span(f"{took / 1e6:>9,.2f}", "strong" if mine else "text"), Span(f" {grouped(each.tokens):>6} tok", "dim"),
        )  # fmt: skip
        lines.append(clip(Line(spans, "cursor" if mine else "", ("round", each.round)), width))
    return Lines(lines)


def _facts(here: Forward, before: Forward | None, zero_ns: int, width: int) -> list[Line]:
    took = here.end_ns - here.start_ns
    rows = [
        ("planned", clock_time(here.plan_ns - zero_ns)),
        ("began", clock_time(here.start_ns - zero_ns)),
        ("ended", clock_time(here.end_ns - zero_ns)),
        ("took", f"{took / 1e6:,.3f} ms for {here.tokens:,} tokens"),
    ]
    if here.tokens:
        rows.append(("a token", f"{took / here.tokens / 1e3:,.1f} µs"))
    if before is not None:
        rows.append(("idle before", f"{max(here.start_ns - before.end_ns, 0) / 1e6:,.3f} ms"))
    return [clip(line(Span(f" {name:>11} ", "dim"), Span(value)), width) for name, value in rows]
