"""What a view may offer beyond `RecordedView`. The screen asks with `isinstance` and does without, saying so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from tsviz.replay.recorded.snapshot import DeviceSide, Outstanding, Record
from tsviz.replay.stops.story import NotKnown, RoundStory
from tsviz.replay.why.tree import Answer

if TYPE_CHECKING:
    from tsviz.replay.moments import AtRound, NoMoment


@runtime_checkable
class PoolHistory(Protocol):
    """A view that can tell the pool over time."""

    def pool_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most occupied pages in each of at most `buckets` equal pieces of the rounds, both included.

        -1 stands for a piece of which no round is recorded.
        """
        ...


@runtime_checkable
class PoolSplit(Protocol):
    """A view that can tell how much of the pool live tables held, over time."""

    def active_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most pages that live tables held in each of at most `buckets` equal pieces of the rounds.

        -1 stands for a piece of which decisions do not tell; empty where they tell of none.
        """
        ...


class LaneLike(Protocol):
    """One request that is there in a window of rounds; `last_round` is None for one that was there at the end."""

    @property
    def submission(self) -> int:
        """Its number in order of submission."""
        ...

    @property
    def request(self) -> str:
        """Its id."""
        ...

    @property
    def first_round(self) -> int:
        """The round of its submission."""
        ...

    @property
    def last_round(self) -> int | None:
        """The last round in which it was there."""
        ...


@runtime_checkable
class TimelineView(Protocol):
    """A view that can draw a window of rounds (`tsviz.replay.recorded.timeline.Timeline`, without its arrays)."""

    def lanes(self, first_round: int, last_round: int) -> Sequence[LaneLike]:
        """Return the requests that are there in some round of a window, in order of submission."""
        ...

    def timeline(
        self, first_round: int, last_round: int, columns: int, submissions: Sequence[int]
    ) -> tuple[bytes, ...]:
        """Return a lane a submission, a byte a column: the place of its state in ("", *STATES)."""
        ...

    def marks(self, first_round: int, last_round: int, columns: int) -> Mapping[str, tuple[int, ...]]:
        """Return, per mark, in how many rounds of each column it stands; a mark that is missing is not known."""
        ...

    @property
    def decided_to(self) -> int:
        """The last round up to which the marks of decisions are known."""
        ...


@runtime_checkable
class StoryTeller(Protocol):
    """A view that can tell a round from the inside."""

    def story(self, round_: int) -> RoundStory | NotKnown:
        """Return the phases, candidates and stops of a round, or why they are not known."""
        ...


@runtime_checkable
class Witness(Protocol):
    """A view that can be asked beyond its snapshots: what the views of the inspector show."""

    def why(self, submission: int, round_: int) -> Answer | NotKnown:
        """Return why a submission has no row in a round (or that it has one), or why that is not known."""
        ...

    def outstanding(self, round_: int) -> tuple[Outstanding, ...]:
        """Return the operations between the tiers that are out behind the plan of a round, oldest first."""
        ...

    def device(self, round_: int, around: int) -> DeviceSide:
        """Return what a device did for a round, and the forwards of `around` rounds before and behind it."""
        ...

    def records(self, round_: int, submission: int | None) -> tuple[Record, ...]:
        """Return the recorded rows of a round: its own, and those of a submission in it."""
        ...


@runtime_checkable
class Clocked(Protocol):
    """A view that knows which round was under way at a moment."""

    def round_at(self, time_ns: int, *, wall: bool) -> AtRound | NoMoment:
        """Return the round of a moment: ns since 1970 (`wall`), or since the part's clock began."""
        ...


@runtime_checkable
class RequestFinder(Protocol):
    """A view that can find a request that is not in the current round."""

    def find_request(self, request: str) -> int | None:
        """Return the latest submission with this request id, or None where the trace has none."""
        ...
