"""What the device measured: the forward of this round, its operations and rows, the forwards around it as bars."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.replay.recorded.snapshot import DeviceSide, Forward
from tsviz.tui.lines import Document, Line, Lines, Span, clip, heading, line, wrapped
from tsviz.tui.numbers import bar, clock_time, grouped
from tsviz.tui.panes.device_ops import operation_lines, row_lines
from tsviz.tui.scene import Scene

_LEAST_AROUND = 5
"""So many forwards are shown where operations leave less room, behind what is scrolled to."""


def device(scene: Scene, width: int, height: int) -> Document:
    """Return times of this round's forward, what ran for it, and a bar a round near it; says so if nothing is known."""
    frame, found = scene.frame, scene.answer_for("device")
    assert frame is not None
    if found is None:
        return Lines((line(Span(" ◌ loading …", "dim")),))
    side = found if isinstance(found, DeviceSide) else DeviceSide(())
    forwards = side.forwards
    if not (forwards or side.operations):
        words = "No forward was measured near this round: the recording has no device times (table forwards)."
        return Lines(wrapped(words, width, "dim", indent=1))
    here = next((each for each in forwards if each.round == frame.snapshot.round), None)
    lines: list[Line] = []
    if here is None:
        lines += wrapped("This round has no forward: its plan was empty, or was not measured.", width, "dim", indent=1)
    else:
        before = next((each for each in reversed(forwards) if each.round < here.round), None)
        lines += _facts(here, before, frame.snapshot.head.zero_ns, width)
    lines += operation_lines(side.operations, width) + row_lines(side.rows, width)
    most = max((each.end_ns - each.start_ns for each in forwards), default=0)
    lines.append(heading(" forwards around it", "ms ", width))
    cells = max(width - 32, 4)
    for each in _around(forwards, frame.snapshot.round, max(height - len(lines), _LEAST_AROUND)):
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


def _around(forwards: Sequence[Forward], round_: int, most: int) -> Sequence[Forward]:
    """Return those nearest to a round, as many before it as behind it where there are."""
    at = next((i for i, each in enumerate(forwards) if each.round >= round_), len(forwards))
    first = max(min(at - most // 2, len(forwards) - most), 0)
    return forwards[first : first + most]


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
