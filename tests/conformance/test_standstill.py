"""A queue that stands still as a whole: the twin stops looking at its requests, and its plans stay the real ones."""

from __future__ import annotations

import random
from typing import Any

import pytest

_PAGE_TOKENS, _RUNNING, _WAITING = 4, 6, 12


def _scheduler(module: Any, pages: int, budget_tokens: int, *, mixed: bool) -> Any:
    config = module.SchedulerConfig()
    config.prefix_granularity = _PAGE_TOKENS
    config.max_scheduled_tokens, config.max_batch_size = budget_tokens, 32
    config.num_device_pages, config.enable_mixed_prefill_decode = pages, mixed
    config.cache_groups = [module.CacheGroupConfig("full", _PAGE_TOKENS, pages, module.CacheRetention.FullHistory)]
    return module.Scheduler(config)


def _submit(module: Any, scheduler: Any, name: str, tokens: list[int], budget: int) -> None:
    spec = module.RequestSpec()
    spec.request_id, spec.tokens, spec.max_new_tokens = name, tokens, budget
    scheduler.submit_requests([spec])


def _plan(scheduler: Any) -> tuple[Any, ...]:
    batch = scheduler.next_execution_plan().forward[0]
    return (
        batch.request_ids, batch.input_lengths, batch.extend_prefix_lens, batch.prefill_lengths, batch.block_tables,
        scheduler.waiting_size(), scheduler.empty_lcm_blocks(),
    )  # fmt: skip


def _land(module: Any, scheduler: Any, plan: tuple[Any, ...], gone: str | None) -> None:
    event = module.ExecutionEvent()
    ids, lengths, prefixes, sizes = plan[:4]
    for row, name in enumerate(ids):
        result = module.ForwardEvent.ExtendResult()
        result.request_id = name
        if row >= len(prefixes) or prefixes[row] + lengths[row] == sizes[row]:
            result.tokens = [1]
        event.add_event(result)
    if gone is not None:
        abort = module.ForwardEvent.Abort()
        abort.request_id = gone
        event.add_event(abort)
    scheduler.advance(event)


def _life(real: Any, twin: Any, seed: int) -> int:
    """Compare one lifetime; return how many rounds found the queue standing still."""
    draw = random.Random(seed)
    modules = (real, twin)
    pages = draw.randint(60, 90)
    pair = [_scheduler(module, pages, 64, mixed=seed % 2 == 0) for module in modules]
    live: list[str] = []
    still = number = 0
    for round_ in range(120):
        while len(live) < _RUNNING + _WAITING and (round_ % 10 == 0 or draw.random() < 0.1):
            name, number = f"r{number}", number + 1
            tokens = [draw.randrange(3) for _ in range(draw.choice((8, 30, 41)))]
            budget = draw.choice((0, 20, 90))
            for module, scheduler in zip(modules, pair, strict=True):
                _submit(module, scheduler, name, tokens, budget)
            live.append(name)
        kept = pair[1].core.grammar.still
        plans = [_plan(scheduler) for scheduler in pair]
        assert plans[0] == plans[1], f"seed {seed}, round {round_}"
        still += kept is not None and pair[1].core.grammar.still is kept
        gone = live.pop(draw.randrange(len(live))) if live and draw.random() < 0.08 else None
        for module, scheduler, plan in zip(modules, pair, plans, strict=True):
            _land(module, scheduler, plan, gone)
    return still


@pytest.mark.oracle
def test_a_queue_that_stands_still_plans_like_the_real_one(real: Any, twin: Any) -> None:
    """Prompts that come, go and are blocked for rounds on end give the real package's plans, page for page."""
    assert sum(_life(real, twin, seed) for seed in range(12)) >= 100
