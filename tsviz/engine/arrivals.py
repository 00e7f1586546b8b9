"""Who arrives when: by the clock, or some time after another request has ended."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Protocol

from tsviz.engine.observe import Arrival
from tsviz.engine.workloads.model import WorkRequest


class Follower(Protocol):
    """Who is told of the ends of requests."""

    def leader_ended(self, request_id: str, now_ns: int) -> None:
        """A request has ended where requests end."""


class Arrivals:
    """The requests of a workload that have not arrived yet, in order of arrival (ties in workload order)."""

    def __init__(self, requests: Iterable[WorkRequest], *, follows_only: bool = False) -> None:
        """Sort the requests; with `follows_only` the ends of requests count only where the leader reports them.

        Raises:
            ValueError: a request has neither or both of `arrival_ns` and `after`, or comes after an unknown one.
        """
        self._heap: list[tuple[int, int, WorkRequest]] = []
        self._after: dict[str, list[WorkRequest]] = {}
        self._sequence = 0
        self._followers: list[Follower] = []
        self._follows_only = follows_only
        known = set()
        for request in requests:
            known.add(request.request_id)
            if (request.arrival_ns is None) == (request.after is None):
                raise ValueError(f"request {request.request_id!r}: expected exactly one of arrival_ns and after")
            if request.after is None:
                self._push(request.arrival_ns or 0, request)
            else:
                self._after.setdefault(request.after, []).append(request)
        if unknown := sorted(self._after.keys() - known):
            first = self._after[unknown[0]][0]
            raise ValueError(f"request {first.request_id!r}: comes after {unknown[0]!r}, which is not in the workload")

    def __len__(self) -> int:
        return len(self._heap) + sum(map(len, self._after.values()))

    def follow(self, leader: Arrivals) -> None:
        """Take the ends of requests from `leader` as well: the other node of a pair, where requests end."""
        leader.tell(self)

    def tell(self, follower: Follower) -> None:
        """Tell somebody of every end of a request from now on."""
        self._followers.append(follower)

    @property
    def waits_for_leader(self) -> bool:
        """Whether somebody is to come whom only the leader lets come."""
        return self._follows_only and bool(self._after)

    def next_ns(self) -> int | None:
        """Return the time of the next arrival that is certain, or None."""
        return self._heap[0][0] if self._heap else None

    def take(self, now_ns: int) -> Sequence[tuple[WorkRequest, Arrival]]:
        """Remove and return who has arrived by `now_ns`."""
        heap = self._heap
        taken = []
        while heap and heap[0][0] <= now_ns:
            at_ns, _, request = heapq.heappop(heap)
            taken.append((request, Arrival(at_ns, request.after, request.think_ns)))
        return taken

    def ended(self, request_id: str, now_ns: int) -> None:
        """Let those arrive, each after its think time, who waited for this request to end."""
        if not self._follows_only:
            self.leader_ended(request_id, now_ns)

    def leader_ended(self, request_id: str, now_ns: int) -> None:
        """Let those arrive who waited for this request, and tell the followers."""
        for request in self._after.pop(request_id, ()):
            self._push(now_ns + request.think_ns, request)
        for follower in self._followers:
            follower.leader_ended(request_id, now_ns)

    def hurry(self, now_ns: int) -> None:
        """Let everybody arrive now: who serves them is gone, and nobody else says when they would."""
        waiting = [request for requests in self._after.values() for request in requests]
        self._after.clear()
        self._heap = [(min(at_ns, now_ns), sequence, request) for at_ns, sequence, request in self._heap]
        heapq.heapify(self._heap)
        for request in waiting:
            self._push(now_ns, request)

    def _push(self, at_ns: int, request: WorkRequest) -> None:
        heapq.heappush(self._heap, (at_ns, self._sequence, request))
        self._sequence += 1
