"""`tsviz blame`: where the time of a request, a class or the fleet went, by cause or by who was in the way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .rows import format_option, print_rows
from .traces import open_place, parse_place, tell_gaps, tell_other_parts, traces_or_parts, unreadable
from .why import decisions_of

if TYPE_CHECKING:
    from tsviz.replay.lost.keys import LostCause, LostKey

_VIEWS = {"cause": "fleet", "class": "class", "request": "request"}


@click.command("blame", short_help="Say where the time to first token and between tokens went.")
@click.argument("trace")
@click.option("--request", help="Only this request.")
@click.option(
    "--by", type=click.Choice(("request", "class", "cause", "holder")), default="cause", show_default=True,
    help="Sum by request, by class (the id without its number), over the whole fleet, or by who was in the way.",
)  # fmt: skip
@format_option
def command(trace: str, request: str | None, by: str, form: str) -> None:
    """Split the time to first token and the time between tokens of TRACE by cause.

    \b
    tsviz blame traces/head-of-line                        the fleet
    tsviz blame traces/head-of-line --by holder            who was in whose way, and how long
    tsviz blame traces/head-of-line --request chat-2       one request
    tsviz blame traces/head-of-line --by class             chats against reports

    What became of a request in a round holds from that plan to the next; the causes of a span add up to it exactly.
    A request without a first token is split from its arrival to the end of the trace (no_first_token), or to the call
    that ended it, an abort mostly (ended_without_token); one with tokens that did not finish, behind its last token as
    well (after_last_token). `mean_ns` is a token for tpot, a request for the others. The longest run of a cause is
    where to look: its request, its rounds, and who was in the way when it began.

    With --by holder a row is a cause and who was in the way, as `tsviz why` names them, where the verdict began; of a
    request that lacks pages that is who held the most of them. Where nobody was, `holder` is empty: the rows of a span
    add up to it too.
    """
    from tsviz.replay.lost.blame import blame, left_out
    from tsviz.replay.lost.keys import REQUEST, lost_keys
    from tsviz.replay.why.answer import facts_of

    (place,) = map(parse_place, traces_or_parts([trace], "`tsviz why` asks one round"))
    bundle, part = open_place(place)
    tell_gaps([part])
    tell_other_parts(bundle, part, place)
    with unreadable():
        facts = facts_of(part, decisions_of(part))
        chosen = None
        if request is not None:
            chosen = [s for s, name in enumerate(facts.life.names) if name == request]
            if not chosen:
                raise CliError(ExitCode.USAGE, f"{place.path}: no request {request!r} in this trace")
        lost = blame(facts, chosen)
        unknown = left_out(facts, chosen)
    if unknown:
        click.echo(
            f"{unknown:,} requests are left out: their first token or arrival is not known before the slice", err=True
        )
    if not lost:
        if request is not None and chosen is not None and not any(facts.life.accepted[s] for s in chosen):
            tell(f"{request}: the scheduler refused it, so that it has no time to split")
        elif not unknown:
            tell("no request of this trace has a span to split")
        return
    keys = lost_keys(lost)
    if by == "holder":
        print_rows(_by_holder(keys), form)
        return
    view = REQUEST if request is not None else _VIEWS[by]
    title = "of" if view == "fleet" else view
    print_rows([row for key in keys if key.view == view for row in _by_cause(key, title)], form)


def _by_cause(key: LostKey, title: str) -> list[dict[str, Any]]:
    """Return a row a cause of every phase of one key."""
    return [
        {
            title: "all" if title == "of" else key.key, "span": phase.phase, "cause": cause.cause,
            "time_ns": cause.time_ns, "percent": _percent(cause.time_ns, phase.span_ns),
            "mean_ns": round(cause.time_ns / phase.per) if phase.per else 0, "requests": phase.spans, **_longest(cause),
            "longest_behind": cause.run.behind or None,
        }
        for phase in key.phases for cause in phase.causes
    ]  # fmt: skip


def _by_holder(keys: list[LostKey]) -> list[dict[str, Any]]:
    """Return a row a span, cause and holder, most time first within a span; what nobody held has a row as well."""
    fleet = next(key for key in keys if key.view == "fleet")
    rows = []
    for phase in fleet.phases:
        held: list[tuple[str | None, LostCause]] = [
            (key.key, cause) for key in keys if key.view == "holder"
            for own in key.phases if own.phase == phase.phase for cause in own.causes
        ]  # fmt: skip
        theirs = Counter[str]()
        for _, cause in held:
            theirs[cause.cause] += cause.time_ns
        found: list[tuple[str | None, str, int, dict[str, Any]]]
        found = [(who, cause.cause, cause.time_ns, _longest(cause)) for who, cause in held]
        nobody = dict.fromkeys(_longest(phase.causes[0]))
        found += [
            (None, cause.cause, rest, nobody) for cause in phase.causes if (rest := cause.time_ns - theirs[cause.cause])
        ]
        rows += [
            {
                "span": phase.phase, "cause": cause, "holder": who, "time_ns": time_ns,
                "percent": _percent(time_ns, phase.span_ns), **longest,
            }
            for who, cause, time_ns, longest in sorted(found, key=lambda f: (-f[2], f[1], f[0] or ""))
        ]  # fmt: skip
    return rows


def _longest(cause: LostCause) -> dict[str, Any]:
    return {
        "longest_request": cause.request, "longest_from": cause.run.first_round, "longest_to": cause.run.last_round
    }  # fmt: skip


def _percent(part_ns: int, whole_ns: int) -> float:
    return round(100 * part_ns / whole_ns, 1) if whole_ns else 0.0
