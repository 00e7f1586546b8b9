"""`tsviz demo`: a recorded incident, at the round where it shows."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from .exit_codes import CliError, ExitCode
from .output import clean, tell
from .traces import Place, open_place, unreadable

_INCIDENTS = "incidents.json"


@click.command("demo", short_help="Open a recorded incident.")
@click.argument("incident", required=False)
@click.option("--list", "list_", is_flag=True, help="List the incidents that ship with the project.")
@click.option("--summary", is_flag=True, help="Print the incident's summary instead of opening it.")
def command(incident: str | None, list_: bool, summary: bool) -> None:
    """Open a recorded INCIDENT; without a terminal, print what it shows."""
    folder, incidents = shipped_incidents()
    if list_:
        for name, entry in incidents.items():
            click.echo(f"{name:<34} {clean(entry['title'])}")
        return
    name = incident or next(iter(incidents))
    if name not in incidents:
        raise CliError(ExitCode.USAGE, f"no incident {name!r}; there are {', '.join(incidents)}")
    entry = incidents[name]
    if summary or not (sys.stdin.isatty() and sys.stderr.isatty()):
        _print_summary(name, entry, folder)
        return
    from .open_ import open_terminal
    from .why import decisions_of

    place = Place(folder / name, entry.get("node"), entry.get("rank"), entry["round"])
    # The first time only: an incident of the real scheduler holds no decisions, and they are what one wants to see.
    with unreadable():
        decisions_of(open_place(place)[1])
    open_terminal(place, entry.get("request"))


def shipped_incidents() -> tuple[Path, dict[str, Any]]:
    """Return the folder of the shipped incidents and their catalogue. Raises CliError when it is not there."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "shipped_traces", package.parent / "traces"):
        if (folder / _INCIDENTS).is_file():
            catalogue: dict[str, Any] = json.loads((folder / _INCIDENTS).read_text())
            return folder, catalogue
    raise CliError(
        ExitCode.USAGE, "the shipped incidents are not installed with this copy of tsviz",
        "in a checkout of the project they lie in traces/: tsviz open traces/NAME",
    )  # fmt: skip


def _print_summary(name: str, entry: dict[str, Any], folder: Path) -> None:
    from .info import command as info

    click.echo(f"{name}: {entry['title']}\n")
    click.echo(entry["story"] + "\n")
    click.echo(f"look at    round {entry['round']}" + (f", request {entry['request']}" if entry.get("request") else ""))
    click.echo(f"made by    {entry['command']}\n")
    info.main([str(folder / name)], standalone_mode=False)
    click.echo(err=True)
    tell(f"open it on a terminal: tsviz demo {name}")
