"""Lost time: where the time to first token and the time between tokens went, by cause (debugger.md, section 1).

A request's span is cut where a plan begins: what became of the request in a round holds from that plan to the next.
Every nanosecond of the span gets exactly one cause, so the causes of a span add up to it. Times are those of the part's
clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from tsviz.replay.why.facts import Facts

from .model import PHASES, TPOT, Lost
from .times import Times


@dataclass(frozen=True, slots=True)
class Share:
    """Time of one cause, summed over the spans of one phase of one key (a request, a class, or all)."""

    key: str
    phase: str
    cause: str
    time_ns: int
    span_ns: int
    """All time of that phase and key."""
    spans: int
    tokens: int

    @property
    def share(self) -> float:
        """Part of the span."""
        return self.time_ns / self.span_ns if self.span_ns else 0.0

    @property
    def mean_ns(self) -> float:
        """Time a request for a first token, time a token for `tpot`."""
        by = self.tokens if self.phase == TPOT else self.spans
        return self.time_ns / by if by else 0.0


def blame(facts: Facts, submissions: Sequence[int] | None = None) -> list[Lost]:
    """Return the split spans of accepted requests, in order of submission; all of them, or those named.

    Of a slice those are left out of which the arrival or the
    first token is not known (`left_out`).
    """
    times = Times(facts)
    chosen = range(facts.life.count) if submissions is None else submissions
    return [lost for submission in chosen if facts.life.accepted[submission] for lost in times.spans(submission)]


def left_out(facts: Facts, submissions: Sequence[int] | None = None) -> int:
    """Return how many accepted requests have no span because arrival or first token lie before the slice, unknown."""
    times = Times(facts)
    chosen = range(facts.life.count) if submissions is None else submissions
    return sum(times.untimed(submission) for submission in chosen if facts.life.accepted[submission])


@lru_cache(maxsize=1 << 16)
def class_of(request: str) -> str:
    """Return the class of a request: its id without the digits at its end and what joins them (`chat-2`: `chat`)."""
    return re.sub(r"[-_.:/#]*\d+$", "", request) or request


def shares(lost: Iterable[Lost], by: str) -> list[Share]:
    """Sum spans `by` request, class or cause (the whole fleet); most time first within phase and key."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    totals: dict[tuple[str, str], list[int]] = {}
    for one in lost:
        key = {"request": one.request, "class": class_of(one.request), "cause": "all"}[by]
        place = (key, one.phase)
        total = totals.setdefault(place, [0, 0, 0])
        total[0] += one.span_ns
        total[1] += 1
        total[2] += one.tokens
        into = sums.setdefault(place, {})
        for cause, time_ns in one.causes.items():
            into[cause] = into.get(cause, 0) + time_ns
    found = [
        Share(key, phase, cause, time_ns, *totals[key, phase])
        for (key, phase), causes in sums.items()
        for cause, time_ns in sorted(causes.items(), key=lambda item: (-item[1], item[0]))
    ]
    return sorted(found, key=lambda s: PHASES.index(s.phase)) if by == "cause" else found
