"""What bounds a single request, and what a pool must hold (seed 1.4, `scheduler-rules.md` 11)."""

from __future__ import annotations

from collections.abc import Sequence

from tsviz.scheduler.config import INT32_MAX, Config, GroupConfig, Role, validate_capacity_inputs


class CapacityModel:
    """Pages a request and a full engine need, from the configuration alone."""

    def __init__(self, config: Config) -> None:
        """Validate the part of the config that needs no pool. Raises ValueError."""
        validate_capacity_inputs(config)
        self._config = config
        self._protected = 0 if config.role is Role.P else config.overlap_schedule_depth * config.decode_input_tokens

    @property
    def num_groups(self) -> int:
        """Number of cache groups."""
        return len(self._config.cache_groups)

    def single_request_group_pages(self, token_limit: int) -> list[int]:
        """Worst-case pages per group of one request of `token_limit` tokens. Raises RuntimeError below 0."""
        if token_limit < 0:
            raise RuntimeError("single-request token limit must be non-negative")
        return [self._single(group, token_limit) for group in self._config.cache_groups]

    def concurrent_group_pages(self, max_total_tokens: int, max_context_len: int) -> list[int]:
        """Pages per group for a full batch holding `max_total_tokens` in all. Raises ValueError below 0."""
        if max_total_tokens < 0:
            raise ValueError("CapacityModel: max_total_tokens must be >= 0")
        if max_context_len < 0:
            raise ValueError("CapacityModel: max_context_len must be >= 0")
        return [self._concurrent(g, max_total_tokens, max_context_len) for g in self._config.cache_groups]

    def lcm_blocks_needed_for(self, group_pages: Sequence[int]) -> int:
        """LCM blocks that hold these pages. Raises RuntimeError on a wrong length or a negative count."""
        if len(group_pages) != self.num_groups:
            raise RuntimeError("page demand requires one entry per cache group")
        total = 0
        for pages, group in zip(group_pages, self._config.cache_groups, strict=True):
            if pages < 0:
                raise RuntimeError("group page demand must be non-negative")
            total += -(-pages // group.cache_blocks_per_lcm_block)
        return total

    def max_single_request_tokens(self, usable_lcm_blocks: int) -> int:
        """Largest request (tokens) whose worst case fits in `usable_lcm_blocks`; 0 when none does."""
        low, high = 0, INT32_MAX
        while low < high:
            mid = low + (high - low + 1) // 2
            if self.lcm_blocks_needed_for(self.single_request_group_pages(mid)) <= usable_lcm_blocks:
                low = mid
            else:
                high = mid - 1
        return low

    def _single(self, group: GroupConfig, limit: int) -> int:
        config = self._config
        g, width, protected = group.block_granularity, config.decode_input_tokens, self._protected
        if not group.is_state and not group.is_sliding:
            return -(-(limit + protected) // g)
        if group.is_state:
            peak = self._state_peak(g, limit)
            if config.role is Role.D:
                return max(2 if limit else 0, peak)
            return peak
        window = group.sliding_window_tokens or 0
        lookback = -(-(window - 1) // g)
        if config.role is Role.D:
            return min(-(-(limit + protected) // g), lookback + -(-(window - 1 + width + protected + g - 1) // g))
        prompt, budget = max(limit - width, 0), config.max_scheduled_tokens
        peak = -(-(min(prompt, budget) + width + protected) // g)
        if prompt > budget:
            peak = max(
                peak,
                lookback + -(-budget // g),
                lookback + -(-(min(prompt - budget, budget) + width + protected) // g),
            )
        return peak

    def _state_peak(self, g: int, limit: int) -> int:
        if limit == 0:
            return 0
        config = self._config
        page, budget = config.prefix_granularity, config.max_scheduled_tokens
        prompt = max(limit - config.decode_input_tokens, 0)
        reserve = 0 if config.role is Role.P else max(g, config.decode_input_tokens + self._protected)

        def outputs(past: int) -> int:
            tail = max(0, min(page - 1, budget - page, prompt - past))
            return 1 + -(-(tail + reserve) // g)

        peak = (0 if config.disable_prefix_cache else 1) + outputs(page)
        if prompt > budget:
            peak = max(peak, 1 + outputs(2 * page))
        return peak

    def _concurrent(self, group: GroupConfig, total: int, context: int) -> int:
        config = self._config
        g, protected, batch = group.block_granularity, self._protected, config.max_batch_size
        if group.is_state:
            return batch * self._single(group, context)
        dense = -(-total // g) + batch * -(-(g - 1 + protected) // g)
        if not group.is_sliding:
            return dense
        window = group.sliding_window_tokens or 0
        lookback = -(-(window - 1) // g)
        resident = -(-(min(window - 1, context) + config.decode_input_tokens + protected + g - 1) // g)
        if config.role is Role.D:
            return min(dense, batch * (lookback + resident))
        return batch * resident + lookback + -(-min(config.max_scheduled_tokens, total) // g)
