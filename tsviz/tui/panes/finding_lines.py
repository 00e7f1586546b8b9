"""The findings of a trace: what was found, worst first, what could not be checked, and what was looked for in vain."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.replay.survey.ask import Looked
from tsviz.tui.clean import clean, fit, shorten
from tsviz.tui.glyphs import Mark
from tsviz.tui.lines import Document, Line, Lines, Span, clip, heading, line, wrapped
from tsviz.tui.numbers import counted, grouped
from tsviz.tui.study import Findings

SEVERITIES: dict[str, Mark] = {
    "broken": Mark("✗", "broken", "bad", "a rule of the scheduler is broken: an invariant, or ranks that disagree"),
    "stuck": Mark("‖", "stuck", "retracted", "somebody waits for ever, or something that must come never came"),
    "costly": Mark("▲", "costly", "warn", "the trace goes on, and time or work is lost"),
}
CLEAN = Mark("✓", "clean", "good", "looked for, and not found")
NOT_CHECKABLE = Mark("?", "unknown", "unknown", "the trace lacks what the check reads; that is never ok")
_NAME_CELLS, _WHERE_CELLS = 24, 15
_FACT_CELLS = 10
_REQUESTS_SHOWN = 12
_ELSEWHERE = (
    "Slow all the same? esc, L: where the time of requests went. esc, end, W: who waits at the end, and for whom."
)
"""Where to look in a trace in which nothing was found."""


def mark_of(one: Looked) -> Mark:
    """Return how the outcome of a check is drawn."""
    if one.outcome == "found":
        return SEVERITIES[one.severity]
    return NOT_CHECKABLE if one.outcome == "not_checkable" else CLEAN


def entries(findings: Findings) -> tuple[Looked, ...]:
    """Return all checks in the order in which they are listed."""
    return (*findings.found, *findings.not_checkable, *findings.clean)


def where(one: Looked, part: str) -> str:
    """Return the rounds of a finding, with its part where that is not the one on the screen."""
    if not one.rounds:
        return ""
    rounds = "–".join(map(grouped, one.rounds))
    return rounds if one.part == part else f"{one.part}:{rounds}"


def finding_list(findings: Findings, cursor: int, part: str, width: int, height: int) -> Document:
    """Return one line a check under headings; a click puts the cursor on it."""
    known = findings.known
    groups: tuple[tuple[str, Sequence[Looked]], ...] = (
        ("found", findings.found),
        ("could not be checked", findings.not_checkable),
        ("looked for, not found", findings.clean),
    )
    lines: list[Line] = []
    focus, number = None, 0
    if not findings.found and not known.running and findings.looked:
        missing = counted(len(findings.not_checkable), "check")
        words = f"; {missing} could not be made." if findings.not_checkable else "."
        lines += [line(""), line(_nothing(findings), Span(words, "text"))]
        lines += wrapped(_ELSEWHERE, width, "dim", indent=4)
    for name, members in groups:
        if not members:
            continue
        lines += (
            [line(""), heading(f" {name}", f"{len(members)} ", width)]
            if lines
            else [heading(f" {name}", f"{len(members)} ", width)]
        )
        for one in members:
            if number == cursor:
                focus = len(lines)
            lines.append(clip(_row(one, part, width, number, number == cursor), width))
            number += 1
    if known.running and not findings.looked:
        words = "Reading the trace; each check stands here as soon as it is made."
        return _alone("◌ Checking …", "accent", words, width, height)
    if known.error and not findings.looked:
        return _alone("✗ The trace could not be checked.", "bad", f"{known.error}. R tries again.", width, height)
    return Lines(lines, focus)


def _nothing(findings: Findings) -> Span:
    """Return that nothing was found: the all-clear only where every check was made on all decisions."""
    if findings.whole:
        return Span("  ✓ Nothing was found", "good")
    if findings.awaited:
        return Span("  ◌ Nothing was found yet, without the decisions", "text")
    return Span("  ? Nothing was found, and not everything was checked", NOT_CHECKABLE.role)


def _alone(head: str, role: str, words: str, width: int, height: int) -> Document:
    body = [*wrapped(head, width, role, indent=2), line(""), *wrapped(words, width, indent=2)]
    return Lines([line("")] * max((height - len(body)) // 3, 0) + body)


def _row(one: Looked, part: str, width: int, number: int, here: bool) -> Line:
    mark = mark_of(one)
    name = min(_NAME_CELLS, max(width // 4, 10))
    spans = [
        Span("▸" if here else " ", "accent"),
        Span(f"{mark.glyph} {fit(mark.word, 7)} ", mark.role),
        Span(fit(one.name, name), "strong" if one.outcome == "found" else "text"),
        Span(" "),
    ]
    if one.outcome == "found":
        spans += [Span(fit(where(one, part), _WHERE_CELLS, "right"), "position"), Span("  ")]
    spans.append(Span(_told(one)[: max(width, 8)], "text" if one.outcome == "found" else "dim"))
    return Line(tuple(spans), "cursor" if here else "", ("line", number))


def _told(one: Looked) -> str:
    """Return the sentence without the name of the finding in front, which stands beside it."""
    name, colon, rest = one.sentence.partition(": ")
    return clean(rest if colon and one.outcome == "found" and len(name) <= _NAME_CELLS else one.sentence)


def finding_detail(one: Looked | None, part: str, width: int) -> Document:
    """Return everything about one check: the sentence, what it looks for, numbers, requests, where to look."""
    if one is None:
        return Lines(())
    mark = mark_of(one)
    lines = [line(Span(f" {mark.glyph} ", mark.role), Span(one.name, "title"), Span(f"  {mark.word}", mark.role))]
    lines += [*wrapped(one.sentence, width, "strong" if one.outcome == "found" else "text", indent=3), line("")]
    if one.rounds:
        lines += _fact("where", _places(one, part), width)
    if one.requests:
        lines += _fact("requests", _requests(one), width)
    if one.numbers:
        lines += _fact("numbers", _numbers(one), width)
    lines += _fact("looks for", (Span(one.says),), width)
    threshold = (
        f"a finding from {grouped(one.threshold + 1)} {one.counts}" if one.threshold else "the first is a finding"
    )
    lines += _fact("threshold", (Span(threshold),), width)
    return Lines(lines)


def _fact(label: str, spans: Sequence[Span], width: int) -> list[Line]:
    """Return a labelled fact; spans go to the next line where they do not fit."""
    label_span, blank = Span(f" {label:>{_FACT_CELLS}}  ", "dim"), Span(" " * (_FACT_CELLS + 3))
    room = max(width - _FACT_CELLS - 4, 8)
    if len(spans) == 1 and spans[0].target is None:
        body = [each.spans for each in wrapped(spans[0].text, room, spans[0].role)]
    else:
        body, used = [()], 0
        for span in spans:
            cells = Line((span,)).cells
            if used and used + cells > room:
                body, used = [*body, ()], 0
            body[-1] = (*body[-1], span)
            used += cells
    return [Line((label_span if number == 0 else blank, *each)) for number, each in enumerate(body)]


def _places(one: Looked, part: str) -> tuple[Span, ...]:
    if one.part != part:
        first = one.rounds[0]
        return (Span(f"{one.part}:{grouped(first)}", "position"), Span("  in another part: enter goes there", "dim"))
    spans = []
    for number, round_ in enumerate(one.rounds):
        word = "first" if number == 0 else "last"
        spans += [Span(f"round {grouped(round_)}", "position", ("round", round_)), Span(f" {word}   ", "dim")]
    return tuple(spans)


def _requests(one: Looked) -> tuple[Span, ...]:
    shown = one.requests[:_REQUESTS_SHOWN]
    spans = [Span(f"{shorten(name, 28)}  ", "accent", ("request", name)) for name in shown]
    more = len(one.requests) - len(shown)
    return (*spans, Span(f"and {grouped(more)} more", "dim")) if more else tuple(spans)


def _numbers(one: Looked) -> tuple[Span, ...]:
    return tuple(Span(f"{name.replace('_', ' ')} {grouped(number)}   ") for name, number in (one.numbers or {}).items())


def badge(findings: Findings, growing: str = "") -> tuple[str, str]:
    """Return what the main header says of the findings, and its role.

    `growing` is the part that is being recorded still (empty: none): up to which of its rounds they are is said too.
    """
    known, found = findings.known, findings.found
    if not known.asked:
        return "f: not checked yet", "dim"
    if known.error and not findings.looked:
        return "✗ findings", "bad"
    if known.running and not found:
        return "◌ checking", "dim"
    until = next((f" as of round {grouped(e.last_round)}" for e in known.extents if e.part == growing), "")
    if not found and not findings.looked:
        return "", "dim"
    if not found and findings.whole:
        return f"✓ no findings{until}", "good"
    if not found and findings.awaited:
        return f"◌ no findings{until or ' yet'}", "dim"
    if not found:
        return f"? no findings{until}, not all checked", NOT_CHECKABLE.role
    worst = SEVERITIES[found[0].severity]
    so_far = " so far" if findings.awaited else ""
    return f"{worst.glyph} {counted(len(found), 'finding')}{until or so_far}", worst.role


def told_count(findings: Findings) -> str:
    """Return how many findings there are, for a sentence; where more may come yet, that too."""
    number = counted(len(findings.found), "finding")
    if not findings.known.asked:
        return "the trace is not checked yet: f checks it"
    there = f"there {'is' if len(findings.found) == 1 else 'are'}"
    if findings.awaited:
        return f"{there} {number} so far, and not everything is checked yet"
    return f"{there} {number}" if findings.whole else f"{there} {number}, and not everything was checked"
