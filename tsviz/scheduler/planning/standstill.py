"""A whole queue of newcomers whose remembered refusals all repeat: seen as one, not request by request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.request import Request


class Standstill(NamedTuple):
    """What `Remembered` says of every request of a queue, taken together: while it holds, nobody passes.

    Remembered refusals change only with an attempt to admit, so the number of attempts says that they are the same.
    """

    attempts: int
    queue: Sequence[Request]
    blocks: int
    low_budget: int
    high_budget: int
    digests: tuple[Digest, ...]
    device: dict[Digest, int]
    host: dict[Digest, int]

    def holds(self, attempts: int, queue: Sequence[Request], budget: int, available_blocks: int) -> bool:
        """Whether the refusal of every request of the queue repeats."""
        return (
            attempts == self.attempts
            and available_blocks < self.blocks
            and self.low_budget <= budget <= self.high_budget
            and queue == self.queue
            and self.device.keys().isdisjoint(self.digests)
            and (not self.host or self.host.keys().isdisjoint(self.digests))
        )


def standstill(attempts: int, queue: Sequence[Request]) -> Standstill | None:
    """The refusals of a queue as one; None if a request has none, or they look at different groups."""
    memos = [request.memo for request in queue]
    known = [memo for memo in memos if memo is not None]
    looking = [memo for memo in known if memo.group >= 0]
    if len(known) < len(memos) or not looking:
        return None
    first = looking[0]
    if any(memo.group != first.group for memo in looking):
        return None
    return Standstill(
        attempts,
        list(queue),
        min(memo.blocks for memo in known),
        max(memo.low_budget for memo in known),
        min(memo.high_budget for memo in known),
        tuple(memo.first_digest for memo in looking),
        first.device,
        first.host,
    )
