"""The inside of a round: its phases, what each did with each request, and every stop with what was told there.

Frozen values that a pane draws and a test reads; `read.Stories` makes them from the decided tables
(debugger.md, section 1, *Round*). A stop has a number in its round: `1204.3` is stop 3 of round 1,204.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

PHASE, CANDIDATE, ATTEMPT, ITERATION, GRANT, IN_PLACE = (
    "phase", "candidate", "attempt", "iteration", "grant", "in_place",
)  # fmt: skip
"""Kinds of stops. `in_place` stands for decodes that touch no page: numbered, but nothing is told of them."""

ADMITTED, REFUSED, NOT_NOW, TOLD = "admitted", "refused", "not_now", "told"
"""What an entry or a stop ended with; `told` is neither (a phase began, a decode in place)."""
RETRACTED, STUCK = "retracted", "stuck"
"""What a turn of the retraction loop ended with: somebody gave way, or nobody could."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that was told at a stop: its kind (singular of its table), in words, with its numbers.

    `numbers` carry their units in their names (`_tokens`, `_pages`, `_blocks`). `marked` is the one that decided: the
    rule that bound a chunk, the victim that was taken, the group that is short.
    """

    kind: str
    words: str
    request: str = ""
    numbers: dict[str, int] = field(default_factory=dict)
    marked: bool = False
    facts: tuple[Fact, ...] = ()

    def walk(self) -> Iterator[Fact]:
        """Yield the fact and everything below it, depth first."""
        yield self
        for below in self.facts:
            yield from below.walk()


@dataclass(frozen=True, slots=True)
class Stop:
    """One stop, and what hangs on it. `last` is its own number, or that of the last decode of a run in place."""

    number: int
    kind: str
    request: str
    submission: int
    words: str
    outcome: str = TOLD
    facts: tuple[Fact, ...] = ()
    last: int = -1

    @property
    def end(self) -> int:
        """The last number that this stop stands for."""
        return max(self.number, self.last)

    def of(self, kind: str) -> Iterator[Fact]:
        """Yield the facts of a kind that hang on this stop, at any depth."""
        return (found for fact in self.facts for found in fact.walk() if found.kind == kind)


@dataclass(frozen=True, slots=True)
class Entry:
    """What a phase did with one request (its candidate and attempts), or one turn of the retraction loop."""

    request: str
    submission: int
    outcome: str
    words: str
    stops: tuple[Stop, ...]


@dataclass(frozen=True, slots=True)
class PhaseStory:
    """One phase: the stop at which it begins with what was left then, and its entries in order."""

    name: str
    stop: Stop
    budget_tokens: int
    holdback_tokens: int
    batch_rows: int
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RoundStory:
    """One round from the inside: what was told before its first phase, its phases, and what came behind the plan.

    Equal to itself only, so that what is drawn of it can be kept.
    """

    round: int
    source: str
    """`recorded`, or `derived` by re-execution and verified."""
    opening: tuple[Fact, ...]
    phases: tuple[PhaseStory, ...]
    behind: tuple[Fact, ...]

    def stops(self) -> Iterator[Stop]:
        """Yield every stop in order."""
        for phase in self.phases:
            yield phase.stop
            for entry in phase.entries:
                yield from entry.stops

    def at(self, number: int) -> Stop | None:
        """Return the stop that a number stands for; None for a number that this round does not reach."""
        return next((stop for stop in self.stops() if stop.number <= number <= stop.end), None)

    def step(self, number: int | None, step: int) -> int | None:
        """Return the stop behind (`step` 1) or before (-1) `number`; None beyond the ends of the round.

        Without a number the round is entered from its beginning (1) or its end (-1).
        """
        stops = list(self.stops())
        if number is None:
            return (stops[0] if step > 0 else stops[-1]).number if stops else None
        if step > 0:
            return next((stop.number for stop in stops if stop.number > number), None)
        here = self.at(number)
        first = here.number if here is not None else number
        return next((stop.number for stop in reversed(stops) if stop.number < first), None)

    def of(self, submission: int) -> list[tuple[PhaseStory, Entry]]:
        """Return what the phases did with a request, in order."""
        return [(phase, each) for phase in self.phases for each in phase.entries if each.submission == submission]


@dataclass(frozen=True, slots=True)
class NotKnown:
    """Why there is no story of a round: the kind, a sentence, and the command that helps (empty if none does)."""

    kind: str
    """`not_recorded`, `unverified` (behind the verified frontier), `diverged`, `no_round` or `preparing` (not yet)."""
    words: str
    command: str = ""
