"""Where a search begins: the requests near the finding, alone; then the same ones met in other ways; then the trace.

A finding that needed hours of load to come about rarely survives the removal of a request in the middle: the schedule
behind it becomes another one. What it hangs on is who met whom with how little memory. So behind the plain subsets come
draws: few requests near the finding, in another order, some rounds apart, with other outputs and less host memory, at a
smaller scale. They are seeded, and a draw counts only if the predicate holds on its run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from tsviz.engine.workloads.model import Span, WorkRequest
from tsviz.replay.rows.lifetimes import Lifetimes
from tsviz.replay.scenario.predicates import Finding, Tables
from tsviz.replay.scenario.scenario import Scenario

from .requests import at_once
from .sizes import fewer_pages, smaller_pages

SMALL_REQUESTS = 16
"""Subsets up to this size are drawn from; larger ones are tried behind the draws."""
DRAWS = 400
_SEED = 20
_SCALE_PAGES, _SCALE_PAGE_TOKENS = 64, 4
_OUTPUT_TOKENS = (1, 4, 16, 48)
_MARGIN_ROUNDS = 400


def starts(recorded: Tables, scenario: Scenario, finding: Finding) -> Iterator[tuple[Scenario, str]]:
    """Yield scenarios to begin with, cheapest first, and what they are."""
    near = near_the_finding(recorded, scenario, finding)
    limit = finding.shown_by - finding.first_round + _MARGIN_ROUNDS
    small = [replace(s, max_rounds=min(s.max_rounds, limit)) for s in near if len(s.requests) <= SMALL_REQUESTS]
    for subset in small:
        yield subset, "requests near the finding"
        yield at_once(subset), "requests near the finding, at once"
    if small:
        yield from _draws(small)
    for subset in near[len(small) :]:
        yield subset, "requests near the finding"
        yield at_once(subset), "requests near the finding, at once"


def near_the_finding(recorded: Tables, scenario: Scenario, finding: Finding) -> list[Scenario]:
    """Return who was there in the finding's first round, then with who was there 1, 2, 4, ... rounds before."""
    life = Lifetimes(recorded)  # type: ignore[arg-type]  # it only asks for tables
    names = [r.request_id for r in scenario.requests]
    kept = np.flatnonzero(life.accepted)
    found: list[Scenario] = []
    before, reach = 0, 0
    while before < finding.first_round:
        there = (life.submitted[kept] <= finding.shown_by) & (life.end_round[kept] >= finding.first_round - before)
        chosen = [name for name, is_there in zip(names, there, strict=True) if is_there]
        if reach < len(chosen) < len(names):
            found.append(scenario.only(chosen))
        reach = max(reach, len(chosen))
        before = 1 if before == 0 else 2 * before
    return found


def _draws(subsets: Sequence[Scenario]) -> Iterator[tuple[Scenario, str]]:
    draw = random.Random(_SEED)
    for number in range(DRAWS):
        base = subsets[number % len(subsets)]
        if number % 8 != 7:
            base = _to_scale(base)
        yield _drawn(base, draw), f"draw {number + 1} of {DRAWS}"


def _to_scale(scenario: Scenario) -> Scenario:
    for shrink, size, wanted in (
        (smaller_pages, scenario.scheduler.prefix_granularity, _SCALE_PAGE_TOKENS),
        (fewer_pages, scenario.scheduler.num_device_pages - 1, _SCALE_PAGES),
    ):
        if size // wanted > 1:
            scenario = shrink(scenario, size // wanted) or scenario
    return scenario


def _drawn(scenario: Scenario, draw: random.Random) -> Scenario:
    config = scenario.scheduler
    requests = list(scenario.requests)
    draw.shuffle(requests)
    cost = scenario.device.cost
    step_ns = cost.round_ns + cost.token_ns * config.max_scheduled_tokens
    at_ns, placed = 0, []
    for request in requests:
        said = _output(request, draw.choice(_OUTPUT_TOKENS))
        placed.append(replace(said, arrival_ns=at_ns, after=None, think_ns=0))
        at_ns += draw.choice((0, 1, 1, 2, 4)) * step_ns
    host = config.num_host_pages
    if host > 2:
        pool = config.num_device_pages - 1
        host = draw.choice((2, 2, min(host, 2 + pool // 8), min(host, 2 + pool // 2), host))
    return replace(
        scenario, requests=tuple(placed), arrived_ns={r.request_id: r.arrival_ns or 0 for r in placed},
        scheduler=replace(config, num_host_pages=host),
    )  # fmt: skip


def _output(request: WorkRequest, tokens: int) -> WorkRequest:
    span = request.output[0]
    budget = min(request.max_new_tokens, tokens) if request.max_new_tokens else 0
    return replace(request, output=(Span(span.source, span.start, tokens),), max_new_tokens=budget)
