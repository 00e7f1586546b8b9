"""What goes wrong on purpose: declared, seeded, and the same in every run."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


def seeded_unit(seed: int, *parts: object) -> float:
    """Return a number in [0, 1) that depends on nothing but the seed and the parts."""
    text = ":".join(map(str, (seed, *parts)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


@dataclass(frozen=True, slots=True)
class AckFaults:
    """What happens to acknowledgements of page copies, by explicit op id or by a seeded rate.

    A lost one never comes; a failed load is acknowledged with success false; a delayed one comes that much later
    than `DeviceCost.ack_delay_ns` says. Stores cannot fail: by the rules a failed backup retries or ends the engine.
    """

    seed: int = 0
    lost_rate: float = 0.0
    lost_ops: frozenset[int] = frozenset()
    failed_load_rate: float = 0.0
    failed_load_ops: frozenset[int] = frozenset()
    delayed_ops: Mapping[int, int] = field(default_factory=dict)

    def is_lost(self, op_id: int) -> bool:
        """Return whether this op is never acknowledged."""
        return op_id in self.lost_ops or (self.lost_rate > 0 and seeded_unit(self.seed, "lost", op_id) < self.lost_rate)

    def load_fails(self, op_id: int) -> bool:
        """Return whether this load-back is acknowledged as failed."""
        return op_id in self.failed_load_ops or (
            self.failed_load_rate > 0 and seeded_unit(self.seed, "load", op_id) < self.failed_load_rate
        )


@dataclass(frozen=True, slots=True)
class ClientAbort:
    """A client that gives up `after_ns` after its request arrived."""

    request_id: str
    after_ns: int


class ClientAborts:
    """The aborts of a run, each waiting for its request to arrive and then for its time."""

    def __init__(self, aborts: Iterable[ClientAbort]) -> None:
        self._waiting = {abort.request_id: abort.after_ns for abort in aborts}
        self._heap: list[tuple[int, str]] = []

    def arrived(self, request_id: str, arrival_ns: int) -> None:
        """Start the time of a request that arrived."""
        if (after_ns := self._waiting.pop(request_id, None)) is not None:
            heapq.heappush(self._heap, (arrival_ns + after_ns, request_id))

    def next_ns(self) -> int | None:
        """Return the time of the next abort of a request that has arrived."""
        return self._heap[0][0] if self._heap else None

    def take(self, now_ns: int) -> list[str]:
        """Remove and return who gives up by `now_ns`."""
        taken = []
        while self._heap and self._heap[0][0] <= now_ns:
            taken.append(heapq.heappop(self._heap)[1])
        return taken
