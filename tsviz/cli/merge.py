"""`tsviz merge`: the traces of several processes as one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from .exit_codes import CliError, ExitCode
from .params import OutputPath
from .rows import format_option, print_rows
from .traces import unreadable, whole_traces
from .writing import writing


@click.command("merge", short_help="Make one trace of those of several nodes, ranks or runs.")
@click.argument("traces", nargs=-1, required=True)
@click.option("--out", type=OutputPath(), required=True, help="Directory of the new bundle.")
@click.option(
    "--same", type=click.Choice(("ranks", "restarts")), default="ranks", show_default=True,
    help="What parts of the same node and rank are: ranks get the next number, restarts are F-2, F-3.",
)  # fmt: skip
@format_option
def command(traces: tuple[str, ...], out: Path, same: str, form: str) -> None:
    """Write the parts of TRACES into one bundle, on one clock, and say which part became which.

    \b
    tsviz merge serving serving-2 --out fleet
    tsviz merge monday tuesday --out week --same restarts
    """
    from tsviz.trace.errors import CannotRecord
    from tsviz.trace.merging import merge_bundles
    from tsviz.trace.reader import open_bundle

    paths = whole_traces(list(traces))
    try:
        with unreadable(), writing(out):
            placed = merge_bundles([open_bundle(path) for path in paths], out, same=same)
    except CannotRecord as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    print_rows([asdict(place) for place in placed], form)
