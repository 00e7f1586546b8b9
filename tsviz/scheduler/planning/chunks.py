"""How a chunk is cut (seed 1 and 1.3, `scheduler-rules.md` 6)."""

from __future__ import annotations

from typing import Final

from tsviz.scheduler.config import Config
from tsviz.scheduler.decisions import Chunk

BUDGET: Final = "budget"
REPLAY: Final = "replay"
WHOLE: Final = "whole_prompt"
ALIGNMENT: Final = "alignment"
PROMOTION: Final = "promotion"
FINAL_WINDOW: Final = "final_window"


class ChunkCutter:
    """Cuts chunks for one configuration."""

    __slots__ = ("aligns", "page_tokens", "window_tokens")

    def __init__(self, config: Config) -> None:
        """Take alignment and replay window from the config."""
        self.page_tokens = config.prefix_granularity
        self.window_tokens = config.replay_window_tokens
        self.aligns = config.has_state_group

    @property
    def min_prefill_tokens(self) -> int:
        """Budget that the decode batch leaves to a pending local prefill (seed 3.3)."""
        page, window = self.page_tokens, self.window_tokens
        return max(page if self.aligns else 0, window + max(window, page) if window else 0)

    def cut(self, request_id: str, first: int, replay: int, unscheduled: int, budget: int, promotion: int) -> Chunk:
        """The chunk from `first` on, `replay` tokens being fed again. 0 tokens is "not now"."""
        left = budget - replay
        if left <= 0:
            rule = REPLAY if replay else BUDGET
            return Chunk(request_id, 0, rule, budget, replay, unscheduled, promotion)
        plain = min(left, unscheduled)
        tokens, rule = plain, WHOLE if plain == unscheduled else BUDGET
        if self.aligns or promotion > 0:
            tokens, bound = self._align(first, unscheduled, left, promotion)
            rule = bound or rule
        if tokens:
            kept = self._keep_final_window(tokens, unscheduled)
            if not kept and tokens != plain:
                tokens = plain
                kept = self._keep_final_window(plain, unscheduled)
            if kept != tokens:
                rule = FINAL_WINDOW
            tokens = kept
        return Chunk(request_id, tokens, rule, budget, replay, unscheduled, promotion)

    def _align(self, first: int, unscheduled: int, budget: int, promotion: int) -> tuple[int, str]:
        page = self.page_tokens
        tokens, rule = min(unscheduled, budget), ""
        if promotion > first and promotion - first < tokens:
            tokens, rule = promotion - first, PROMOTION
        if tokens == unscheduled:
            return tokens, rule
        past = first % page
        if past:
            return (page - past if budget >= page - past else 0), ALIGNMENT
        if tokens % page:
            return tokens - tokens % page, ALIGNMENT
        return tokens, rule

    def _keep_final_window(self, tokens: int, unscheduled: int) -> int:
        rest, window = unscheduled - tokens, self.window_tokens
        if not window or not rest or rest >= window:
            return tokens
        return max(0, unscheduled - window)
