"""Lost time as it is looked at: of the fleet, of every class, of every request, each phase by cause (debugger.md)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .blame import class_of
from .model import PHASES, TPOT, Held, Lost, Run

FLEET, CLASS, REQUEST, HOLDER = "fleet", "class", "request", "holder"
VIEWS = (FLEET, CLASS, REQUEST, HOLDER)
"""A holder's time is that of the others which it was in the way of."""


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
    """The time of the fleet, a class or a request, or that a holder was in the way."""

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

    def add(self, lost: Lost, runs: Mapping[str, Held], span_ns: int) -> None:
        self.span_ns += span_ns
        self.spans += 1
        self.tokens += lost.tokens
        for cause, held in runs.items():
            kept = self.causes.setdefault(cause, [0, held.longest, lost])
            kept[0] += held.time_ns
            if held.longest.time_ns > kept[1].time_ns:
                kept[1:] = [held.longest, lost]

    def phase(self, name: str) -> LostPhase:
        causes = [
            LostCause(cause, time_ns, lost.request, lost.submission, run)
            for cause, (time_ns, run, lost) in self.causes.items()
        ]
        causes.sort(key=lambda c: (-c.time_ns, c.cause))
        return LostPhase(name, self.span_ns, self.spans, self.tokens, tuple(causes))


def lost_keys(lost: Iterable[Lost]) -> list[LostKey]:
    """Sum spans for the fleet, every class, request and holder; most time first within each."""
    sums: dict[tuple[str, str], dict[str, _Sum]] = {}
    for one in lost:
        causes = {cause: Held(time_ns, one.longest[cause]) for cause, time_ns in one.causes.items()}
        for place in ((FLEET, "all requests"), (CLASS, class_of(one.request)), (REQUEST, one.request)):
            sums.setdefault(place, {}).setdefault(one.phase, _Sum()).add(one, causes, one.span_ns)
        by_who: dict[str, dict[str, Held]] = {}
        for (cause, who), held in one.behind.items():
            by_who.setdefault(who, {})[cause] = held
        for who, held_up in by_who.items():
            span_ns = sum(held.time_ns for held in held_up.values())
            sums.setdefault((HOLDER, who), {}).setdefault(one.phase, _Sum()).add(one, held_up, span_ns)
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
