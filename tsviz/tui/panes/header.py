"""The two lines at the top: which trace, and where in it we are."""

from __future__ import annotations

from tsviz.replay.recorded.snapshot import TraceHead
from tsviz.tui.clean import shorten
from tsviz.tui.following import follow_spans
from tsviz.tui.lines import Document, Line, Lines, Span, spread
from tsviz.tui.numbers import clock_time, counted, day, grouped, percent, time_of_day
from tsviz.tui.scene import Scene

_BAR = Span(" │ ", "rule")
_NAME_CELLS = 40
_ENGINE_CELLS = 32
_WORDS_FROM_CELLS = 140
_FINISHED_FROM_CELLS = 100
_STEP_NS = 1e6


def header(scene: Scene, width: int, _height: int) -> Document:
    """Return who recorded what, and the position with its time, its share of the trace and the gaps."""
    return Lines((_identity(scene, width), _position(scene, width)))


def _identity(scene: Scene, width: int) -> Line:
    head = scene.head
    left = [Span(" tsviz ", "brand"), Span(" ")]
    if head is None:
        named = [Span(shorten(scene.name, min(_NAME_CELLS, max(width // 3, 8))), "title"), _BAR] if scene.name else []
        waits = scene.follow is not None and bool(scene.follow.waiting)
        said = Span("◍ waiting: nothing is recorded yet", "warn") if waits else Span("opening the trace …", "dim")
        return spread([*left, *named, said], [], width)
    name = min(_NAME_CELLS, max(width // 3, 8))
    engine = shorten(f"{head.engine} {head.engine_version}", _ENGINE_CELLS)
    left += [Span(shorten(head.name, name), "title"), _BAR]
    wide = width >= _WORDS_FROM_CELLS
    left += [Span("node " if wide else "", "dim"), Span(f"{shorten(head.node, 12)}/{head.rank}")]
    left += [Span("  role " if wide else " ", "dim"), Span(shorten(head.role, 12))]
    if len(head.parts) > 1:
        others = [part for part in head.parts if part != f"{head.node}/{head.rank}"]
        left.append(Span(f"  beside {shorten(', '.join(others), 12)} (A)", "warn", ("action", "part(1)")))
    named = [*left, _BAR, Span(engine)]
    rules = [Span("  rules ", "dim"), Span(shorten(head.rule_set, 16))]
    calls_only = [Span("● calls recorded  ", "good")] if head.calls_only and width >= _FINISHED_FROM_CELLS else []
    right = [*calls_only, _frontier(scene, head)]
    if scene.follow is not None:
        right += [Span("  "), *follow_spans(scene.follow, head.rounds, width)]
    elif head.live:
        right.append(Span("  ◍ live", "warn"))
    elif width >= _FINISHED_FROM_CELLS:
        right.append(Span("  ■ finished", "dim"))
    right.append(Span(" "))
    whole = right if head.calls_only else [Span("● recorded  ", "good"), *right]
    ways = [([*named, *rules], whole), ([*named, *rules], right), (left, right)]
    if head.rule_set == head.engine_version:  # said already
        ways.insert(2, (named, right))
    return spread(*next((way for way in ways if _fits(*way, width)), ways[-1]), width)


def _fits(left: list[Span], right: list[Span], width: int) -> bool:
    return Line((*left, *right)).cells < width


def _frontier(scene: Scene, head: TraceHead) -> Span:
    """How far the decisions behind the plans are known, and where the twin leaves the recording."""
    frontier = head.frontier
    if frontier.source == "none" and scene.verifying is not None:
        return Span(" ".join(("◌ verifying", *scene.verified_share)), "accent")
    if frontier.source == "none" and scene.to_verify:
        return Span("◌ to be verified", "dim")
    if frontier.source == "none":
        return Span("○ not verified", "dim")
    if frontier.divergence:
        return Span(f"≠ diverged at {grouped(frontier.last_round + 1)}", "bad")
    if frontier.source == "recorded":
        return Span("✓ decisions", "good")
    if frontier.last_round >= head.rounds:
        return Span("✓ verified", "good")
    return Span(f"◑ verified to {grouped(frontier.last_round)}", "warn")


def _time(head: TraceHead, start_ns: int, width: int) -> list[Span]:
    """Return when the round began: since the trace began, and on the wall clock where it has a place there."""
    since = Span(clock_time(start_ns - head.zero_ns))
    if head.wall_zero_ns is None:
        words = f" {shorten(head.clock, 12)} clock" if head.clock == "virtual" else " since the start"
        return [since, Span(words, "dim")]
    wall_ns = head.wall_zero_ns + start_ns - head.zero_ns
    date = f"{day(wall_ns)} " if width >= _FINISHED_FROM_CELLS else ""
    return [Span(f"{date}{time_of_day(wall_ns, _STEP_NS)}"), Span(" UTC", "dim"), Span("  +", "dim"), since]


def _position(scene: Scene, width: int) -> Line:
    head, frame = scene.head, scene.frame
    if head is None:
        return Line()
    shown = frame.snapshot.round if frame else scene.round
    total = grouped(head.rounds)
    stop = "" if scene.stop is None else f".{scene.stop}"
    left = [
        Span(" round ", "dim"),
        Span(f"{grouped(shown if head.rounds else 0):>{len(total)}}{stop}", "position"),
        Span(f" of {total}", "text"),
        Span(f"  {percent(shown, head.rounds):>7}", "dim"),
    ]
    time = [_BAR, *_time(head, frame.snapshot.start_ns, width)] if frame else []
    gaps = Span("no gaps", "dim") if head.gaps == 0 else Span(f"▲ {counted(head.gaps, 'gap')}", "warn")
    words, role = scene.badge
    right: list[Span] = [Span(f"{words} ", role, ("action", "findings"))] if words else []
    if scene.play_rounds_per_second:
        right.append(Span(f"▶ playing {counted(scene.play_rounds_per_second, 'round')}/s ", "accent"))
    if scene.error:
        right.append(Span(f"✗ round {grouped(scene.round)} unreadable ", "bad"))
    elif scene.loading and head.rounds:
        right.append(Span(f"◌ loading {grouped(scene.round)} ", "accent"))
    gapped = [_BAR, gaps]
    ways = [[*left, *time, *gapped], [*left, *time], [*left, *time[:2]], left]
    if head.gaps:  # what was dropped is said before the time is
        ways[1:] = [[*left, *time[:2], *gapped], [*left, *gapped]]
    return spread(next((way for way in ways if _fits(way, right, width)), ways[-1]), right, width)
