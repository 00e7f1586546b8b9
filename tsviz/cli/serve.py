"""`tsviz serve`: the terminal debugger in a browser, on loopback, for one person."""

from __future__ import annotations

import os

import click

from .exit_codes import CliError, ExitCode
from .open_ import THEMES
from .output import tell
from .traces import open_place, parse_place

_PORT = 8765


@click.command("serve", short_help="Step through a trace in a browser.")
@click.argument("trace")
@click.option("--port", type=click.IntRange(0, 65535), default=_PORT, show_default=True, help="0 takes a free one.")
@click.option("--request", help="Select this request.")
@click.option("--follow", is_flag=True, help="Of a trace that is being written: show new rounds as they come.")
@click.option("--theme", type=click.Choice(THEMES), help="Colours.")
def command(trace: str, port: int, request: str | None, follow: bool, theme: str | None) -> None:
    """Serve TRACE[@[NODE/RANK:]ROUND[.STOP]] on 127.0.0.1 and print the address that opens it.

    The address holds a token that is worth one visit; the browser keeps a cookie from it. Requests of other pages, and
    under other names of this machine, are refused. Nothing is loaded from another host. Ctrl-C ends it.
    """
    open_place(parse_place(trace), derive=False)
    from tsviz.spawn import python_command, python_environment
    from tsviz.tui.serving.server import GuardedServer, listen

    words = [*python_command("tsviz"), "open", trace]
    words += [] if request is None else ["--request", request]
    words += ["--follow"] if follow else []
    words += [] if theme is None else ["--theme", theme]
    try:
        listening = listen(port)
    except OSError as error:
        raise CliError(ExitCode.USAGE, f"port {port}: {error.strerror}", "--port 0 takes a free one") from error
    os.environ.update(python_environment())
    try:
        server = GuardedServer(words, f"tsviz {trace}", listening)
    except ImportError as error:
        raise CliError(
            ExitCode.USAGE, f"the browser bridge is not installed ({error.name})", "pip install 'tsviz[serve]'"
        ) from error
    click.echo(server.guard.address)
    tell("Ctrl-C ends it. The address is worth one visit.")
    server.run()
