"""Lost time as it is looked at: of the fleet, of every class, of every request, each phase by cause (debugger.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from .blame import class_of
from .model import PHASES, TPOT, Lost, Run

FLEET, CLASS, REQUEST = "fleet", "class", "request"
VIEWS = (FLEET, CLASS, REQUEST)


@dataclass(frozen=True, slots=True)
class LostCause:
    """Time of one cause, and its longest run: of which request, from which round to which."""

    cause: str
    time_ns: int
    request: str
    submission: int
    run: Run


@dataclass(frozen=True, slots=True)
class LostPhase:
    """All time of one phase, split; most time first. `per` is what `time_ns` may be divided by."""

    phase: str
    span_ns: int
    spans: int
    tokens: int
    causes: tuple[LostCause, ...]

    @property
    def per(self) -> int:
        """Tokens of `tpot`, requests of the others."""
        return self.tokens if self.phase == TPOT else self.spans


@dataclass(frozen=True, slots=True)
class LostKey:
    """The time of the fleet, a class or a request."""

    view: str
    key: str
    phases: tuple[LostPhase, ...]

    @property
    def span_ns(self) -> int:
        """All its time."""
        return sum(phase.span_ns for phase in self.phases)

    @property
    def requests(self) -> int:
        """How many requests have a span in it."""
        return sum(phase.spans for phase in self.phases if phase.phase != TPOT)


class _Sum:
    def __init__(self) -> None:
        self.span_ns = self.spans = self.tokens = 0
        self.causes: dict[str, list[Any]] = {}

    def add(self, lost: Lost) -> None:
        self.span_ns += lost.span_ns
        self.spans += 1
        self.tokens += lost.tokens
        for cause, time_ns in lost.causes.items():
            run = lost.longest[cause]
            kept = self.causes.setdefault(cause, [0, run, lost])
            kept[0] += time_ns
            if run.time_ns > kept[1].time_ns:
                kept[1:] = [run, lost]

    def phase(self, name: str) -> LostPhase:
        causes = [
            LostCause(cause, time_ns, lost.request, lost.submission, run)
            for cause, (time_ns, run, lost) in self.causes.items()
        ]
        causes.sort(key=lambda c: (-c.time_ns, c.cause))
        return LostPhase(name, self.span_ns, self.spans, self.tokens, tuple(causes))


def lost_keys(lost: Iterable[Lost]) -> list[LostKey]:
    """Sum spans for the fleet, every class and every request; most time first within each."""
    sums: dict[tuple[str, str], dict[str, _Sum]] = {}
    for one in lost:
        for place in ((FLEET, "all requests"), (CLASS, class_of(one.request)), (REQUEST, one.request)):
            sums.setdefault(place, {}).setdefault(one.phase, _Sum()).add(one)
    keys = [
        LostKey(view, key, tuple(by_phase[name].phase(name) for name in PHASES if name in by_phase))
        for (view, key), by_phase in sums.items()
    ]
    return sorted(keys, key=lambda k: (VIEWS.index(k.view), -k.span_ns, k.key))


def key_from_json(data: dict[str, Any]) -> LostKey:
    """Read a `LostKey` from the plain values of `dataclasses.asdict`. Raises KeyError or TypeError on anything else."""
    return LostKey(data["view"], data["key"], tuple(map(_phase, data["phases"])))


def _phase(data: dict[str, Any]) -> LostPhase:
    causes = tuple(LostCause(**cause | {"run": Run(**cause["run"])}) for cause in data["causes"])
    return LostPhase(**data | {"causes": causes})


@dataclass(frozen=True, slots=True)
class HeldUp:
    """Time of one cause with one request in the way (`who`; empty: nobody), of how many requests it was in the way."""

    phase: str
    cause: str
    who: str
    time_ns: int
    span_ns: int
    """All time of the phase."""
    requests: int


def held_up(lost: Iterable[Lost]) -> list[HeldUp]:
    """Sum spans by phase, cause and who was in the way; most time first within a phase, whose rows add up to it."""
    sums: dict[tuple[str, str, str], list[int]] = {}
    spans: dict[str, int] = {}
    for one in lost:
        spans[one.phase] = spans.get(one.phase, 0) + one.span_ns
        nobody = dict(one.causes)
        for (cause, who), time_ns in one.behind.items():
            nobody[cause] -= time_ns
            _add(sums, (one.phase, cause, who), time_ns)
        for cause, time_ns in nobody.items():
            if time_ns:
                _add(sums, (one.phase, cause, ""), time_ns)
    found = [HeldUp(*place, time_ns, spans[place[0]], requests) for place, (time_ns, requests) in sums.items()]
    return sorted(found, key=lambda h: (PHASES.index(h.phase), -h.time_ns, h.cause, h.who))


def _add(sums: dict[tuple[str, str, str], list[int]], place: tuple[str, str, str], time_ns: int) -> None:
    total = sums.setdefault(place, [0, 0])
    total[0] += time_ns
    total[1] += 1
