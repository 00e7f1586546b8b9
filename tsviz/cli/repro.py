"""`tsviz repro`: a script for a bug report."""

from __future__ import annotations

from pathlib import Path

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .params import OutputPath
from .sheltered import load_sheltered_or_twin
from .traces import open_place, parse_place, unreadable


@click.command("repro", short_help="Write a script that shows it on the real package alone.")
@click.argument("trace")
@click.option("--out", type=OutputPath(), help="File to write; standard output without it.")
def command(trace: str, out: Path | None) -> None:
    """Write a standalone Python script that shows what TRACE shows, with tokenspeed-scheduler alone.

    It shows the first finding of the trace (livelock, stall, retraction_storm, head_of_line) and ends with exit code 1
    while it is there; with TRACE@ROUND it compares the plan of that round. It is a closed loop if that makes the
    recorded plans, otherwise the recorded calls. Prompts are not in it, only which prefixes are equal.

    \b
    tsviz repro small.tsviz --out livelock.py
    tsviz repro run.tsviz@120 > round120.py
    """
    from tsviz.replay.repro.data import TooLong
    from tsviz.replay.repro.script import make_repro
    from tsviz.replay.scenario.scenario import NotAScenario

    place = parse_place(trace)
    bundle, part = open_place(place)
    module = load_sheltered_or_twin()
    try:
        with unreadable():
            made = make_repro(part, module, name=bundle.name, round_=place.round)
    except (TooLong, NotAScenario) as error:
        raise CliError(ExitCode.USAGE, f"{place.path}: {error}") from error
    if out is None:
        click.echo(made.text, nl=False)
    else:
        try:
            with out.open("x", encoding="utf-8") as file:  # a file that is there is never overwritten
                file.write(made.text)
        except OSError as error:
            raise CliError(ExitCode.USAGE, f"{out}: cannot be written: {error.strerror}") from error
    kind = "closed loop" if made.closed_loop else "recorded calls"
    tell(f"{kind}: {made.reason}")
    shows = "nothing by name" if made.finding is None else made.finding.sentence
    tell(f"shows: {shows}")
