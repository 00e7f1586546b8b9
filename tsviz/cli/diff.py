"""`tsviz diff`: where two traces part, and what that did to the requests and the fleet."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any

import click

from .exit_codes import CliError, ExitCode
from .output import tell
from .rows import format_option, print_rows
from .traces import Place, open_place, parse_place, unreadable

if TYPE_CHECKING:
    from tsviz.trace.reader import Bundle, Part


@click.command("diff", short_help="Compare two traces, or the ranks of one.")
@click.argument("left")
@click.argument("right", required=False)
@click.option("--ranks", is_flag=True, help="Compare every rank of LEFT with rank 0 of its node.")
@click.option(
    "--show", type=click.Choice(("divergence", "figures", "requests", "merged")), default="divergence",
    show_default=True, help="Which table goes to standard output; merged: everything on one time axis.",
)  # fmt: skip
@click.option("--request", help="merged: only the moments of this request.")
@click.option("--limit", type=click.IntRange(min=1), default=10_000, show_default=True, help="merged: rows at most.")
@format_option
def command(left: str, right: str | None, ranks: bool, show: str, request: str | None, limit: int, form: str) -> None:
    """Say where LEFT and RIGHT first make different plans, to the field, and what each was told differently before.

    \b
    tsviz diff before after                      the first divergent round; code 5 if there is one, 0 if not
    tsviz diff before after --show figures       the fleet side by side; --show requests: every request
    tsviz diff fleet@F/0:1 fleet@F/1:1           two ranks of one trace
    tsviz diff fleet --ranks                     which rank disagrees with rank 0 first
    tsviz diff pair --show merged --request q4   prefill and decode node on one time axis
    """
    from tsviz.replay.diff.compare import diff, diff_ranks
    from tsviz.replay.diff.words import diff_words, difference_rows, figure_rows, rank_rows
    from tsviz.replay.whatif.words import request_rows

    first = parse_place(left)
    second = None if right is None else parse_place(right)
    if show == "merged":
        print_rows(_merged([place for place in (first, second) if place is not None], request, limit), form)
        return
    bundle, part = open_place(first)
    if ranks:
        if second is not None or show != "divergence":
            raise CliError(ExitCode.USAGE, "--ranks compares within LEFT: expected no RIGHT and no --show")
        with unreadable():
            found_ranks = diff_ranks(bundle)
        if not found_ranks:
            raise CliError(ExitCode.USAGE, f"{first.path}: expected a node with several ranks, found none")
        print_rows(rank_rows(found_ranks), form)
        _end_ranks(first, found_ranks)
        return
    if second is None:
        raise CliError(ExitCode.USAGE, "expected two traces, or --ranks, or --show merged")
    other_bundle, other = open_place(second)
    with unreadable():
        found = diff(part, other, _names((bundle, part), (other_bundle, other)))
    _say(diff_words(found))
    if show == "requests":
        print_rows(request_rows(found.requests, "left", "right"), form)
    else:
        print_rows(figure_rows(found) if show == "figures" else difference_rows(found), form)
    if not found.equal:
        raise CliError(ExitCode.DIVERGENCE, f"{found.left} and {found.right} do not make the same plans")


def _names(left: tuple[Bundle, Part], right: tuple[Bundle, Part]) -> tuple[str, str]:
    one, other = (bundle.name for bundle, _ in (left, right))
    if one != other:
        return one, other
    one, other = (f"{bundle.name} {part.node}/{part.rank}" for bundle, part in (left, right))
    return one, other if one != other else f"{other} (right)"


def _end_ranks(place: Place, ranks: Any) -> None:
    from tsviz.replay.diff.compare import first_to_disagree
    from tsviz.replay.diff.words import parting_words

    first = first_to_disagree(ranks)
    if first is None:
        told = next((r for r in ranks if r.inputs is not None), ranks[0])
        _say(parting_words(told))
        return
    _say(parting_words(first))
    raise CliError(
        ExitCode.DIVERGENCE, f"{place.path}: rank {first.rank} of {first.node} is the first to disagree with rank 0"
    )


def _say(lines: list[str]) -> None:
    for line in lines:
        tell(line)


def _merged(places: list[Place], request: str | None, limit: int) -> list[dict[str, Any]]:
    from tsviz.replay.diff.axis import axis_of, merge

    with _no_common_clock(), unreadable():
        axis = axis_of([open_place(place)[0] for place in places])
        moments = list(islice(merge(axis, request=request), limit + 1))
    if len(moments) > limit:
        tell(f"the first {limit:,} moments; --limit shows more")
    rows = [
        {"time_ns": m.time_ns, "node": m.label, "round": m.round, "kind": m.kind, "request": m.request, "what": m.words}
        for m in moments[:limit]
    ]
    if not rows:
        raise CliError(ExitCode.USAGE, f"expected moments of request {request!r}, found none")
    return rows


@contextmanager
def _no_common_clock() -> Iterator[None]:
    from tsviz.replay.diff.axis import CannotMerge

    try:
        yield
    except CannotMerge as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
