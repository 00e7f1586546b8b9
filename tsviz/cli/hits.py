"""`tsviz hits`: where a predicate holds, all positions at once or one of them (debugger.md, section 2)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exit_codes import CliError, ExitCode
from .level import not_recorded, without_rounds
from .output import BINARY, Format, Held, quiet_pipe, tell, write
from .params import seconds_option
from .rows import format_option
from .sql import OPENER, end_without, failure, terminal_width, typed
from .traces import parse_position, traces_or_parts

if TYPE_CHECKING:
    from tsviz.replay.hits import Near, Wanted


@click.command("hits", short_help="List the positions at which an SQL predicate holds.")
@click.argument("trace")
@click.argument("predicate")
@click.option("--first", is_flag=True, help="Only the first position.")
@click.option("--last", is_flag=True, help="Only the last position.")
@click.option("--from", "start", metavar="POSITION", help="Only the next one behind [NODE/RANK:]ROUND[.STOP].")
@click.option("--back", is_flag=True, help="With --from: the nearest in front of it.")
@click.option("--limit", type=click.IntRange(min=0), default=10_000, show_default=True, help="Positions; 0 is all.")
@seconds_option("--timeout", 60.0, "Seconds until the query is stopped.")
@format_option
@click.option("--opener", hidden=True, default=OPENER)
@click.pass_context
def command(
    context: click.Context,
    trace: str,
    predicate: str,
    first: bool,
    last: bool,
    start: str | None,
    back: bool,
    limit: int,
    timeout: float,
    form: str,
    opener: str,
) -> None:
    """List where PREDICATE holds in TRACE: a bundle, a folder of bundles or a quoted pattern, or one part of it.

    A predicate is an SQL condition over the tables of docs/sql.md, which it names: rows of several tables go together
    by part, round and request. A query with a column `round` works as well. A verdict is a hit once, in the first round
    in which the predicate holds of it; `verdicts.waited_rounds` counts its rounds. `retractions.request` lost its
    pages; turns of the retraction loop that gave nothing back are asked for with `retractions.outcome`.

    \b
    tsviz hits run.tsviz "retractions.request = 'r17'"
    tsviz hits run.tsviz "pool.available_blocks < 4" --first
    tsviz hits run.tsviz "verdicts.cause = 'head_of_line' AND waited_rounds > 50" --from 1204 --back
    tsviz hits run.tsviz "SELECT round FROM rounds WHERE decode_rows = 0"

    A position without a stop is the end of its round. Exit codes are those of `tsviz sql`.
    """
    kind = Format(form)
    if kind in BINARY and sys.stdout.isatty():
        raise CliError(ExitCode.USAGE, f"{kind.value} is no text for a terminal", "redirect standard output to a file")
    wanted, near = _wanted(first, last, start, back)
    try:
        with quiet_pipe():
            _run(trace, predicate, wanted, near, kind, limit or None, timeout, opener)
    except KeyboardInterrupt:
        context.exit(ExitCode.INTERRUPTED)


def _wanted(first: bool, last: bool, start: str | None, back: bool) -> tuple[Wanted, Near]:
    from tsviz.replay.hits import Near, Wanted

    if first + last + (start is not None) > 1:
        raise CliError(ExitCode.USAGE, "--first, --last and --from exclude each other")
    if start is None:
        if back:
            raise CliError(ExitCode.USAGE, "--back needs --from", "the last position is --last")
        return Wanted.FIRST if first else Wanted.LAST if last else Wanted.ALL, Near()
    place = parse_position(start, Path())
    if place is None or place.round is None:
        raise CliError(ExitCode.USAGE, f"--from: expected [NODE/RANK:]ROUND[.STOP], found {start!r}")
    near = Near(place.node, place.rank, place.round, place.stop)
    return Wanted.PREVIOUS if back else Wanted.NEXT, near


def _run(
    trace: str, predicate: str, wanted: Wanted, near: Near, form: Format, limit: int | None, seconds: float, opener: str
) -> None:
    from dataclasses import replace

    from tsviz.query.paths import bundles_of, unnamed
    from tsviz.query.problem import QueryError
    from tsviz.replay.hits import LIMITS, hits_apart

    limits = replace(LIMITS, seconds=seconds, rows=limit)
    traces = traces_or_parts([trace], "--from {round} begins there")
    predicate, bundles = typed(predicate), bundles_of(traces)
    optional = unnamed(bundles, traces)
    try:
        found = hits_apart(bundles, predicate, wanted, near, limits=limits, opener=opener, optional=optional)
    except QueryError as error:
        raise failure(error.problem, predicate) from error
    notes = write(Held(found.positions), form, sys.stdout.buffer, width=terminal_width())
    cut = found.total.of > found.total.rows or not found.total.exact
    if form is Format.TABLE or cut:
        tell(f"{found.total}".replace("row", "position") + ("; --limit 0 gives all" if cut else ""))
    behind = without_rounds(bundles, [] if near.round == 0 else [("--from", near.round)])
    for note in (*map(str, found.unknown), *notes, *not_recorded(bundles), *behind):
        tell(note)
    end_without([problem.message for problem in found.left_out])
