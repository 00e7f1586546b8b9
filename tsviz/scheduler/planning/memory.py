"""Refusals remembered: a blocked newcomer costs a few comparisons a round, not a probe and an admission."""

from __future__ import annotations

from typing import NamedTuple

from tsviz.scheduler.cache.hashing import Digest


class Remembered(NamedTuple):
    """What was true when a first chunk without any hit was refused; while it holds, the refusal repeats.

    The chunk is the same while the budget stays in its range; the need is the same while the first prefix
    page is cached in neither tier; the need exceeds the supply while fewer than `blocks` LCM blocks are
    available.
    """

    low_budget: int
    high_budget: int
    blocks: int
    """LCM blocks that the groups of packing 1 need alone."""
    first_digest: Digest
    group: int
    """Full-history group that is matched first; -1 when nothing is looked up."""
    device: dict[Digest, int]
    host: dict[Digest, int]

    def holds(self, budget: int, available_blocks: int) -> bool:
        """Whether the refusal repeats."""
        return (
            available_blocks < self.blocks
            and self.low_budget <= budget <= self.high_budget
            and self.first_digest not in self.device
            and self.first_digest not in self.host
        )
