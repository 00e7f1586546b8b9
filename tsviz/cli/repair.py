"""`tsviz repair`: a sound trace of what is left of one."""

from __future__ import annotations

from pathlib import Path

import click

from .exit_codes import CliError, ExitCode
from .params import OutputPath
from .rows import format_option, print_rows
from .traces import unreadable, whole_traces


@click.command("repair", short_help="Write what is left of a damaged or unfinished trace as a sound one.")
@click.argument("trace")
@click.argument("out", type=OutputPath())
@format_option
def command(trace: str, out: Path, form: str) -> None:
    """Write TRACE, whose process was killed or whose files were cut, to OUT: all up to the last commit that holds.

    TRACE is left as it is. What was lost is listed, and stands in OUT as the reason of its end.
    """
    from tsviz.trace.errors import CannotRecord
    from tsviz.trace.repair import repair

    path = Path(whole_traces([trace])[0])
    try:
        with unreadable():
            repaired = repair(path, out)
    except CannotRecord as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    rows = [{"part": r.part, "rounds": r.last_round, "lost": "; ".join(r.lost) or "nothing"} for r in repaired]
    print_rows(rows, form)
