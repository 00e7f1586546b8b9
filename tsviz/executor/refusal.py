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
    """The rooms that failed, by kind of reason, with the first of each as an example."""

    counts: Counter[str] = field(default_factory=Counter)
    _first: dict[str, str] = field(default_factory=dict)

    def add(self, request_id: str, why: Why) -> None:
        """Count a room."""
        self.counts[why.kind] += 1
        self._first.setdefault(why.kind, f"{request_id}: {why.detail}" if why.detail else request_id)

    def told(self) -> list[str]:
        """Return a line a kind, the most frequent first: how many, why, which was the first."""
        return [f"{count:,} failed: {kind} (first {self._first[kind]})" for kind, count in self.counts.most_common()]
