"""`tsviz blame`: where the time of a request, a class or the fleet went, by cause or by who was in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .rows import format_option, print_rows
from .traces import open_place, parse_place, tell_gaps, tell_other_parts, traces_or_parts, unreadable
from .why import decisions_of

if TYPE_CHECKING:
    from tsviz.replay.lost.keys import LostKey
    from tsviz.replay.lost.model import Lost

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
    if by == "holder":
        print_rows(_by_holder(lost), form)
        return
    view = REQUEST if request is not None else _VIEWS[by]
    title = "of" if view == "fleet" else view
    print_rows([row for key in lost_keys(lost) if key.view == view for row in _by_cause(key, title)], form)


def _by_cause(key: LostKey, title: str) -> list[dict[str, Any]]:
    """Return a row a cause of every phase of one key."""
    return [
        {
            title: "all" if title == "of" else key.key, "span": phase.phase, "cause": cause.cause,
            "time_ns": cause.time_ns, "percent": _percent(cause.time_ns, phase.span_ns),
            "mean_ns": round(cause.time_ns / phase.per) if phase.per else 0, "requests": phase.spans,
            "longest_request": cause.request, "longest_from": cause.run.first_round,
            "longest_to": cause.run.last_round, "longest_behind": cause.run.behind or None,
        }
        for phase in key.phases for cause in phase.causes
    ]  # fmt: skip


def _by_holder(lost: list[Lost]) -> list[dict[str, Any]]:
    """Return a row a span, cause and who was in the way, most time first within a span."""
    from tsviz.replay.lost.keys import held_up

    return [
        {
            "span": one.phase, "cause": one.cause, "holder": one.who or None, "time_ns": one.time_ns,
            "percent": _percent(one.time_ns, one.span_ns), "requests": one.requests,
        }
        for one in held_up(lost)
    ]  # fmt: skip


def _percent(part_ns: int, whole_ns: int) -> float:
    return round(100 * part_ns / whole_ns, 1) if whole_ns else 0.0
