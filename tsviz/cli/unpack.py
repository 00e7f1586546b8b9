"""`tsviz unpack`: the trace in a file that `tsviz pack` wrote."""

from __future__ import annotations

from pathlib import Path

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .params import OutputPath
from .traces import unreadable
from .writing import writing


@click.command("unpack", short_help="Make a trace of a packed file.")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("out", type=OutputPath())
@click.option("--limit-bytes", type=click.IntRange(min=1), default=64 << 30, show_default=True, help="Refuse more.")
def command(file: Path, out: Path, limit_bytes: int) -> None:
    """Write the trace in FILE to the directory OUT. FILE may come from anyone: what no packed trace has is refused."""
    from tsviz.trace.errors import CannotRecord
    from tsviz.trace.packing import unpack

    try:
        with unreadable(), writing(out):
            size = unpack(file, out, limit_bytes=limit_bytes)
    except CannotRecord as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    tell(f"{out}: {size:,} bytes")
