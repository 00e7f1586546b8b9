"""`tsviz repair`: a sound trace of what is left of one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exit_codes import CliError, ExitCode
from .params import OutputPath
from .rows import format_option, print_rows
from .traces import unreadable, whole_traces
from .writing import writing

if TYPE_CHECKING:
    from tsviz.trace.repair import Repaired


@click.command("repair", short_help="Write what is left of a damaged or unfinished trace as a sound one.")
@click.argument("trace")
@click.argument("out", type=OutputPath())
@format_option
def command(trace: str, out: Path, form: str) -> None:
    """Write TRACE, whose process was killed or whose files were cut, to OUT: all up to the last commit that holds.

    TRACE is left as it is. What was lost is listed, and stands in OUT as the reason of its end. Of a flight recorder
    whose processes were all killed, TRACE is the folder OUT.ring.
    """
    from tsviz.trace.errors import CannotRecord
    from tsviz.trace.layout import RING_FILE
    from tsviz.trace.repair import repair

    path = Path(whole_traces([trace])[0])
    try:
        with unreadable(), writing(out):
            repaired = _of_ring(path, out) if (path / RING_FILE).is_file() else repair(path, out)
    except CannotRecord as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    rows = [{"part": r.part, "rounds": r.last_round, "lost": "; ".join(r.lost) or "nothing"} for r in repaired]
    print_rows(rows, form)


def _of_ring(home: Path, out: Path) -> list[Repaired]:
    """Write what a flight recorder kept as a trace. Raises CannotRecord while it is recorded, `TraceError`, OSError."""
    from tsviz.replay.ring.keeping import Keeper
    from tsviz.trace.endings import why_not_closed
    from tsviz.trace.errors import CannotRecord, Damaged
    from tsviz.trace.lock import ALIVE, recorder_of
    from tsviz.trace.repair import Repaired

    if recorder_of(home) == ALIVE:
        raise CannotRecord(f"{home}: it is being recorded; its keeper writes it out")
    keeper = Keeper(home)
    keeper.out = out
    if out.exists():
        raise CannotRecord(f"{out}: expected a path that is free, found something there")
    if keeper.write_out("repaired: the recorder and its keeper were killed") is None:
        raise Damaged(home, "segments", "a commit", "none")
    lost = (why_not_closed(home), *keeper.problems)
    return [Repaired(part.name, part.last_round(), lost) for part in keeper.parts()]
