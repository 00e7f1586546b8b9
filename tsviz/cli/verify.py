"""`tsviz verify`: make the recorded calls again and compare every round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from .exit_codes import CliError, ExitCode
from .output import tell
from .progress import clear_progress, rounds_progress
from .rows import format_option, print_rows
from .schedulers import NAMES
from .sheltered import load_sheltered
from .traces import open_recorded, parse_place, require_round, unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tsviz.trace.reader import Part


@click.command("verify", short_help="Re-execute a trace and compare every round.")
@click.argument("trace")
@click.option(
    "--with", "scheduler", type=click.Choice(NAMES), default="real", show_default=True,
    help="Who re-executes; a slice by itself the twin.",
)  # fmt: skip
@format_option
def command(trace: str, scheduler: str, form: str) -> None:
    """Re-execute the calls of TRACE in a fresh scheduler and compare the digests of every round.

    Every part is checked, unless TRACE names one (TRACE@P/0:1) ; a round in TRACE@ROUND ends the check there.
    The first difference of a part is named by round, field, expected and got; the exit code is then 5.
    """
    place = parse_place(trace)
    bundle, chosen = open_recorded(place)
    parts = bundle.parts if place.node is None else [chosen]
    scheduler = _who(scheduler, parts)
    module = load_sheltered(scheduler)
    from tsviz.replay.reexecution.verify import verify

    require_round(place, chosen)
    rows: list[dict[str, Any]] = []
    diverged = False
    for part in parts:
        name = f"{part.node}/{part.rank}"
        with unreadable():
            found = verify(part, module, progress=rounds_progress(name), until=place.round)
        different = found.divergence
        diverged |= different is not None
        row = {
            "part": name, "verified_rounds": found.verified_rounds, "recorded_rounds": found.recorded_rounds,
            "outcome": "equal" if different is None else "diverged",
            "round": different and different.round, "call": different and different.seq,
            "field": different and different.field, "expected": different and different.expected,
            "got": different and different.got,
        }  # fmt: skip
        rows.append(row)
        clear_progress()
        for words in found.lost.words():
            tell(f"{name}: {words}")
    print_rows(rows, form)
    if diverged:
        raise CliError(ExitCode.DIVERGENCE, f"{place.path}: the {scheduler} scheduler does not make these plans")


def _who(scheduler: str, parts: Sequence[Part]) -> str:
    """Return who re-executes: of a slice the twin, since only it goes on from a keyframe. Raises `CliError`."""
    start = next((part.meta["starts_at"] for part in parts if "starts_at" in part.meta), None)
    if start is None or scheduler != "real":
        return scheduler
    if click.get_current_context().get_parameter_source("scheduler") is not ParameterSource.DEFAULT:
        words = f"--with real: the real package cannot begin at round {start}, where this slice does; say --with twin"
        raise CliError(ExitCode.USAGE, words)
    tell(f"a slice from round {start}: only the twin can re-execute it (--with twin)")
    return "twin"
