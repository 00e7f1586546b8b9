"""`tsviz slice`: some rounds of a trace as a trace."""

from __future__ import annotations

import re
from pathlib import Path

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .params import OutputPath
from .progress import clear_progress, rounds_progress
from .rows import format_option, print_rows
from .traces import open_place, parse_place, unreadable
from .writing import writing


@click.command("slice", short_help="Cut some rounds out of a trace.")
@click.argument("trace")
@click.argument("rounds", metavar="A:B")
@click.option("--out", type=OutputPath(), required=True, help="Directory of the new bundle.")
@format_option
def command(trace: str, rounds: str, out: Path, form: str) -> None:
    """Write rounds A to B of TRACE as a small trace that opens, steps and takes SQL.

    Rounds keep their numbers. Of the requests that live at A it also has what came before: their submission, results
    and block tables, and the state of the twin as a keyframe, from which `verify`, `why` and `index` go on. Where the
    twin leaves the recording before A there is no keyframe, and the slice cannot be re-executed.

    \b
    tsviz slice run.tsviz 3580:3620 --out lock.tsviz
    """
    from tsviz.replay.slice import BadRange, write_slice
    from tsviz.trace.errors import CannotRecord

    found = re.fullmatch(r"(\d{1,1000}):(\d{1,1000})", rounds)
    if found is None:
        raise CliError(ExitCode.USAGE, f"expected rounds A:B such as 3580:3620, found {rounds!r}")
    place = parse_place(trace)
    bundle, part = open_place(place)
    try:
        with unreadable(), writing(out):
            sliced = write_slice(bundle, part, int(found[1]), int(found[2]), out, rounds_progress("slice"))
    except (BadRange, CannotRecord) as error:
        raise CliError(ExitCode.USAGE, f"{place.path}: {error}") from error
    clear_progress()
    row = {"first_round": sliced.first_round, "last_round": sliced.last_round, "requests": sliced.requests}
    print_rows([row | {f"{name}_rows": count for name, count in sliced.rows.items()}], form)
    if sliced.no_keyframe:
        words = (
            f"there is no keyframe at its start ({sliced.no_keyframe}): it opens and steps, but cannot be re-executed"
        )
        tell(words)
