"""`tsviz pack`: a trace as one file."""

from __future__ import annotations

from pathlib import Path

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .params import OutputPath
from .traces import unreadable, whole_traces
from .writing import writing


@click.command("pack", short_help="Write a trace as one file.")
@click.argument("trace")
@click.argument("file", type=OutputPath(dir_okay=False))
def command(trace: str, file: Path) -> None:
    """Write TRACE as one FILE; `tsviz unpack` makes a trace of it again. Prompts go with it: `tsviz redact` first."""
    from tsviz.trace.errors import CannotRecord
    from tsviz.trace.packing import pack

    path = Path(whole_traces([trace])[0])
    try:
        with unreadable(), writing(file):
            size = pack(path, file)
    except CannotRecord as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    tell(f"{file}: {size:,} bytes")
