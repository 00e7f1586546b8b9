"""The same requests in two runs: matched by id and occurrence, in order of submission (debugger.md, section 1)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .run import RequestFigures


@dataclass(frozen=True, slots=True)
class RequestDelta:
    """One request on both sides; a side that never submitted it is None. Changes are right minus left."""

    request: str
    left: RequestFigures | None
    right: RequestFigures | None

    def change(self, name: str) -> float | None:
        """Return how a number of `RequestFigures` changed; None where a side has none."""
        if self.left is None or self.right is None:
            return None
        before, after = getattr(self.left, name), getattr(self.right, name)
        return None if before is None or after is None else after - before


@dataclass(frozen=True, slots=True)
class Alignment:
    """All requests of two runs. `same_order`: how many have the same submission number on both sides."""

    deltas: tuple[RequestDelta, ...]
    both: int
    same_order: int
    only_left: int
    only_right: int


def align(left: Sequence[RequestFigures], right: Sequence[RequestFigures]) -> Alignment:
    """Match requests by id; an id that was used again matches by occurrence."""
    there = dict(_keyed(right))
    deltas = []
    both = same = 0
    for key, before in _keyed(left):
        after = there.pop(key, None)
        deltas.append(RequestDelta(before.request, before, after))
        if after is not None:
            both += 1
            same += before.submission == after.submission
    only_left, only_right = len(deltas) - both, len(there)
    deltas += [RequestDelta(after.request, None, after) for after in there.values()]
    return Alignment(tuple(deltas), both, same, only_left, only_right)


def _keyed(requests: Sequence[RequestFigures]) -> list[tuple[tuple[str, int], RequestFigures]]:
    seen: Counter[str] = Counter()
    keyed = []
    for request in requests:
        keyed.append(((request.request, seen[request.request]), request))
        seen[request.request] += 1
    return keyed


@dataclass(frozen=True, slots=True)
class Errors:
    """How far one time of the requests lies apart: over those that have it on both sides, absolute, in ns."""

    requests: int
    only_one_side: int
    p50_ns: float
    p95_ns: float
    max_ns: float


def errors(alignment: Alignment, name: str) -> Errors:
    """Return how far `name` (a time of `RequestFigures`) lies apart between the two runs."""
    apart, single = [], 0
    for delta in alignment.deltas:
        change = delta.change(name)
        if change is not None:
            apart.append(abs(change))
        else:
            sides = [side for side in (delta.left, delta.right) if side is not None and getattr(side, name) is not None]
            single += len(sides) == 1
    if not apart:
        return Errors(0, single, 0.0, 0.0, 0.0)
    p50, p95, top = (float(v) for v in np.quantile(np.array(apart, np.float64), (0.5, 0.95, 1.0)))
    return Errors(len(apart), single, p50, p95, top)
