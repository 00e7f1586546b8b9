"""What the application shows, and that it may be opened while the screen is there already.

Reading a trace loads Arrow, which takes longer than the toolkit; the header is drawn meanwhile (performance.md, U2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.tui.desk import Desk
from tsviz.tui.destination import ToMoment
from tsviz.tui.following import Follower


class NothingYet(Exception):
    """There is nothing to open yet, and whoever wants to follow it asks again."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A trace: its view, what more can be asked about it, and how far it is where it is being written."""

    view: RecordedView
    desk: Desk | None = None
    follower: Follower | None = None


@dataclass(frozen=True, slots=True)
class Arrival:
    """Where to go in a part that is opened from another one, and what to say there."""

    round: int = 0
    """0: at the moment."""
    moment: ToMoment | None = None
    request: str = ""
    message: str = ""
    view: str = ""
    """The view of the inspector that says more; empty: as it is."""
    stop: int | None = None
    """Stop in the round; None for the round as a whole."""


Opening = Callable[[], Subject]
"""Opens a trace, on the fetching thread. What it raises ends the application, and is raised by `tsviz.tui.app.run`;
only behind `NothingYet` it is called again."""

Others = Callable[[str], Opening]
"""Returns what opens another part (`node/rank`) of the same trace."""
