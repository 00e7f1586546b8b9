"""The scene: everything the screen shows, in one frozen value. Panes are pure functions of it.

The screen replaces the scene and hands it to the panes; each pane redraws the lines that came out different.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tsviz.replay.recorded.snapshot import DeviceSide, Outstanding, Record, TraceHead
from tsviz.replay.stops.story import NotKnown
from tsviz.replay.why.tree import Answer
from tsviz.tui.following import Follow
from tsviz.tui.frame import Frame
from tsviz.tui.lines import Document
from tsviz.tui.numbers import percent
from tsviz.tui.strip import NO_WINDOW, ROUNDS, Strip, Window

PANES = ("requests", "round", "inspector", "timeline")
"""The panes that take the focus, in tab order."""


Details = Answer | NotKnown | tuple[Outstanding, ...] | DeviceSide | tuple[Record, ...]
"""What a view of the inspector looks up beyond the frame."""


@dataclass(frozen=True, slots=True)
class Detail:
    """What was looked up for a view, and the position and request it belongs to."""

    view: str
    round: int
    submission: int | None
    found: Details


@dataclass(frozen=True, slots=True)
class Scene:
    """What is shown (`frame`), what was asked for (`round`, `selected`), and what the screen itself has to say."""

    frame: Frame | None = None
    head: TraceHead | None = None
    name: str = ""
    """What the trace is called before its head is known."""
    round: int = 1
    follow: Follow | None = None
    """What is known of the recording, where the trace is being written and followed."""
    stop: int | None = None
    """Stop of the round at which the cursor stands; None for the round as a whole."""
    view: str = "why"
    """Which view of the inspector is open."""
    detail: Detail | None = None
    """What the open view looked up last."""
    folds: frozenset[int] = frozenset()
    """First stops of entries of the round that were opened (or, at the cursor, closed) by hand."""
    selected: int | None = None
    selected_id: str = ""
    """Request id of `selected` as last seen, for rounds in which it is not listed."""
    filter: str = ""
    order: str = "state"
    reverse: bool = False
    """Whether the list of requests is turned round."""
    loading: bool = True
    error: str = ""
    kept: tuple[str, ...] = ()
    """Keys that were pressed before the trace was there, and are answered when it is."""
    message: str = ""
    message_role: str = "message"
    play_rounds_per_second: int = 0
    focus: str = "requests"
    tabs: bool = False
    """Whether panes are tabs (narrow terminal, or one pane zoomed)."""
    window: Window = NO_WINDOW
    """The rounds that the timeline shows."""
    lane_order: str = "arrival"
    lane_group: str = ""
    lane_reverse: bool = False
    axis: str = ROUNDS
    """What the axis of the timeline is: rounds, or time."""
    pool_group: int | None = None
    """The only group whose pool the timeline shows, by its number; None: all."""
    pinned: frozenset[int] = frozenset()
    """Submissions that stand first in every list."""
    noted: tuple[int, ...] = ()
    """Rounds with a note or bookmark of the user's: a mark of the timeline."""
    strip: Strip | None = None
    """What was fetched for the timeline last."""
    verifying: tuple[int, int] | None = None
    """Rounds re-executed and rounds in all, while decisions are being derived."""
    to_verify: bool = False
    """Whether decisions will be derived without being asked for, which has not begun."""
    badge: tuple[str, str] = ("", "dim")
    """What the header says of the findings, and its role."""
    keys: tuple[tuple[str, str, str], ...] = ()
    """What the bottom line offers: (key, word, action)."""

    def answer_for(self, view: str) -> Details | None:
        """Return what was looked up for a view at this position; None while it is not there."""
        detail, frame = self.detail, self.frame
        if detail is None or frame is None or detail.view != view:
            return None
        here = detail.round == frame.snapshot.round and detail.submission == self.selected
        return detail.found if here else None

    @property
    def position(self) -> str:
        """The cursor as commands take it: `1204.3`, or `1204` for the round as a whole."""
        round_ = self.frame.snapshot.round if self.frame is not None else self.round
        return f"{round_}" if self.stop is None else f"{round_}.{self.stop}"

    @property
    def verified_share(self) -> tuple[str, ...]:
        """How much of the trace has been re-executed by now; empty before that is known."""
        done, total = self.verifying or (0, 0)
        return (percent(done, total),) if total else ()

    @property
    def rounds(self) -> int:
        """Number of rounds of the trace as far as it is known."""
        return self.head.rounds if self.head else 0

    @property
    def whole(self) -> Window:
        """The rounds that are recorded: a slice, and what a flight recorder kept, begin behind round 1."""
        return Window(self.head.first_round, self.head.rounds) if self.head else NO_WINDOW


Build = Callable[[Scene, int, int], Document]
"""A pane's pure function: scene, width and height in cells to a document."""
