"""`tsviz info`: what is in a trace."""

from __future__ import annotations

import json
from typing import Any

import click

from .level import CALLS
from .output import clean
from .rows import format_option, print_rows
from .traces import open_recorded, parse_place, require_round, unreadable

_REMOVED = 5


@click.command("info", short_help="Say what is in a trace.")
@click.argument("trace")
@click.option("--json", "form", flag_value="json", help="The same as --format json: everything, as one object.")
@format_option
def command(trace: str, form: str) -> None:
    """Say what TRACE is: where it comes from, its parts, how many rounds and requests, and how it ended."""
    from tsviz.replay.overview import overview

    place = parse_place(trace)
    bundle, chosen = open_recorded(place)
    require_round(place, chosen)
    with unreadable():
        view = overview(bundle)
    if form == "json":
        click.echo(json.dumps(view, indent=1, sort_keys=True))
        return
    if form != "table":
        print_rows(view["parts"], form)
        return
    for key in ("name", "schema", "tokens", "scheduler", "command"):
        click.echo(f"{key:<10} {clean(str(view[key]))}")
    for block in ("device", "workload"):
        for key, value in view[block].items():
            if value is not None:
                click.echo(f"{block if key == next(iter(view[block])) else '':<10} {clean(f'{key}: {value}')}")
    for words in view["removed"][-_REMOVED:]:
        click.echo(f"{'removed':<10} {clean(words)}")
    if len(view["removed"]) > _REMOVED:
        click.echo(f"{'':<10} and {len(view['removed']) - _REMOVED:,} before them (--json)")
    for warning in view["warnings"]:
        click.echo(f"{'warning':<10} {clean(warning)}")
    print_rows(_rows(view["parts"]), "table")


def _rows(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the parts as the table shows them: which rounds they are where one begins behind round 1, and the level
    where one has no plans.
    """
    hidden = [] if any((part["first_round"] or 1) > 1 for part in parts) else ["first_round", "last_round"]
    hidden += [] if any(part["level"] == CALLS for part in parts) else ["level"]
    return [{key: value for key, value in part.items() if key not in hidden} for part in parts]
