"""What a view may offer beyond `RecordedView`. The screen asks with `isinstance` and does without, saying so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class PoolHistory(Protocol):
    """A view that can tell the pool over time."""

    def occupied_pages(self, first: int, last: int) -> Sequence[int]:
        """Return the occupied pages behind each round from `first` to `last`, both included."""
        ...


@runtime_checkable
class RequestFinder(Protocol):
    """A view that can find a request that is not in the current round."""

    def find_request(self, request: str) -> int | None:
        """Return the latest submission with this request id, or None where the trace has none."""
        ...
