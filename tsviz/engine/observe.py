"""What a recorder is told that the calls to the scheduler do not carry. Costs nothing when nobody listens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol


class Arrival(NamedTuple):
    """When a request arrived, and why then: at a time of its own, or `think_ns` after the request `after` ended."""

    arrival_ns: int
    after: str | None
    think_ns: int


class RunObserver(Protocol):
    """Told by the loop, on the loop's thread: keep it to an append."""

    def arrivals(self, arrivals: Mapping[str, Arrival]) -> None:
        """Hear the arrivals of the requests that the very next `submit_requests` submits, by request id."""

    def forward(self, start_ns: int, end_ns: int) -> None:
        """Hear when the device runs the batch of the last plan; called right after `execute`, on virtual time only."""
