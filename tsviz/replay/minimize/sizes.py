"""Passes over numbers: features that can go, everything at a smaller scale, then every length and size by itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

from tsviz.engine.configs import SchedulerOptions
from tsviz.engine.faults import AckFaults
from tsviz.engine.workloads.model import Span, WorkRequest
from tsviz.replay.scenario.scenario import Scenario, cut

from .shrink import Search, smallest

_SIMPLER = (
    ("no host tier", {"num_host_pages": 0}),
    ("no KV events", {"kv_events": False}),
    ("no results in flight", {"overlap_schedule_depth": 0}),
    ("one token a decode step", {"decode_input_tokens": 1}),
    ("no replay window", {"prefix_replay_tokens": 0}),
    ("prefill and decode apart", {"mixed": False}),
    ("no prefix cache", {"prefix_cache": False}),
)
_SIMPLE_ROUND_NS = 1_000_000


def simpler_config(search: Search) -> None:
    """Switch features off, one after the other, and let the device be simple."""
    for what, changes in _SIMPLER:
        best = search.current()
        if any(getattr(best.scheduler, name) != value for name, value in changes.items()):
            search.attempt(best.with_config(**changes), what)
    best = search.current()
    if best.device.acks != AckFaults():
        search.attempt(replace(best, device=replace(best.device, acks=AckFaults())), "no acknowledgement goes astray")
    if best.aborts:
        search.attempt(replace(best, aborts=()), "no client gives up")
    flat = {"round_ns": _SIMPLE_ROUND_NS, "empty_round_ns": _SIMPLE_ROUND_NS, "token_ns": 0, "ack_delay_ns": 0}
    best = search.current()
    if any(getattr(best.device.cost, name) != value for name, value in flat.items()):
        search.attempt(best.with_cost(**flat), "every round takes a millisecond")


def smaller_scale(search: Search) -> None:
    """Divide pages, budget and lengths together, by as much as possible; then tokens a page with all lengths."""
    for shrink, what in ((fewer_pages, "everything"), (smaller_pages, "tokens a page and all lengths")):
        for divisor in (64, 32, 16, 8, 4, 3, 2):
            while True:
                smaller = shrink(search.current(), divisor)
                if smaller is None or not search.attempt(smaller, f"{what} by {divisor}"):
                    break


def fewer_pages(scenario: Scenario, divisor: int) -> Scenario | None:
    """Divide pools, budget and lengths; None if no page would be left."""
    config = scenario.scheduler
    pages = (config.num_device_pages - 1) // divisor
    if pages < 1:
        return None
    host = config.num_host_pages and (config.num_host_pages - 1) // divisor + 1
    smaller = scenario.with_config(
        num_device_pages=pages + 1, num_host_pages=host,
        max_scheduled_tokens=max(1, config.max_scheduled_tokens // divisor),
    )  # fmt: skip
    return _shorter(smaller, divisor)


def smaller_pages(scenario: Scenario, divisor: int) -> Scenario | None:
    """Divide the tokens a page, budget and lengths; None if a page does not divide."""
    config = scenario.scheduler
    sizes = [config.prefix_granularity, *(g.block_granularity for g in config.groups)]
    if any(size % divisor for size in sizes):
        return None
    groups = tuple(
        replace(
            g, block_granularity=g.block_granularity // divisor,
            window_tokens=None if g.window_tokens is None else max(1, g.window_tokens // divisor),
        )
        for g in config.groups
    )  # fmt: skip
    smaller = scenario.with_config(
        groups=groups, prefix_granularity=config.prefix_granularity // divisor,
        max_scheduled_tokens=max(1, config.max_scheduled_tokens // divisor),
        prefix_replay_tokens=config.prefix_replay_tokens // divisor,
    )  # fmt: skip
    return _shorter(smaller, divisor)


def _shorter(scenario: Scenario, divisor: int) -> Scenario:
    return replace(scenario, requests=tuple(_divided(r, divisor) for r in scenario.requests))


def _divided(request: WorkRequest, divisor: int) -> WorkRequest:
    def spans(values: tuple[Span, ...]) -> tuple[Span, ...]:
        return tuple(Span(s.source, s.start // divisor, max(1, s.length // divisor)) for s in values)

    budget = request.max_new_tokens and max(1, request.max_new_tokens // divisor)
    return replace(request, prompt=spans(request.prompt), output=spans(request.output), max_new_tokens=budget)


def shorter_outputs(search: Search) -> None:
    """Shorten what each request says, and its budget with it."""
    for index, request in enumerate(search.current().requests):
        smallest(
            search, search.current().requests[index].output_tokens, 1,
            lambda n, i=index: _with_output(search.current(), i, n),  # type: ignore[misc]
            f"{request.request_id} says tokens",
        )  # fmt: skip


def _with_output(scenario: Scenario, index: int, tokens: int) -> Scenario:
    request = scenario.requests[index]
    budget = min(request.max_new_tokens, tokens) if request.max_new_tokens else 0
    return scenario.with_request(index, output=cut(request.output, tokens), max_new_tokens=budget)


def shorter_prompts(search: Search) -> None:
    """Shorten each prompt, by whole pages first, then by tokens."""
    page = search.current().scheduler.prefix_granularity
    for index, request in enumerate(search.current().requests):
        for unit, what in ((page, "pages"), (1, "tokens")):
            smallest(
                search, -(-search.current().requests[index].prompt_tokens // unit), 1,
                lambda n, i=index, unit=unit: _with_prompt(search.current(), i, n * unit),  # type: ignore[misc]
                f"{request.request_id} prompt {what}",
            )  # fmt: skip


def _with_prompt(scenario: Scenario, index: int, tokens: int) -> Scenario:
    return scenario.with_request(index, prompt=cut(scenario.requests[index].prompt, tokens))


def smaller_sizes(search: Search) -> None:
    """Lower pool, host tier, batch and budget, each by itself."""
    for name, least, what in (
        ("num_device_pages", 2, "device pages"),
        ("num_host_pages", 0, "host pages"),
        ("max_batch_size", 1, "batch"),
        ("max_scheduled_tokens", 1, "budget"),
    ):
        smallest(
            search, getattr(search.current().scheduler, name), least,
            lambda n, name=name: search.current().with_config(**{name: n}),  # type: ignore[misc]
            what,
        )  # fmt: skip


_JOINT_REQUESTS = 5


def smaller_together(search: Search) -> None:
    """Lower the pool together with some of the prompts: a finding often hangs on what is left between them."""
    best = search.current()
    page = best.scheduler.prefix_granularity
    if len(best.requests) > _JOINT_REQUESTS:
        return
    for chosen in _subsets(len(best.requests)):
        room = min(search.current().requests[i].prompt_tokens for i in chosen) // page
        most = min(search.current().scheduler.num_device_pages - 2, max(0, room - 1))
        for pages in _steps(most):
            if search.attempt(_lower(search.current(), chosen, pages), f"{pages} pages less for {len(chosen)} prompts"):
                break


def _subsets(count: int) -> Iterator[tuple[int, ...]]:
    for size in range(count, 0, -1):
        yield from combinations(range(count), size)


def _steps(most: int) -> Iterator[int]:
    while most > 0:
        yield most
        most //= 2


def _lower(scenario: Scenario, chosen: tuple[int, ...], pages: int) -> Scenario:
    config: SchedulerOptions = scenario.scheduler
    smaller = scenario.with_config(num_device_pages=config.num_device_pages - pages)
    for index in chosen:
        left = scenario.requests[index].prompt_tokens - pages * config.prefix_granularity
        smaller = _with_prompt(smaller, index, left)
    return smaller
