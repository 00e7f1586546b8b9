"""A closed loop of requests on a scheduler alone: the same code for both sides, only the scheduler's calls timed.

Plans are read as `total` of performance.md section 1 reads them (`Steady` does the same): forward, eight vectors, no
block tables. What the loop itself keeps book of is outside the clock.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass
from typing import Any

from tsviz.engine.configs import SchedulerOptions
from tsviz.engine.workloads.model import invented_tokens

from .schedulers import Took
from .steady import _scalars


@dataclass(frozen=True, slots=True)
class Load:
    """`requests` prompts of `prompt_tokens`, `live` at a time, each saying `output_tokens`; budgets declared or not."""

    options: SchedulerOptions
    requests: int
    live: int
    prompt_tokens: int
    output_tokens: int
    declared: bool = True
    shared_tokens: int = 0
    max_rounds: int = 1 << 30


@dataclass(slots=True)
class Ran:
    """What a loop came to. Times in nanoseconds: of rounds (plan, reading it, events, advance) and of submissions."""

    rounds: int = 0
    rows: int = 0
    prefill_tokens: int = 0
    retracted: int = 0
    finished: int = 0
    cpu_ns: int = 0
    wall_ns: int = 0
    plan_cpu_ns: int = 0
    submit_cpu_ns: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """What must be equal on both sides."""
        return self.rounds, self.rows, self.prefill_tokens, self.retracted, self.finished

    def each(self, units: int) -> Took:
        """Return nanoseconds a unit (rounds, rows, tokens)."""
        return Took(self.cpu_ns / units, self.wall_ns / units)


class Loop:
    """One run of a load on one scheduler."""

    def __init__(self, module: Any, load: Load) -> None:
        self._module, self._load = module, load
        self.scheduler = module.Scheduler(load.options.build(module))
        self._said: dict[str, int] = {}
        self._submitted = 0
        self.ran = Ran()

    def run(self) -> Ran:
        """Run until all requests have finished, or the load's limit of rounds. Raises RuntimeError on a stall."""
        load, ran = self._load, self.ran
        idle = 0
        while ran.finished < load.requests and ran.rounds < load.max_rounds:
            idle = 0 if self.round() else idle + 1
            if idle == 3:
                raise RuntimeError(f"the loop stalls at round {ran.rounds}: expected rows, found none in 3 rounds")
        return ran

    def round(self) -> int:
        """Submit what there is room for, plan, and land the results; return how many rows there were."""
        self._submit()
        results = self._plan()
        self._land(results)
        return len(results)

    def _submit(self) -> None:
        load, specs = self._load, []
        while len(self._said) < load.live and self._submitted < load.requests:
            spec = self._module.RequestSpec()
            spec.request_id = name = f"request-{self._submitted}"
            tokens = array("i", invented_tokens(1_000_000, 0, load.shared_tokens).tobytes())
            tokens.frombytes(invented_tokens(self._submitted, 0, load.prompt_tokens - load.shared_tokens).tobytes())
            start = time.thread_time_ns()
            spec.tokens = tokens
            self.ran.submit_cpu_ns += time.thread_time_ns() - start
            spec.max_new_tokens = load.output_tokens if load.declared else 0
            specs.append(spec)
            self._said[name] = 0
            self._submitted += 1
        if specs:
            start = time.thread_time_ns()
            self.scheduler.submit_requests(specs)
            self.ran.submit_cpu_ns += time.thread_time_ns() - start

    def _plan(self) -> list[tuple[str, bool, bool]]:
        """Plan and read; return of each row its id, whether it says a token, whether that is its last."""
        ran, said = self.ran, self._said
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        plan = self.scheduler.next_execution_plan()
        planned = time.thread_time_ns()
        batch = plan.forward[0]
        ids = batch.request_ids
        _, lengths, sizes, prefixes, _, _, input_ids = _scalars(batch)
        ran.plan_cpu_ns += planned - cpu
        ran.cpu_ns += time.thread_time_ns() - cpu
        ran.wall_ns += time.perf_counter_ns() - wall
        ran.rounds += 1
        ran.rows += len(ids)
        ran.prefill_tokens += len(input_ids)
        results = []
        for row, name in enumerate(ids):
            prefill = row < len(prefixes)
            # A first chunk of a request that has said something already: it was retracted and comes back.
            ran.retracted += prefill and said[name] > 0
            says = not prefill or prefixes[row] + lengths[row] == sizes[row]
            said[name] += says
            results.append((name, says, said[name] == self._load.output_tokens))
        return results

    def _land(self, results: list[tuple[str, bool, bool]]) -> None:
        ran, forward = self.ran, self._module.ForwardEvent
        done = [name for name, says, last in results if says and last]
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        event = self._module.ExecutionEvent()
        for name, says, _ in results:
            landed = forward.ExtendResult()
            landed.request_id = name
            if says:
                landed.tokens = [7]
            event.add_event(landed)
        for name in done:
            finish = forward.Finish()
            finish.request_id = name
            event.add_event(finish)
        self.scheduler.advance(event)
        ran.cpu_ns += time.thread_time_ns() - cpu
        ran.wall_ns += time.perf_counter_ns() - wall
        ran.finished += len(done)
        for name in done:
            del self._said[name]
