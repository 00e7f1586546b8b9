"""A whole queue of newcomers whose remembered refusals all repeat: seen as one, not request by request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.request import Request


class Standstill(NamedTuple):
    """What `Remembered` says of every request of a queue, taken together: while it holds, nobody passes.

    Remembered refusals change only with an attempt to admit, so the number of attempts says that they are the same, and
    that no slot was taken. Two conditions are wider than they need be, which costs nothing but another look: a larger
    budget cuts a longer chunk, which needs no fewer pages; and a page that went to the host was on the device before.
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


def standstill(attempts: int, queue: Sequence[Request]) -> Standstill:
    """The refusals of a queue as one. Every request of it was refused, and its refusal is remembered.

    Prompts that look anything up look into the same group first: the roles that take up queues probe one way.
    """
    memos = [request.memo for request in queue if request.memo is not None]
    assert len(memos) == len(queue)
    looking = [memo for memo in memos if memo.group >= 0]
    first = looking[0] if looking else memos[0]
    return Standstill(
        attempts,
        list(queue),
        min(memo.blocks for memo in memos),
        max(memo.low_budget for memo in memos),
        min(memo.high_budget for memo in memos),
        tuple(memo.first_digest for memo in looking),
        first.device,
        first.host,
    )
