"""Prompts of random lifetimes: a few shared documents, earlier texts continued, and fresh tails."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.conformance.profiles import Profile


class Prompts:
    """Draws prompts, budgets and generated tokens for one lifetime."""

    def __init__(self, rng: Random, profile: Profile, config: dict[str, Any], bound_tokens: int) -> None:
        self.rng = rng
        self.profile = profile
        self.page = int(config["prefix_granularity"])
        self.width = int(config["decode_input_tokens"])
        self.role = config["role"]
        # Without a full-history group the bound may be the whole int32 range.
        self.bounded = bound_tokens <= 40 * self.page + 20_000
        self.bound = bound_tokens if self.bounded else 40 * self.page
        length = max(1, min(self.bound, 60 * self.page))
        self.documents = [self.generated(length) for _ in range(rng.choice((1, 2, 3)))]

    def generated(self, count: int) -> list[int]:
        """``count`` fresh token ids; few distinct values, so that continuations may coincide."""
        base = self.rng.randint(0, 9)
        return (
            [base + (index * 7) % 5 for index in range(count)] if count > 64 else self.rng.choices(range(10), k=count)
        )

    def document(self) -> list[int]:
        """One of the shared documents."""
        return self.rng.choice(self.documents)

    def draw(self, texts: list[list[int]]) -> tuple[list[int], int]:
        """A prompt, which may continue one of ``texts``, and its max_new_tokens.

        Now and then it is beyond the bound, and must be refused.
        """
        rng = self.rng
        limit = self.bound + (self.page if self.bounded and rng.random() < 0.02 else 0)
        new = self._budget()
        room = max(1, limit - (0 if self.role == "P" else max(new, self.width)))
        length = max(1, self._length(room))
        source: list[int] = []
        if rng.random() < self.profile.share:
            source = self.rng.choice(texts) if texts and rng.random() < 0.3 else self.document()
        shared = self._cut(min(len(source), length))
        prompt = source[:shared] + self.generated(length - shared)
        return (prompt, new)

    def _budget(self) -> int:
        rng = self.rng
        if rng.random() < self.profile.undeclared:
            return 0
        if self.profile.long_budget and rng.random() < self.profile.long_budget:
            return min(rng.choice((4097, 5000, 6000, 8000, 9000, 12500)), max(1, self.bound - self.page))
        return rng.choice((1, 2, 4, 8, rng.randint(1, 4 * self.page), max(1, self.bound // 3)))

    def _length(self, room: int) -> int:
        rng = self.rng
        if self.profile.long_budget:
            return rng.randint(1, min(room, rng.choice((self.page, 2 * self.page, 5000))))
        drawn = rng.choice((rng.randint(1, 2 * self.page), rng.randint(1, max(1, room // 2)), rng.randint(1, room)))
        if rng.random() < 0.25:
            drawn -= drawn % self.page
        return min(room, drawn)

    def _cut(self, available: int) -> int:
        if available == 0 or self.rng.random() < 0.4:
            return available
        cut = self.rng.randint(0, available)
        return cut - cut % self.page if self.rng.random() < 0.5 else cut
