"""`tsviz open`: the terminal debugger."""

from __future__ import annotations

import click

from .exit_codes import CliError, ExitCode
from .traces import Place, open_place, parse_place, unreadable


@click.command("open", short_help="Step through a trace on the terminal.")
@click.argument("trace")
@click.option("--request", help="Select this request.")
@click.option("--compare", default="", metavar="TRACE", help="Open side by side with another trace.")
def command(trace: str, request: str | None, compare: str) -> None:
    """Open TRACE[@[NODE/RANK:]ROUND[.STOP]] on the terminal. `?` lists the keys."""
    open_terminal(parse_place(trace), request, compare)


def open_terminal(place: Place, request: str | None = None, compare: str = "") -> None:
    """Open the screen on a place in a trace. Raises CliError without a terminal or for a trace that is unreadable."""
    from tsviz.tui.terminal import NoTerminal, require_terminal

    try:
        require_terminal()
    except NoTerminal as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    from tsviz.replay.identity import identity
    from tsviz.replay.recorded import open_view
    from tsviz.tui.app import run
    from tsviz.tui.desk import TraceDesk

    bundle, part = open_place(place)
    with unreadable():
        view = open_view(bundle, part.node, part.rank, wait=False)
    desk = TraceDesk(str(place.path), part.node, part.rank, identity(bundle, part))
    run(view, start_round=place.round or 1, start_stop=place.stop, request=request, desk=desk, compare=compare)
