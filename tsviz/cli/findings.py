"""`tsviz findings`: the problems of a trace, each with its numbers and where to look."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .following import Novelty, follow_option, grown, require_lines
from .output import Format, tell
from .rows import format_option, print_rows, table_of
from .traces import Place, open_place, parse_place, tell_gaps, unreadable
from .why import decisions_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tsviz.replay.findings.model import Checked
    from tsviz.replay.why.facts import Facts
    from tsviz.trace.reader import Bundle, Part


_SENTENCE = "sentence"


@click.command("findings", short_help="Say what is wrong in a trace, with numbers and positions.")
@click.argument("trace")
@click.option("--all", "everything", is_flag=True, help="Also the checks that found nothing or could not be made.")
@click.option(
    "--fail-on", "fail_on", multiple=True, metavar="NAME", help="End with 6 (a broken invariant) or 1 if it is found."
)
@click.option("--recorded-only", is_flag=True, help="Do not derive decisions; what needs them is not checkable.")
@follow_option
@format_option
def command(
    trace: str, everything: bool, fail_on: tuple[str, ...], recorded_only: bool, follow: bool, form: str
) -> None:
    """Check TRACE for every documented finding (docs/findings.md).

    \b
    tsviz findings traces/mixed-stall                           what was found
    tsviz findings traces/mixed-stall --all                     and what was not, and what could not be checked
    tsviz findings traces/mixed-stall --fail-on page_breach     code 6 if a page was owned twice

    Every part is checked, unless TRACE names one. A check that lacks its tables is not checkable, never ok. A table
    ends with the sentence of each finding, in a pipe on one line; requests and numbers are in every other --format.
    With --follow, what plans show of a recording is checked as it grows, and told once when it is found.
    """
    from tsviz.replay.findings.scan import BY_NAME

    for name in fail_on:
        if name not in BY_NAME:
            raise CliError(ExitCode.USAGE, f"--fail-on {name}: there are {', '.join(BY_NAME)}")
    place = parse_place(trace)
    if follow:
        _fail(place.path, _follow(place, Format(form)), fail_on)
        return
    bundle, chosen = open_place(place)
    checked: list[Checked] = []
    parts = bundle.parts if place.node is None else [chosen]
    tell_gaps(parts)
    for part in parts:
        with unreadable():
            checked += check(bundle, part, recorded_only)[0]
    shown = [one for one in checked if everything or one.outcome == "found"]
    apply = [one for one in checked if one.outcome != "not_applicable"]
    missing = sum(one.outcome == "not_checkable" for one in apply)
    nothing = missing == len(apply)
    if missing and not (everything or nothing):
        tell(f"{missing:,} of {len(apply):,} checks could not be made; --all says which and why")
    if shown:
        print_rows([_row(one) for one in shown], form, counts="numbers", prose=_SENTENCE)
    elif form == "json":
        click.echo("[]")
    if nothing and apply:
        why = dict.fromkeys(one.sentence for one in apply)
        tell(f"nothing could be checked: {'; '.join(why)}")
    elif not shown:
        tell("nothing found" + (" by the others" if missing else ""))
    _fail(place.path, checked, fail_on)


def _follow(place: Place, form: Format) -> list[Checked]:
    """Check a recording as it grows, and say each finding once; return those of its end."""
    import sys

    from tsviz.replay.findings.model import RECORDED
    from tsviz.replay.findings.scan import CHECKS, check_part

    require_lines(form)
    checks = [one for one in CHECKS if one.needs == RECORDED]
    novelty = Novelty(form, sys.stdout.buffer, None, prose=_SENTENCE)
    told: dict[tuple[str, str], dict[str, Any]] = {}
    until: dict[tuple[str, str, int], int] = {}
    checked: list[Checked] = []
    for now in grown([str(place.path)]):
        parts = [part for part in now.bundle.parts if place.node in (None, part.node)]
        checked = [one for part in parts for one in check_part(now.bundle, part, None, checks)]
        kept = {(part.node, part.rank): part.meta.get("starts_at", 1) for part in parts}
        for one in checked:
            if one.outcome == "found":
                key = (one.check.name, str(one.positions[0]))
                goes_on = one.positions[0].round <= until.get((one.check.name, one.node, one.rank), 0)
                if not (goes_on and kept[one.node, one.rank] > 1):  # in a ring, whose front moves through it
                    told.setdefault(key, _row(one) | {"at": key[1]})
                until[one.check.name, one.node, one.rank] = one.positions[-1].round
        if told:
            novelty.write(table_of(list(told.values()), "numbers"))
        if now.ended:
            tell(f"the recording has ended: {now.rounds:,} rounds")
    return checked


def check(bundle: Bundle, part: Part, recorded_only: bool) -> tuple[list[Checked], Callable[[], Facts | None]]:
    """Check a part, deriving its decisions unless only recorded ones are wanted; return also what reads its facts.

    Checks that were made before are not made again.
    """
    from functools import cache

    from tsviz.replay.findings.scan import check_kept, dropped_tables
    from tsviz.replay.why.answer import facts_of

    if (recorded_only and part.level != "decisions") or dropped_tables(part):
        return list(check_kept(bundle, part, "none 0", lambda: None)), lambda: None
    index = decisions_of(part)
    if index is None:
        decided = f"recorded {part.last_round}"
    elif index.last_round:
        decided = f"derived {index.last_round}"
    else:
        why_not = "the twin leaves the recording in its first round"
        return list(check_kept(bundle, part, "none 0", lambda: None, why_not)), lambda: None
    read = cache(lambda: facts_of(part, index))
    return list(check_kept(bundle, part, decided, read)), read


def _row(one: Checked) -> dict[str, Any]:
    from tsviz.replay.scenario.predicates import Finding

    ended = one.ended
    numbers = ended.numbers if isinstance(ended, Finding) else {}
    requests = ended.requests if isinstance(ended, Finding) else ()
    return {
        "finding": one.check.name, "outcome": one.outcome, "at": ", ".join(map(str, one.positions)) or None,
        "sentence": one.sentence, "requests": list(requests), "numbers": numbers,
    }  # fmt: skip


def _fail(path: Any, checked: list[Checked], names: tuple[str, ...]) -> None:
    hit = [one for one in checked if one.outcome == "found" and one.check.name in names]
    if not hit:
        return
    broken = any(one.check.breach for one in hit)
    found = ", ".join(dict.fromkeys(one.check.name for one in hit))
    raise CliError(ExitCode.INVARIANT_BREACH if broken else ExitCode.QUERY_FAILED, f"{path}: found {found}")
