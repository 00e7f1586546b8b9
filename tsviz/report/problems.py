"""The findings of a part as cards: what, how much, where, and the commands that lead there."""

from __future__ import annotations

from tsviz.query.catalog import literal
from tsviz.replay.findings.model import Checked
from tsviz.replay.scenario.predicates import Finding

from .chart import Table
from .headlines import ENDLESS, GLYPHS
from .markup import Position, command, folded, place, table, why_command
from .subject import Source, Subject, SubjectPart
from .text import clean, escape
from .words import check_label

_NAMED = 12
_ASKED = 50


def problems(subject: Subject, part: SubjectPart, source: Source, decided: bool) -> str:
    """Return the findings of a part, most telling first, and behind them the checks that found nothing."""
    found = [one for one in part.checked if isinstance(one.ended, Finding)]
    cards = "".join(_card(subject, part, source, one, decided) for one in found)
    if not cards:
        cards = f'<p class="none"><span class="glyph good">{GLYPHS["good"]}</span> Nothing found.</p>'
    return f'<div class="cards">{cards}</div>{_others(part)}'


def _card(subject: Subject, part: SubjectPart, source: Source, one: Checked, decided: bool) -> str:
    finding = one.ended
    assert isinstance(finding, Finding)
    grade = "bad" if one.check.breach or finding.name in ENDLESS else "warn"
    title = check_label(finding.name)
    says = finding.sentence.removeprefix(f"{title}: ")
    ends = [Position(subject.trace, part.name, round_, _stop(source, finding, round_) if decided else None)
            for round_ in dict.fromkeys((finding.first_round, finding.last_round))]  # fmt: skip
    show = (
        f'<button type="button" class="show" data-part="{escape(part.name)}" data-first="{finding.first_round}"'
        f' data-last="{finding.last_round}" data-label="{escape(title)}">show in the charts</button>'
    )
    return (
        f'<article class="finding {grade}"><h3><span class="glyph {grade}" aria-hidden="true">{GLYPHS[grade]}</span>'
        f" {escape(title)}</h3><p>{escape(says[:1].upper() + says[1:])}.</p>"
        f'<p class="places">{" to ".join(map(place, ends))} {show}</p>{_more(finding, ends[0])}</article>'
    )


def _more(finding: Finding, first: Position) -> str:
    numbers = "".join(
        f"<div><dt>{escape(name.replace('_', ' '))}</dt><dd>{number:,}</dd></div>"
        for name, number in sorted(finding.numbers.items())
    )
    named = ", ".join(escape(clean(name)) for name in finding.requests[:_NAMED])
    left = len(finding.requests) - _NAMED
    commands = [f"tsviz open {first.argument}"]
    if finding.requests:
        commands.append(why_command(first, finding.requests[0]))
    inside = f"<dl>{numbers}</dl>" if numbers else ""
    if named:
        inside += f"<p>Requests: {named}{f' and {left:,} more' if left > 0 else ''}.</p>"
    inside += "".join(f"<p>{command(text)}</p>" for text in commands)
    return folded("numbers, requests, commands", inside)


def _stop(source: Source, finding: Finding, round_: int) -> int | None:
    """Return the first stop of a round that is about a request of the finding."""
    if not finding.requests:
        return None
    names = ", ".join(map(literal, finding.requests[:_ASKED]))
    row = source.row("min(stop) AS stop", "candidates", f"round = {round_:d} AND request IN ({names})")
    stop: int | None = row.get("stop")
    return stop


_OUTCOMES = {"not_checkable": "not checkable", "not_applicable": "does not apply"}


def _others(part: SubjectPart) -> str:
    rows = [
        (check_label(one.check.name), _OUTCOMES.get(one.outcome, "not found"), one.sentence)
        for one in part.checked if one.outcome != "found"
    ]  # fmt: skip
    missing = sum(row[1] == "not checkable" for row in rows)
    title = (
        f"{len(rows)} checks found nothing"
        if not missing
        else (f"{len(rows) - missing} checks found nothing, {missing} could not be made")
    )
    return folded(title, table(Table("Checks without a finding", ("check", "outcome", "says"), rows))) if rows else ""
