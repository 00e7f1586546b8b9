"""Shrinking a scenario while a predicate holds (debugger.md, section 5): delta debugging on closed-loop re-runs.

A step is a smaller scenario that is run anew and judged. Steps are tried in a fixed order and depend on nothing but the
outcomes, so the result is the same every time unless the time runs out. What was accepted stays: whoever stops the
search has the smallest scenario so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from tsviz.replay.scenario.predicates import Absent, Finding, Outcome, Predicate, Tables
from tsviz.replay.scenario.run import MemoryPart
from tsviz.replay.scenario.scenario import Scenario

Runner = Callable[[Scenario, Callable[[], bool]], MemoryPart]
"""Runs a scenario to its end or until the function says so. Raises ValueError for a config that is refused."""


class DoesNotHold(Exception):
    """The predicate does not hold to begin with, on the recording or on its re-run; `outcome` says how near it was."""

    def __init__(self, where: str, outcome: Absent) -> None:
        super().__init__(f"the predicate does not hold on {where}: {outcome}")
        self.outcome = outcome


class Stopped(Exception):
    """Time is up or the user has had enough; the best so far stands."""


@dataclass(frozen=True, slots=True)
class Step:
    """A scenario that was run: what was tried, whether the predicate held, the size behind it, how many runs so far."""

    what: str
    held: bool
    scenario: Scenario
    runs: int


@dataclass(frozen=True, slots=True)
class Minimized:
    """The smallest scenario found, what it shows, how many runs it took and whether the search came to its end."""

    scenario: Scenario
    finding: Finding
    runs: int
    accepted: int
    finished: bool


_SLACK_ROUNDS = 64


class Search:
    """The state of a search. Passes read `best` and call `attempt`."""

    def __init__(
        self, run: Runner, predicate: Predicate, *, stop: Callable[[], bool], progress: Callable[[Step], None]
    ) -> None:
        self._run, self._predicate, self._stop, self._progress = run, predicate, stop, progress
        self._seen: set[str] = set()
        self.runs = self.accepted = 0
        self.best: Scenario | None = None
        self.finding: Finding | None = None

    def attempt(self, candidate: Scenario, what: str) -> bool:
        """Run a candidate; it becomes the best if the predicate holds. Raises Stopped."""
        key = repr(candidate)
        if key in self._seen:
            return False
        self._seen.add(key)
        outcome = self.judge(candidate)
        held = isinstance(outcome, Finding)
        if isinstance(outcome, Finding):
            self.accepted += 1
            self.finding = outcome
            # A smaller run may need longer to get there, but hardly twice as long.
            limit = min(candidate.max_rounds, 2 * outcome.shown_by + _SLACK_ROUNDS)
            self.best = replace(candidate, max_rounds=limit)
        self._progress(Step(what, held, self.best or candidate, self.runs))
        return held

    def judge(self, candidate: Scenario) -> Outcome:
        """Run a candidate and judge it. Raises Stopped."""
        if self._stop():
            raise Stopped
        self.runs += 1
        try:
            part = self._run(candidate, self._stop)
        except ValueError:
            return Absent("config", 0, 0)
        if self._stop():
            raise Stopped
        return self._predicate.check(part)

    def current(self) -> Scenario:
        """Return the best so far; there is one once a candidate was accepted."""
        assert self.best is not None
        return self.best


Pass = Callable[[Search], None]


def minimize(
    recorded: Tables,
    scenario: Scenario,
    predicate: Predicate,
    run: Runner,
    passes: Sequence[Pass],
    *,
    starts: Callable[[Tables, Scenario, Finding], Iterable[tuple[Scenario, str]]],
    stop: Callable[[], bool],
    progress: Callable[[Step], None],
) -> Minimized:
    """Shrink `scenario`, read from `recorded`, while `predicate` holds.

    `starts` proposes what to begin with, cheapest first; the whole scenario is the last resort. Raises `DoesNotHold`,
    `Stopped` if nothing held before the time was up, QueryError from an SQL predicate.
    """
    shown = predicate.check(recorded)
    if isinstance(shown, Absent):
        raise DoesNotHold("the recording", shown)
    search = Search(run, predicate, stop=stop, progress=progress)
    finished = False
    try:
        if not any(search.attempt(start, what) for start, what in starts(recorded, scenario, shown)):
            outcome = search.judge(scenario)
            if isinstance(outcome, Absent):
                raise DoesNotHold("the re-run of the trace", outcome)
            search.best, search.finding = scenario, outcome
        _to_the_end(search, passes)
        finished = True
    except Stopped:
        if search.best is None:
            raise
    best, finding = search.current(), search.finding
    assert finding is not None
    return Minimized(best, finding, search.runs, search.accepted, finished)


def _to_the_end(search: Search, passes: Sequence[Pass]) -> None:
    """Repeat the passes until none of them changes anything, then end the run where the predicate holds first."""
    before = -1
    while before != search.accepted:
        before = search.accepted
        for one in passes:
            one(search)
    if search.finding is not None:
        search.attempt(replace(search.current(), max_rounds=search.finding.shown_by), "no round more")


def smallest(search: Search, now: int, least: int, make: Callable[[int], Scenario], what: str) -> None:
    """Lower one number of the scenario from `now` towards `least`: the least at once, else by halving the interval."""
    if now <= least or search.attempt(make(least), f"{what} {least:,}"):
        return
    low, high = least, now
    while high - low > 1:
        middle = (low + high) // 2
        if search.attempt(make(middle), f"{what} {middle:,}"):
            high = middle
        else:
            low = middle
