"""`tsviz index`: derive the decisions of a trace that was recorded without them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .progress import clear_progress, rounds_progress
from .rows import format_option, print_rows
from .traces import open_place, parse_place, unreadable

if TYPE_CHECKING:
    from tsviz.replay.reexecution.index import Index
    from tsviz.trace.reader import Bundle, Part


@click.command("index", short_help="Derive why: re-execute a trace in the twin and keep its decisions.")
@click.argument("trace")
@format_option
def command(trace: str, form: str) -> None:
    """Re-execute TRACE in the twin, compare every round, and keep the decisions in the user's cache.

    `open` and `sql` then show them as derived, up to the last round that was verified. A trace that was recorded with
    its decisions needs no index for that. Beside them stand keyframes, from which live states of any round are made,
    and the findings (docs/findings.md), which are there at once.
    """
    from tsviz.replay.reexecution.index import build_index

    place = parse_place(trace)
    bundle, chosen = open_place(place)
    rows: list[dict[str, Any]] = []
    for part in bundle.parts if place.node is None else [chosen]:
        name = f"{part.node}/{part.rank}"
        with unreadable():
            index = build_index(part, progress=rounds_progress(name))
        with unreadable():
            _check(bundle, part, index)
        different = index.divergence
        rows.append(
            {
                "part": name, "verified_rounds": index.verified_rounds, "recorded_rounds": index.recorded_rounds,
                "outcome": "equal" if different is None else "diverged",
                "round": different and different.round, "field": different and different.field,
                "expected": different and different.expected, "got": different and different.got,
            }
        )  # fmt: skip
    clear_progress()
    print_rows(rows, form)
    if any(row["outcome"] == "diverged" for row in rows):
        raise CliError(ExitCode.DIVERGENCE, f"{place.path}: the twin does not make these plans")


def _check(bundle: Bundle, part: Part, index: Index) -> None:
    """Make the findings of a part that has its decisions; they are kept."""
    from tsviz.replay.findings.scan import check_kept
    from tsviz.replay.why.answer import facts_of

    if index.last_round and part.level != "decisions":
        for _ in check_kept(bundle, part, f"derived {index.last_round}", lambda: facts_of(part, index)):
            pass
