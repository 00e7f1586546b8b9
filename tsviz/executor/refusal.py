"""Why a room of a P/D link fails: told to the other node, and counted for whoever reads how a run ended."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

MOST_CHARACTERS = 200
"""Of either part of a reason; a peer may send any."""


class Why(NamedTuple):
    """A reason: of a kind, which is counted, and with what is this room's own."""

    kind: str
    detail: str = ""

    @staticmethod
    def heard(kind: str, detail: str) -> Why:
        """Return what the peer told as its reason."""
        return Why(f"on the other node: {kind[:MOST_CHARACTERS]}", detail[:MOST_CHARACTERS])


class RoomFails(Exception):
    """One room cannot go on: its transfer fails, and nothing else does."""

    def __init__(self, kind: str, detail: str = "") -> None:
        super().__init__(f"{kind}: {detail}" if detail else kind)
        self.why = Why(kind, detail)


@dataclass(slots=True)
class Failures:
    """Why each request failed that did, in the order in which the scheduler was told."""

    whys: dict[str, Why] = field(default_factory=dict)

    @property
    def counts(self) -> Counter[str]:
        """How many failed of each kind of reason."""
        return Counter(why.kind for why in self.whys.values())

    def told(self) -> list[str]:
        """Return a line a kind, the most frequent first: how many, why, which was the first."""
        return [f"{count:,} failed: {kind} (first {self._first(kind)})" for kind, count in self.counts.most_common()]

    def _first(self, kind: str) -> str:
        request_id, why = next(item for item in self.whys.items() if item[1].kind == kind)
        return f"{request_id}: {why.detail}" if why.detail else request_id
