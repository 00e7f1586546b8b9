"""`tsviz open`: the terminal debugger."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .exit_codes import CliError, ExitCode
from .traces import Place, open_place, parse_place, unreadable

if TYPE_CHECKING:
    from collections.abc import Callable

    from tsviz.tui.opening import Subject

THEMES = ("dark", "light", "deuteranopia", "deuteranopia-light", "tritanopia", "tritanopia-light", "plain")
"""As `tsviz.tui.theme` names them; a test holds the two together, because a command line loads no toolkit."""


@click.command("open", short_help="Step through a trace on the terminal.")
@click.argument("trace")
@click.option("--request", help="Select this request.")
@click.option("--compare", default="", metavar="TRACE", help="Open side by side with another trace.")
@click.option("--follow", is_flag=True, help="Of a trace that is being written: show new rounds as they come.")
@click.option(
    "--theme", type=click.Choice(THEMES), envvar="TSVIZ_THEME",
    help="Colours; also TSVIZ_THEME. NO_COLOR takes them all away.",
)  # fmt: skip
def command(trace: str, request: str | None, compare: str, follow: bool, theme: str | None) -> None:
    """Open TRACE[@[NODE/RANK:]ROUND[.STOP]] on the terminal. `?` lists the keys.

    A trace that is being written is shown as far as it is committed; F follows it, pauses and catches up. Of a flight
    recorder, OUT.ring, that is what is kept, from its last round on; what one wrote is opened at the round at which its
    trigger fired, or at the end.
    """
    open_terminal(parse_place(trace), request, compare, follow=follow, theme=theme)


def open_terminal(
    place: Place, request: str | None = None, compare: str = "", *, follow: bool = False, theme: str | None = None
) -> None:
    """Open the screen on a place in a trace.

    Raises CliError without a terminal, for a trace that is unreadable, and when the screen breaks.
    """
    from tsviz.tui.terminal import NoTerminal, require_terminal

    try:
        require_terminal()
    except NoTerminal as error:
        raise CliError(ExitCode.USAGE, str(error)) from error
    from tsviz.replay.ring.fired import LAST, fired_round
    from tsviz.trace.ring import ring_at
    from tsviz.tui.app import Crashed, run
    from tsviz.tui.leaving import leave_at_once, threads_left

    ring = ring_at(place.path)
    if ring is None and not os.path.exists(place.path / "bundle.json"):  # noqa: PTH110 (raises for a loop of links)
        open_place(place, derive=False)  # it says what is wrong, without a screen that comes and goes

    def opening(of: Place = place) -> Subject:
        return _of_ring(of, ring) if ring is not None else _to_follow(of) if follow else _of_trace(of)

    def other(part: str) -> Callable[[], Subject]:
        node, _, rank = part.rpartition("/")
        return partial(opening, Place(place.path, node, int(rank)))

    broken: CliError | None = None
    follow = follow and place.round is None
    try:
        run(
            opening,
            start_round=place.round
            or (LAST if follow or ring is not None else fired_round(place.path, place.node, place.rank)),
            start_stop=place.stop,
            request=request,
            compare=compare,
            follow=follow,
            name=place.path.name,
            theme=theme,
            others=other,
        )
    except CliError as error:
        broken = error
    except Crashed as error:
        broken = CliError(ExitCode.QUERY_FAILED, f"the debugger broke: {error}", "the trace is not changed")
    if threads_left():
        if broken is not None:
            broken.show()
        leave_at_once(broken.exit_code if broken is not None else ExitCode.OK)
    if broken is not None:
        raise broken


def _of_trace(place: Place) -> Subject:
    """Return what the screen shows of a trace, and what follows it where it is being written. Raises CliError."""
    from tsviz.replay.identity import identity
    from tsviz.replay.view import open_view
    from tsviz.tui.desk import TraceDesk
    from tsviz.tui.opening import Subject

    bundle, part = open_place(place, derive=False)
    follower = None
    with unreadable():
        if part.live:
            from tsviz.replay.follow import Follower

            follower = Follower(place.path, part.node, part.rank)
            view = follower.view()
        else:
            view = open_view(bundle, part.node, part.rank, wait=False)
    return Subject(view, TraceDesk(str(place.path), part.node, part.rank, identity(bundle, part)), follower)


def _to_follow(place: Place) -> Subject:
    """Return what `_of_trace` does. Raises CliError; `tsviz.tui.opening.NothingYet` where there is no part yet."""
    from tsviz.trace import errors
    from tsviz.tui.opening import NothingYet

    try:
        return _of_trace(place)
    except CliError as error:
        if isinstance(error.__cause__, errors.NothingYet):
            raise NothingYet(error.__cause__.waits_for) from error
        raise


def _of_ring(place: Place, home: Path) -> Subject:
    """Return what the screen shows of a ring, whose desk asks what was shown last. Raises CliError."""
    from tsviz.replay.ring.follow import FollowedPart
    from tsviz.tui.desk import RingDesk
    from tsviz.tui.opening import Subject

    with unreadable():
        try:
            followed = FollowedPart(home, place.node, place.rank)
        except KeyError as error:
            raise CliError(ExitCode.USAGE, f"{place.path}: {error.args[0]}") from None
        view = followed.view()
    return Subject(view, RingDesk(lambda: followed.path, followed.node, followed.rank, followed.key), followed)
