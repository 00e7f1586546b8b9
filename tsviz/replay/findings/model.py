"""A check of a trace, and how it ends: found, not found or not checkable (debugger.md, section 1, *Findings*)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tsviz.replay.scenario.predicates import Absent, Finding
from tsviz.replay.why.facts import Facts
from tsviz.trace.reader import Bundle, Part

RECORDED, DECIDED, BUNDLE = "recorded tables", "decisions", "all ranks"
DEVICE, CHECKSUMS = "a real device", "page checksums"
BROKEN, STUCK, COSTLY = "broken", "stuck", "costly"
SEVERITIES = (BROKEN, STUCK, COSTLY)
"""How bad a finding is: a rule was broken, somebody waits for ever, or time is lost."""
_BROKEN = frozenset(("rank_divergence",))
_STUCK = frozenset(("livelock", "stall", "never_fits", "leak", "acknowledgement_missing"))


@dataclass(frozen=True, slots=True)
class NotCheckable:
    """The trace lacks what the check reads; that is never "ok"."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Subject:
    """One part to be checked; `facts` is None where its decisions are not known."""

    bundle: Bundle
    part: Part
    facts: Facts | None


@dataclass(frozen=True, slots=True)
class NotApplicable:
    """There is nothing of what the check is about, so that there is nothing to be found."""

    name: str
    reason: str


Ended = Finding | Absent | NotCheckable | NotApplicable


def starts_at(part: Part) -> int | None:
    """Return the first round of a slice; None for a trace from its first round."""
    return part.meta.get("starts_at") if hasattr(part, "meta") else None


def not_on_a_slice(name: str, lacks: str) -> NotCheckable:
    """Return how a check ends that asks for what came before a slice."""
    return NotCheckable(name, f"not checkable on a slice: {lacks}")


@dataclass(frozen=True, slots=True)
class Check:
    """A named check: what it looks for, its threshold, and what reads the part."""

    name: str
    says: str
    threshold: int
    counts: str
    needs: str
    scan: Callable[[Subject, int], Ended]
    breach: bool = False
    """Whether the finding breaks an invariant (exit code 6)."""
    more_on_a_slice: bool = False
    """Whether decisions, where they are known, decide of a slice what recorded tables leave open."""

    def found_from(self, threshold: int) -> str:
        """Return in words what is more than a threshold."""
        return f"a finding from {threshold + 1:,} {self.counts}" if threshold else "the first is a finding"

    @property
    def severity(self) -> str:
        """One of `SEVERITIES`."""
        if self.breach or self.name in _BROKEN:
            return BROKEN
        return STUCK if self.name in _STUCK else COSTLY


@dataclass(frozen=True, slots=True)
class Position:
    """Where to look: `node/rank:round`."""

    node: str
    rank: int
    round: int

    def __str__(self) -> str:
        return f"{self.node}/{self.rank}:{self.round}"


@dataclass(frozen=True, slots=True)
class Checked:
    """One check of one part."""

    check: Check
    node: str
    rank: int
    ended: Ended

    @property
    def outcome(self) -> str:
        """found, not_found, not_applicable or not_checkable."""
        if isinstance(self.ended, Finding):
            return "found"
        if isinstance(self.ended, Absent):
            return "not_found"
        return "not_applicable" if isinstance(self.ended, NotApplicable) else "not_checkable"

    @property
    def sentence(self) -> str:
        """What was found, how near it came, what is missing, or why it does not apply."""
        if isinstance(self.ended, Finding):
            return self.ended.sentence
        if isinstance(self.ended, Absent):
            near = f"{self.ended.most:,} at most" if self.ended.most else "none"
            return f"{near}; {self.check.found_from(self.ended.needed)}"
        return self.ended.reason

    @property
    def positions(self) -> tuple[Position, ...]:
        """First and last round of a finding."""
        if not isinstance(self.ended, Finding):
            return ()
        rounds = dict.fromkeys((self.ended.first_round, self.ended.last_round))
        return tuple(Position(self.node, self.rank, round_) for round_ in rounds)


_NAME_CHARACTERS = 200
"""Names are of whoever submitted: what is longer is cut in a sentence."""


def listed(names: list[str] | tuple[str, ...], most: int = 8) -> str:
    """Return names in quotes, the first ones of many."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    shown = (name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}…" for name in names[:most])
    return ", ".join(map(repr, shown)) + more


def found(name: str, sentence: str, rounds: tuple[int, int], requests: list[str], /, **numbers: int) -> Finding:
    """Return a finding whose evidence is complete."""
    return Finding(name, sentence, rounds[0], rounds[1], tuple(requests), rounds[1], dict(numbers))
