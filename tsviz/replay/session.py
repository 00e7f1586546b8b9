"""A session: one cursor in one part of a trace, and what is known there (architecture.md, sections 4 and 6).

Recorded state comes from the tables at once. Live state comes from a worker process that re-executes, and only for
rounds that it verified; nothing here waits longer than it is told to. Use a session from one thread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, cast

from tsviz.replay.live.ask import Live, Nothing, Proven
from tsviz.replay.live.run import Place
from tsviz.replay.live.state import LiveState
from tsviz.replay.live.told import ToldRound
from tsviz.replay.recorded.snapshot import RecordedView, Snapshot
from tsviz.replay.stops.read import Stories
from tsviz.replay.stops.story import NotKnown, RoundStory, Stop
from tsviz.replay.why.tree import Answer
from tsviz.trace.reader import Bundle, Part

from .hits import Hits, Near, Unknown, Wanted
from .view import open_view

WAIT_SECONDS = 1.0
"""How long a question waits for the worker unless it says otherwise."""
Search = Callable[[str, Wanted, Near], Hits]


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a part: a stop of a round; stop 0 is right before its plan, no stop is behind it."""

    round: int
    stop: int | None = None

    def __str__(self) -> str:
        """Return it as it is written behind `TRACE@`."""
        return str(self.round) if self.stop is None else f"{self.round}.{self.stop}"


@dataclass(frozen=True, slots=True)
class NoHit:
    """There is no position with a predicate in that direction; `unknown` names parts of which that cannot be said."""

    words: str
    unknown: tuple[Unknown, ...] = ()


class _Explained(RecordedView, Protocol):
    """A view of a part that also tells rounds from the inside."""

    def story(self, round_: int) -> RoundStory | NotKnown: ...

    def why(self, submission: int, round_: int) -> Answer | NotKnown: ...


class Session:
    """One cursor in one part: seek, step, what is recorded and live there, why, and run until something happens."""

    def __init__(self, bundle: Bundle, part: Part, search: Search, *, live: Live | None = None) -> None:
        """`search` answers `run_until`; `live` replaces the worker (tests). Raises `TraceError`."""
        self.part = part
        self._view = cast(_Explained, open_view(bundle, part.node, part.rank))
        self._search = search
        self._first: int = part.meta.get("starts_at", 1)
        self._last = max(self._first, part.last_round)
        self._live = live or Live(bundle.path, part.node, part.rank, self._first, part.last_round)
        self._position = Position(self._first)
        self._stories: dict[int, RoundStory] = {}

    # Where it is

    @property
    def position(self) -> Position:
        """Where the cursor is."""
        return self._position

    @property
    def view(self) -> RecordedView:
        """The recorded state, at any round."""
        return self._view

    def seek(self, round_: int, stop: int | None = None) -> Position:
        """Go to a round (inside the trace) and a stop of it, and have the live state there made. Does not wait."""
        number = min(max(round_, self._first), self._last)
        self._position = Position(number, None if stop is None else max(0, stop))
        self._live.ask(self._place)
        return self._position

    def step(self, count: int = 1, *, by: str = "round", wait_seconds: float = WAIT_SECONDS) -> Position | Nothing:
        """Go `count` rounds or stops forward, back if negative, stopping at the ends of the trace.

        By stop the end of a round, behind its plan, is a place of its own. Where the stops of a round are not known
        the cursor stays, and why is said. Raises ValueError unless `by` is `round` or `stop`.
        """
        if by == "round":
            return self.seek(self._position.round + count)
        if by != "stop":
            raise ValueError(f"expected by='round' or by='stop', found {by!r}")
        for _ in range(abs(count)):
            found = self._next_stop(1 if count > 0 else -1, wait_seconds)
            if isinstance(found, Nothing):
                return found
            self.seek(found.round, found.stop)
        return self._position

    def _next_stop(self, step: int, seconds: float) -> Position | Nothing:
        here = self._position
        if step > 0 and here.stop is None:
            if here.round == self._last:
                return here
            return self._enter(here.round + 1, step, seconds)
        story = self.story(wait_seconds=seconds)
        if isinstance(story, Nothing):
            return story
        number = story.step(here.stop, step)
        if number is not None:
            return Position(here.round, number)
        return Position(here.round) if step > 0 else Position(max(self._first, here.round - 1))

    def _enter(self, round_: int, step: int, seconds: float) -> Position | Nothing:
        story = self.story(round_, wait_seconds=seconds)
        if isinstance(story, Nothing):
            return story
        return Position(round_, story.step(None, step))

    def run_until(self, predicate: str, direction: int = 1) -> Position | NoHit:
        """Go to the next (`direction` 1) or previous (-1) position at which an SQL predicate holds (docs/sql.md).

        The list of hits is computed, not stepped to. Without a hit the cursor stays. Raises `QueryError`.
        """
        here = self._position
        near = Near(self.part.node, self.part.rank, here.round, here.stop)
        found = self._search(predicate, Wanted.NEXT if direction > 0 else Wanted.PREVIOUS, near)
        rows = found.positions.slice(0, 1).to_pylist()
        if not rows:
            where = "behind" if direction > 0 else "in front of"
            return NoHit(f"no hit {where} {here}", found.unknown)
        return self.seek(rows[0]["round"], rows[0]["stop"])

    # What is known there

    def snapshot(self, request: str | None = None) -> Snapshot:
        """Return the recorded state behind the plan of this round, with the block tables of a request that lives there.

        Raises `TraceError`.
        """
        found = self._view.snapshot(self._position.round)
        mine = next((line.submission for line in found.requests if line.request == request), None)
        return found if mine is None else self._view.snapshot(self._position.round, mine)

    def state(self, wait_seconds: float = WAIT_SECONDS) -> LiveState | Nothing:
        """Return the live state at this position, or why it is not there (yet)."""
        return self._live.state(self._place, wait_seconds)

    def story(self, round_: int | None = None, *, wait_seconds: float = WAIT_SECONDS) -> RoundStory | Nothing:
        """Return a round (this one) from the inside, from recorded or indexed decisions or else by re-execution."""
        number = self._position.round if round_ is None else round_
        if number in self._stories:
            return self._stories[number]
        found = self._view.story(number)
        if isinstance(found, NotKnown):
            rows = self._live.told(number, wait_seconds)
            if isinstance(rows, Nothing):
                return rows
            decodes = [row.request for row in self._view.snapshot(number).rows if row.kind == "decode"]
            found = Stories(ToldRound(rows), "derived", self.part.config).story(number, decodes)
        if len(self._stories) > 64:
            self._stories.clear()
        self._stories[number] = found
        return found

    def stops(self, round_: int | None = None, *, wait_seconds: float = WAIT_SECONDS) -> tuple[Stop, ...] | Nothing:
        """Return the stops of a round (this one), in order: number, kind, request, outcome, words and facts."""
        story = self.story(round_, wait_seconds=wait_seconds)
        return story if isinstance(story, Nothing) else tuple(story.stops())

    def why(self, request: str) -> Answer | NotKnown:
        """Answer why a request has no row in this round; or say why that is not known (`tsviz index` helps).

        Raises `TraceError`.
        """
        known = self._view.snapshot(self._position.round).requests
        mine = next((line.submission for line in known if line.request == request), None)
        if mine is None:
            return NotKnown("no_request", f"no request {request!r} lives in round {self._position.round:,}.")
        return self._view.why(mine, self._position.round)

    # Proof

    @property
    def proven(self) -> Proven:
        """How far the recording is verified by now; asking starts verification in the background."""
        return self._live.proven

    def wait_verified(self, round_: int | None = None, wait_seconds: float = WAIT_SECONDS) -> Proven:
        """Wait until a round (the last one) is verified or never will be, for so long at most."""
        return self._live.wait_verified(self._last if round_ is None else round_, wait_seconds)

    @property
    def _place(self) -> Place:
        return (self._position.round, self._position.stop)

    def close(self) -> None:
        """Stop the worker."""
        self._live.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
