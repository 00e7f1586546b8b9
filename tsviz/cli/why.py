"""`tsviz why`: the cause, the chain to the root, and the numbers behind them."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

import click

from .exit_codes import CliError, ExitCode
from .output import clean
from .progress import clear_progress, rounds_progress
from .traces import open_place, parse_place, tell_other_parts, unreadable

if TYPE_CHECKING:
    from tsviz.replay.reexecution.index import Index
    from tsviz.trace.reader import Part

_AT_END = re.compile(r"(?P<request>.+)@(?P<round>\d+)(?:\.\d+)?")


@click.command("why", short_help="Say why a request has no row in a round.")
@click.argument("trace")
@click.argument("request")
@click.option("--format", "form", type=click.Choice(("table", "json")), default="table", show_default=True,
              help="A paragraph and a tree, or the tree as data.")  # fmt: skip
def command(trace: str, request: str, form: str) -> None:
    """Say why REQUEST has no row in a round: since when, behind whom, which pages it lacks and who holds them.

    \b
    tsviz why traces/head-of-line chat-2@8         the round behind the request, or behind the trace
    tsviz why traces/head-of-line@8 chat-2
    tsviz why traces/mixed-stall newcomer          the last round in which it waited

    Decisions that were not recorded are derived by re-execution, as `tsviz index` does.
    """
    from tsviz.replay.why.answer import CannotSay, facts_of, why
    from tsviz.replay.why.turns import Turns

    place = parse_place(trace)
    bundle, part = open_place(place)
    tell_other_parts(bundle, part, place)
    with unreadable():
        facts = facts_of(part, decisions_of(part))
        name, round_ = _question(request, place.round, set(facts.names()))
        try:
            answer = why(facts, Turns(facts), name, round_)
        except CannotSay as error:
            raise CliError(ExitCode.USAGE, f"{place.path}: {error}") from error
    if form == "json":
        json.dump(answer.data(), sys.stdout, indent=1)
        click.echo()
        return
    for line in (answer.paragraph, "", *answer.tree.lines()):
        click.echo(clean(line))


def _question(request: str, round_: int | None, names: set[str]) -> tuple[str, int | None]:
    """Split `REQUEST[@ROUND]`; an id that is there as it stands has no round behind it."""
    found = _AT_END.fullmatch(request)
    if request in names or found is None:
        return request, round_
    behind = int(found["round"])
    if round_ is not None and round_ != behind:
        raise CliError(
            ExitCode.USAGE, f"expected one round, found {round_} behind the trace and {behind} behind the request"
        )
    return found["request"], behind


def decisions_of(part: Part) -> Index | None:
    """Return the index of a part that was recorded without decisions, building it; None if they are in the part."""
    from tsviz.replay.reexecution.index import build_index

    if part.level == "decisions":
        return None
    index = build_index(part, progress=rounds_progress(f"{part.node}/{part.rank}"))
    clear_progress()
    if index.divergence is not None:
        click.echo(
            f"note: the twin leaves the recording in round {index.divergence.round:,}; decisions reach to round"
            f" {index.last_round:,}", err=True,
        )  # fmt: skip
    return index
