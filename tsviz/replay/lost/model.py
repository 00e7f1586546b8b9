"""A split span: which spans there are, which causes, and what a request lost to each (debugger.md, section 1)."""

from __future__ import annotations

from dataclasses import dataclass, field

TTFT, TPOT, AFTER, OPEN, CUT_OFF = (
    "ttft", "tpot", "after_last_token", "no_first_token", "ended_without_token"
)  # fmt: skip
"""Spans: arrival to first token; first landing to last; last landing to the end of the trace, or to the call that ended
a request which did not finish; when no token landed, arrival to that end or call (`abort`, mostly)."""
PHASES = (TTFT, TPOT, AFTER, OPEN, CUT_OFF)

AT_ENGINE = "not_submitted"
"""From arrival to the submit call."""
BEFORE_PLAN = "before_first_plan"
"""From the submit call to the first plan that could take the request."""
BEFORE_SLICE = "before_slice"
"""In a slice, from arrival to its first plan, of a request that was submitted before it: that is not known."""
AGAIN = "scheduled_again"
"""A row that computed nothing but positions which had been computed before, after a retraction."""
UNKNOWN = "unknown"
"""Behind the last round whose decisions are known, or after the request ended in a plan's eyes."""

OWN_CAUSES = {
    AT_ENGINE: "from arrival to the submit call",
    BEFORE_PLAN: "from the submit call to the first plan behind it",
    BEFORE_SLICE: "not known before the slice",
    AGAIN: "scheduled, but all positions of its row had been computed before a retraction",
    UNKNOWN: "no decision is known for the round",
}
"""Causes of this module beside `decisions.CAUSES`."""


@dataclass(frozen=True, slots=True)
class Run:
    """Time in which one cause held without a break: its first round, its last, and how long."""

    first_round: int
    last_round: int
    time_ns: int
    behind: str = ""
    """Who was in the way when it began; empty: nobody."""


@dataclass(slots=True)
class Held:
    """Time that one request was in another's way, and its longest run."""

    time_ns: int
    longest: Run


@dataclass(frozen=True, slots=True)
class Lost:
    """One span of a request, split: `causes` maps a cause to nanoseconds and sums to `end_ns - begin_ns`."""

    request: str
    submission: int
    phase: str
    begin_ns: int
    end_ns: int
    tokens: int
    """Tokens that the span brought: the first one for `ttft`, those behind the first landing for `tpot`."""
    causes: dict[str, int]
    longest: dict[str, Run] = field(default_factory=dict)
    """The longest run of each cause: where to look."""
    behind: dict[tuple[str, str], Held] = field(default_factory=dict)
    """The part of a cause with somebody in the way, by (cause, who)."""

    @property
    def span_ns(self) -> int:
        """Length of the span."""
        return self.end_ns - self.begin_ns
