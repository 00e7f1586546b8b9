"""`tsviz verify`: make the recorded calls again and compare every round."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .parting import listed_row, recorded_by
from .progress import clear_progress, rounds_progress
from .rows import format_option, print_rows
from .schedulers import NAMES, SchedulerMissing
from .sheltered import SchedulerDied, load_sheltered
from .traces import open_recorded, parse_place, require_round, unreadable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tsviz.replay.reexecution.verify import Divergence
    from tsviz.trace.reader import Part

_NAMED = {"real": "the real scheduler", "twin": "the twin"}
_SECTION = "docs/conformance.md, section 1"
"""Where the two schedulers part on purpose."""


@click.command("verify", short_help="Re-execute a trace and compare every round.")
@click.argument("trace")
@click.option(
    "--with", "scheduler", type=click.Choice(NAMES),
    help="Who re-executes. Default: the scheduler that recorded the part; of a slice the twin.",
)  # fmt: skip
@format_option
def command(trace: str, scheduler: str | None, form: str) -> None:
    """Re-execute the calls of TRACE in a fresh scheduler and compare the digests of every round.

    Every part is checked, unless TRACE names one (TRACE@P/0:1) ; a round in TRACE@ROUND ends the check there.
    The first difference of a part is named by round, field, expected and got; the exit code is then 5.
    The twin and the real scheduler part on purpose in a few places (docs/conformance.md, section 1): what one of them
    recorded may diverge --with the other.
    """
    place = parse_place(trace)
    bundle, chosen = open_recorded(place)
    parts = bundle.parts if place.node is None else [chosen]
    who = _who(scheduler, parts)
    modules = _load(parts, who, chosen=scheduler is not None)
    from tsviz.replay.reexecution.verify import verify

    require_round(place, chosen)
    rows: list[dict[str, Any]] = []
    diverged: list[tuple[Part, str, Divergence]] = []
    for part, by in zip(parts, who, strict=True):
        name = f"{part.node}/{part.rank}"
        with unreadable():
            found = verify(part, modules[by], progress=rounds_progress(name), until=place.round)
        different = found.divergence
        if different is not None:
            diverged.append((part, by, different))
        row = {
            "part": name, "with": by, "verified_rounds": found.verified_rounds,
            "recorded_rounds": found.recorded_rounds,
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
        raise _diverged(place.path, diverged)


def _who(scheduler: str | None, parts: Sequence[Part]) -> list[str]:
    """Return who re-executes each part; of a slice the twin: only it goes on from a keyframe. Raises `CliError`."""
    start = next((part.meta["starts_at"] for part in parts if "starts_at" in part.meta), None)
    if start is None:
        return [scheduler or recorded_by(part) for part in parts]
    if scheduler == "real":
        words = f"--with real: the real package cannot begin at round {start}, where this slice does; say --with twin"
        raise CliError(ExitCode.USAGE, words)
    if scheduler is None:
        tell(f"a slice from round {start}: only the twin can re-execute it (--with twin)")
    return ["twin"] * len(parts)


def _load(parts: Sequence[Part], who: Sequence[str], *, chosen: bool) -> dict[str, Any]:
    """Return the schedulers that are needed, the real one first: its process makes all of it. Raises `CliError`."""
    try:
        return {name: load_sheltered(name) for name in sorted(set(who))}
    except SchedulerMissing as error:
        if chosen:
            raise
        hint = "it recorded this trace; --with twin re-executes it with ours"
        raise SchedulerMissing(ExitCode.USAGE, error.message, hint) from error
    except SchedulerDied as error:
        ours = all(recorded_by(part) == "twin" for part in parts)
        code = ExitCode.DIVERGENCE if ours else ExitCode.TRACE_UNREADABLE
        raise CliError(code, error.message, f"--with twin lives on; {_SECTION}, says where the two part") from error


def _diverged(path: object, diverged: Sequence[tuple[Part, str, Divergence]]) -> CliError:
    """Return what is said of divergences; where the other scheduler recorded, that this may be why."""
    by_whom = [_NAMED[by] for by in sorted({by for _, by, _ in diverged})]
    words = f"{path}: {' and '.join(by_whom)} {'do' if len(by_whom) > 1 else 'does'} not make these plans"
    others = [(part, by, found) for part, by, found in diverged if by != recorded_by(part)]
    if not others:
        return CliError(ExitCode.DIVERGENCE, words)
    recorder = recorded_by(others[0][0])
    rows = sorted({row for part, by, found in others if (row := listed_row(part, by, found))})
    where = f"this is row {', '.join(map(str, rows))} of {_SECTION}" if rows else f"see {_SECTION}"
    return CliError(
        ExitCode.DIVERGENCE, f"{words}, which {_NAMED[recorder]} recorded",
        f"--with {recorder} verifies it; the two part on purpose in a few places: {where}",
    )  # fmt: skip
