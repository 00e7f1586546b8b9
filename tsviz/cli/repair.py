"""`tsviz repair`: a sound trace of what is left of one."""

from __future__ import annotations

from pathlib import Path

import click

from .exit_codes import CliError, ExitCode
from .params import OutputPath
from .rows import format_option, print_rows
from .traces import unreadable, whole_traces
from .writing import writing


@click.command("repair", short_help="Write what is left of a damaged or unfinished trace as a sound one.")
@click.argument("trace")
@click.argument("out", type=OutputPath())
@format_option
def command(trace: str, out: Path, form: str) -> None:
    """Write TRACE, whose process was killed or whose files were cut, to OUT: all up to the last commit that holds.

    TRACE is left as it is. What was lost is listed, and stands in OUT as the reason of its end. Of a flight recorder
    whose processes were all killed, TRACE is the folder OUT.ring: everything that is committed there is written.
    """
    from tsviz.replay.ring.left import write_left
    from tsviz.trace.errors import CannotRecord
    from tsviz.trace.layout import RING_FILE
    from tsviz.trace.repair import repair

    path = Path(whole_traces([trace])[0])
    try:
        with unreadable(), writing(out):
            repaired = write_left(path, out) if (path / RING_FILE).is_file() else repair(path, out)
    except CannotRecord as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    rows = [{"part": r.part, "rounds": r.last_round, "lost": "; ".join(r.lost) or "nothing"} for r in repaired]
    print_rows(rows, form)
