"""What a view may offer beyond `RecordedView`. The screen asks with `isinstance` and does without, saying so."""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class PoolHistory(Protocol):
    """A view that can tell the pool over time."""

    def pool_history(self, first_round: int, last_round: int, buckets: int) -> tuple[int, ...]:
        """Return the most occupied pages in each of at most `buckets` equal pieces of the rounds, both included."""
        ...


@runtime_checkable
class RequestFinder(Protocol):
    """A view that can find a request that is not in the current round."""

    def find_request(self, request: str) -> int | None:
        """Return the latest submission with this request id, or None where the trace has none."""
        ...
