"""A minimal closed loop on the public scheduler API: pasted into scripts together with `watch`."""

from __future__ import annotations

from collections import deque
from typing import Any

from .watch import Watch


class Driver(Watch):
    """Submits requests in their rounds, plans, lands what the rows say and acknowledges copies in the next round."""

    def __init__(self, api: Any, settings: dict[str, Any], requests: list[dict[str, Any]], lost: list[int]) -> None:
        """`lost`: copies that are never acknowledged."""
        super().__init__(api, settings)
        self.depth = settings.get("overlap_schedule_depth", 0)
        self.drains = settings.get("enable_kv_cache_events", False)
        self.waiting = sorted(requests, key=lambda request: request["round"])
        self.lost = set(lost)
        self.live: dict[str, dict[str, Any]] = {}
        self.said: dict[str, int] = {}
        self.flying: deque[list[tuple[str, dict[str, Any], bool]]] = deque()
        self.copying: list[tuple[str, int]] = []

    def step(self) -> dict[str, Any]:
        """Run one round and return what happened in it."""
        arrived = [r for r in self.waiting if r["round"] <= self.round + 1]
        if arrived:
            self.waiting = self.waiting[len(arrived) :]
            self.submit(arrived)
            for request in arrived:
                self.live[request["id"]], self.said[request["id"]] = request, 0
        self.advance([self.acknowledged(copy, op) for copy, op in self.copying if op not in self.lost])
        seen = self.decide([r["id"] for r in arrived])
        rows = seen["rows"]
        self.copying = self.copies()
        if rows:
            flight = [(row[0], self.live[row[0]], row[1] == "decode" or row[2] + row[3] >= row[4]) for row in rows]
            self.flying.append(flight)
        while len(self.flying) > (self.depth if rows else 0):
            seen["ended"] += self.land(self.flying.popleft())
        leaving = [name for name, request in self.live.items() if request.get("abort_round", 0) == self.round]
        for name in leaving:
            del self.live[name]
        self.advance([self.forward_event("Abort", name) for name in leaving])
        seen["ended"] += leaving
        for name in seen["ended"]:
            self.gone(name)
        if self.drains:
            self.scheduler.drain_kv_events()
        return seen

    def land(self, flight: list[tuple[str, dict[str, Any], bool]]) -> list[str]:
        """Land the results of one forward; return who has said all it had to say."""
        events, ended = [], []
        for name, request, speaks in flight:
            if self.live.get(name) is not request:
                continue
            result = self.forward_event("ExtendResult", name)
            if speaks:
                result.tokens = [self.token(request)]
                self.said[name] += 1
            events.append(result)
            if self.said[name] >= sum(count for _, count in request["output"]):
                events.append(self.forward_event("Finish", name))
                del self.live[name]
                ended.append(name)
        self.advance(events)
        return ended

    def token(self, request: dict[str, Any]) -> int:
        """Return the next token that a request says."""
        left = self.said[request["id"]]
        for token, count in request["output"]:
            if left < count:
                return int(token)
            left -= count
        return 0
