"""Following a recording from the screen: a thread looks and opens, the screen says when it wants to see more.

While the screen is paused only commits are counted; catching up opens everything that is committed then. An opened view
costs what the trace is long, so a look waits at least twice as long as the last opening took.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from textual.message import Message

from tsviz.replay.follow_values import FINISHED, KILLED, UNKNOWN, Look
from tsviz.replay.recorded.snapshot import RecordedView
from tsviz.tui.lines import Span
from tsviz.tui.numbers import counted, grouped
from tsviz.tui.view import StoryTeller, TimelineView

LOOK_S = 0.5
_QUIET_S = 5.0
_WORDS_FROM_CELLS = 100


class Follower(Protocol):
    """Says how far a recording is, and opens it (`tsviz.replay.follow.Follower`)."""

    def look(self) -> Look:
        """Return how far it is."""
        ...

    def view(self) -> RecordedView:
        """Return what is committed now."""
        ...


@dataclass(frozen=True, slots=True)
class Follow:
    """What the screen knows of the recording: the last look, whether new rounds are shown as they come, what failed."""

    look: Look | None = None
    running: bool = False
    catching_up: bool = False
    error: str = ""
    waiting: str = ""
    """What is waited for where nothing is recorded yet."""


class Looked(Message):
    """The thread has looked, or could not."""

    def __init__(self, look: Look | None, error: str) -> None:
        super().__init__()
        self.look, self.error = look, error


class Newer(Message):
    """The thread has opened what is committed."""

    def __init__(self, view: RecordedView, look: Look) -> None:
        super().__init__()
        self.view, self.look = view, look


class FollowLoop:
    """Looks until the recording has ended and its end is shown, or until it is closed."""

    def __init__(self, follower: Follower, tell: Callable[[Message], object], shown: int) -> None:
        """`shown` is the last round of the view that the screen has already."""
        self._follower, self._tell, self._shown = follower, tell, shown
        self._running = self._closed = False
        self._changed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="tsviz-follow", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def close(self) -> None:
        """End after what it is doing. Does not wait."""
        self._closed = True
        self._changed.set()

    def run(self, running: bool) -> None:
        """Open new rounds as they come, or only count them."""
        self._running = running
        self._changed.set()

    def _run(self) -> None:
        pause_s, look = LOOK_S, None
        while not self._closed:
            self._changed.clear()
            try:
                look = self._follower.look()
                self._say(Looked(look, ""))
                ended = look.state == FINISHED
                if ended or (self._running and look.rounds > self._shown):
                    began = time.monotonic()
                    view = self._follower.view()
                    _warm(view)
                    pause_s = max(LOOK_S, 2 * (time.monotonic() - began))
                    self._shown = view.head.rounds
                    self._say(Newer(view, look))
                if ended or (look.state == KILLED and look.rounds <= self._shown):
                    return
            except Exception as error:  # whatever a trace raises is shown, and the screen lives on
                self._say(Looked(look, f"{type(error).__name__}: {error}"))
            self._changed.wait(pause_s)

    def _say(self, message: Message) -> None:
        if not self._closed:
            self._tell(message)


def _warm(view: RecordedView) -> None:
    """Read what a view makes once, here, so that the older one goes on to answer keys meanwhile."""
    last = view.head.rounds
    view.snapshot(last)
    if isinstance(view, TimelineView) and last:
        view.marks(1, last, 1)
        view.timeline(1, last, 1, [lane.submission for lane in view.lanes(last, last)[:1]])
    if isinstance(view, StoryTeller):
        view.story(last)


def follow_spans(follow: Follow, rounds: int, width: int) -> list[Span]:
    """Return what the header says of the recording; `rounds` are those that the screen has."""
    look = follow.look
    if follow.error:
        return [Span("✗ cannot be followed", "bad")]
    if look is None:
        return [Span("◍ live", "warn")]
    behind = max(look.rounds - rounds, 0)
    wide = width >= _WORDS_FROM_CELLS
    if look.state == FINISHED:
        return [Span("■ finished", "dim"), *_behind(behind, wide)]
    if look.state == KILLED:
        return [Span("✗ recorder killed" if wide else "✗ killed", "bad"), *_behind(behind, wide)]
    spans = [Span("◍ live", "warn")]
    if follow.running:
        spans.append(Span(" ▶ following" if wide else " ▶", "good"))
    else:
        spans.append(Span(" ‖ paused" if wide else " ‖", "accent"))
    if behind:
        return [*spans, *_behind(behind, wide)]
    quiet = look.age_s > _QUIET_S
    lag = f" no commit for {look.age_s:.0f} s" if quiet and wide else f" lag {look.age_s:.1f} s"
    if quiet and look.recorder == UNKNOWN and wide:
        lag += " (process not known)"
    return [*spans, Span(lag, "warn" if quiet else "dim")]


def _behind(rounds: int, wide: bool) -> list[Span]:
    if not rounds:
        return []
    return [Span(f" {counted(rounds, 'round')} behind" if wide else f" +{grouped(rounds)}", "position")]


def ended_words(look: Look) -> tuple[str, str]:
    """Return the sentence that says how a recording ended, and its role."""
    if look.state == KILLED:
        words = f"The recorder was killed: {counted(look.rounds, 'round')} up to its last commit are whole."
        return words, "bad"
    reason = f" ({look.reason})" if look.reason else ""
    return f"The recording was closed{reason}: {counted(look.rounds, 'round')} in all.", "message"
