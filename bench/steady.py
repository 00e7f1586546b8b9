"""Steady decode at a given number of rows, driven as performance.md section 1 drives it."""

from __future__ import annotations

import time
from array import array
from types import FunctionType
from typing import Any

from tsviz.engine.configs import SchedulerOptions, parse_groups
from tsviz.engine.workloads.model import Span, Workload, WorkRequest, invented_tokens

CONTEXT_TOKENS = 1024
PAGE_TOKENS = 16
ONE_GROUP = "full:16"
HYBRID = "full:16,sliding:16:w=1024,state:16,state:16:id=state2"


def steady_options(
    rows: int,
    growth_tokens: int,
    groups: str = ONE_GROUP,
    context_tokens: int = CONTEXT_TOKENS,
    page_tokens: int = PAGE_TOKENS,
) -> SchedulerOptions:
    """Return a configuration in which `rows` requests of that context never meet a limit within `growth_tokens`."""
    parsed = parse_groups(groups)
    pages = rows * (-(-(context_tokens + growth_tokens) // page_tokens) + 4) * len(parsed)
    return SchedulerOptions(
        groups=parsed,
        prefix_granularity=page_tokens,
        max_scheduled_tokens=8192,
        max_batch_size=rows,
        num_device_pages=pages + 1,
    )


def steady_workload(rows: int, output_tokens: int) -> Workload:
    """Return `rows` requests that arrive at once, share nothing and say `output_tokens` each."""
    requests = tuple(
        WorkRequest(
            request_id=f"request-{row}",
            prompt=(Span(2 * row, 0, CONTEXT_TOKENS),),
            output=(Span(2 * row + 1, 0, output_tokens),),
            max_new_tokens=output_tokens,
            arrival_ns=0,
        )
        for row in range(rows)
    )
    return Workload(requests, {"kind": "steady"})


class Steady:
    """A scheduler of `module` whose `rows` requests all decode; `rounds` runs rounds and times each.

    Events are made by a function and handed over at once, or (`keep_events`) still held by a name when they are added:
    a recorder must take those apart on the spot, because they might be changed.

    `options` default to `steady_options` of 1K context. `staggered`: contexts differ, so that every round some rows
    cross into a new page. Without `declared` no budget is, and pages are taken when they are crossed into.
    """

    def __init__(
        self,
        module: Any,
        rows: int,
        growth_tokens: int,
        *,
        keep_events: bool = False,
        options: SchedulerOptions | None = None,
        context_tokens: int = CONTEXT_TOKENS,
        staggered: bool = False,
        declared: bool = True,
    ) -> None:
        self._module = module
        self._keep_events = keep_events
        self._run = _own_code(_rounds, _landed, _scalars)
        options = options or steady_options(rows, growth_tokens)
        page_tokens = options.prefix_granularity
        self.scheduler = module.Scheduler(options.build(module))
        specs = []
        for row in range(rows):
            spec = module.RequestSpec()
            spec.request_id = f"request-{row}"
            length = context_tokens + (row % page_tokens if staggered else 0)
            spec.tokens = array("i", invented_tokens(row, 0, length).tobytes())
            spec.max_new_tokens = growth_tokens if declared else 0
            specs.append(spec)
        self.scheduler.submit_requests(specs)
        while not self._prefill(rows):
            pass

    def _prefill(self, rows: int) -> bool:
        batch = self.scheduler.next_execution_plan().forward[0]
        ids, prefixes = batch.request_ids, batch.extend_prefix_lens
        lengths, sizes = batch.input_lengths, batch.prefill_lengths
        event = self._module.ExecutionEvent()
        for row, request_id in enumerate(ids):
            result = self._module.ForwardEvent.ExtendResult()
            result.request_id = request_id
            if row >= len(prefixes) or prefixes[row] + lengths[row] == sizes[row]:
                result.tokens = [row]
            event.add_event(result)
        self.scheduler.advance(event)
        return len(ids) == rows and not prefixes

    def rounds(self, count: int) -> list[int]:
        """Run `count` rounds of plan + forward + eight scalar vectors + events + advance; return nanoseconds each."""
        times: list[int] = self._run(self.scheduler, self._module, self._keep_events, count)
        return times


def _own_code(*functions: Any) -> Any:
    """Return a copy of the first function that calls copies of the others.

    The interpreter specialises a call site for the classes it sees; a bare and a recorded scheduler that shared one
    would both pay for the other.
    """
    names: dict[str, Any] = dict(functions[0].__globals__)
    for function in functions[1:]:
        names[function.__name__] = FunctionType(function.__code__.replace(), function.__globals__)
    return FunctionType(functions[0].__code__.replace(), names)


def _rounds(scheduler: Any, module: Any, keep_events: bool, count: int) -> list[int]:
    make, result = module.ExecutionEvent, module.ForwardEvent.ExtendResult
    times = []
    clock = time.perf_counter_ns
    for _ in range(count):
        start = clock()
        plan = scheduler.next_execution_plan()
        batch = plan.forward[0]
        ids = batch.request_ids
        scalars = _scalars(batch)
        event = make()
        if keep_events:
            for request_id in ids:
                landed = result()
                landed.request_id = request_id
                landed.tokens = [7]
                event.add_event(landed)
        else:
            for request_id in ids:
                event.add_event(_landed(result, request_id))
        scheduler.advance(event)
        del plan, batch, event, scalars
        times.append(clock() - start)
    return times


def _landed(result: Any, request_id: str) -> Any:
    landed = result()
    landed.request_id = request_id
    landed.tokens = [7]
    return landed


def _scalars(batch: Any) -> tuple[Any, ...]:
    return (
        batch.request_pool_indices,
        batch.input_lengths,
        batch.prefill_lengths,
        batch.extend_prefix_lens,
        batch.extend_replay_lens,
        batch.decode_input_ids,
        batch.input_ids,
    )
