"""`tsviz blame`: where the time of a request, a class or the fleet went, by cause."""

from __future__ import annotations

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .rows import format_option, print_rows
from .traces import open_place, parse_place, tell_gaps, unreadable
from .why import decisions_of


@click.command("blame", short_help="Say where the time to first token and between tokens went.")
@click.argument("trace")
@click.option("--request", help="Only this request.")
@click.option(
    "--by", type=click.Choice(("request", "class", "cause")), default="cause", show_default=True,
    help="Sum by request, by class (the id without its number) or over the whole fleet.",
)  # fmt: skip
@format_option
def command(trace: str, request: str | None, by: str, form: str) -> None:
    """Split the time to first token and the time between tokens of TRACE by cause.

    \b
    tsviz blame traces/head-of-line                        the fleet
    tsviz blame traces/head-of-line --request chat-2       one request
    tsviz blame traces/head-of-line --by class             chats against reports

    What became of a request in a round holds from that plan to the next; the causes of a span add up to it exactly.
    A request without a first token is split from its arrival to the end of the trace (no_first_token), or to the call
    that ended it, an abort mostly (ended_without_token). `mean_ns` is a token for tpot, a request for the others.
    """
    from tsviz.replay.lost.blame import blame, left_out, shares
    from tsviz.replay.why.answer import facts_of

    place = parse_place(trace)
    _, part = open_place(place)
    tell_gaps([part])
    with unreadable():
        facts = facts_of(part, decisions_of(part))
        chosen = None
        if request is not None:
            chosen = [s for s, name in enumerate(facts.life.names) if name == request]
            if not chosen:
                raise CliError(ExitCode.USAGE, f"{place.path}: no request {request!r} in this trace")
        found = shares(blame(facts, chosen), "request" if request is not None else by)
        unknown = left_out(facts, chosen)
    if unknown:
        click.echo(
            f"{unknown:,} requests are left out: their first token or arrival is not known before the slice", err=True
        )
    rows = [
        {
            by if by != "cause" else "of": s.key, "span": s.phase, "cause": s.cause, "time_ns": s.time_ns,
            "percent": round(100 * s.share, 1), "mean_ns": round(s.mean_ns), "requests": s.spans,
        }
        for s in found
    ]  # fmt: skip
    if not rows:
        if request is not None and chosen is not None and not any(facts.life.accepted[s] for s in chosen):
            tell(f"{request}: the scheduler refused it, so that it has no time to split")
        elif not unknown:
            tell("no request of this trace has a span to split")
        return
    print_rows(rows, form)
