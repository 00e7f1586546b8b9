"""A scenario: everything that makes a run, without its course (debugger.md, section 5).

A recorded trace says which calls were made. A scenario says why: who arrives when with which prompt, what the model
says, what the device costs. It runs closed loop on virtual time, on the twin or on the real package, so that requests,
lengths and config can be changed and the rest follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tsviz.engine.configs import SchedulerOptions
from tsviz.engine.faults import ClientAbort
from tsviz.engine.simulated import SimulatedOptions
from tsviz.engine.workloads.model import Span, Workload, WorkRequest


class NotAScenario(Exception):
    """The trace holds something that a scenario cannot say; the message names it and what was expected."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Config, requests, device and the round at which the run ends.

    `arrived_ns` says for every request when it arrived in the recording, for when the request that it waited for is
    taken out. `left_out` says in words what of the trace the scenario does not carry.
    """

    scheduler: SchedulerOptions
    requests: tuple[WorkRequest, ...]
    device: SimulatedOptions
    max_rounds: int
    aborts: tuple[ClientAbort, ...] = ()
    arrived_ns: Mapping[str, int] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()

    def workload(self) -> Workload:
        """Return the requests as the engine takes them."""
        return Workload(self.requests, {"kind": "scenario", "rows": len(self.requests)})

    def only(self, keep: Iterable[str]) -> Scenario:
        """Return the scenario with these requests alone; who waited for one that is gone arrives when it did."""
        kept = set(keep)
        requests = tuple(
            self._by_time(r) if r.after is not None and r.after not in kept else r
            for r in self.requests
            if r.request_id in kept
        )
        return replace(self, requests=requests, aborts=tuple(a for a in self.aborts if a.request_id in kept))

    def _by_time(self, request: WorkRequest) -> WorkRequest:
        return replace(request, arrival_ns=self.arrived_ns.get(request.request_id, 0), after=None, think_ns=0)

    def with_request(self, index: int, **changes: Any) -> Scenario:
        """Return the scenario with fields of one request changed."""
        changed = replace(self.requests[index], **changes)
        return replace(self, requests=(*self.requests[:index], changed, *self.requests[index + 1 :]))

    def with_config(self, **changes: Any) -> Scenario:
        """Return the scenario with fields of the config changed."""
        return replace(self, scheduler=replace(self.scheduler, **changes))

    def with_cost(self, **changes: Any) -> Scenario:
        """Return the scenario with fields of the device's cost changed."""
        return replace(self, device=replace(self.device, cost=replace(self.device.cost, **changes)))

    def described(self) -> dict[str, Any]:
        """Return the requests as JSON-able data for a bundle's metadata; a span is [source, start, tokens]."""

        def spans(values: tuple[Span, ...]) -> list[list[int]]:
            return [[s.source, s.start, s.length] for s in values]

        return {
            "max_rounds": self.max_rounds,
            "requests": [
                {
                    "id": r.request_id, "prompt": spans(r.prompt), "output": spans(r.output),
                    "max_new_tokens": r.max_new_tokens, "arrival_ns": r.arrival_ns, "after": r.after,
                    "think_ns": r.think_ns,
                }
                for r in self.requests
            ],
            "left_out": list(self.left_out),
        }  # fmt: skip


def cut(spans: tuple[Span, ...], tokens: int) -> tuple[Span, ...]:
    """Return the first `tokens` tokens of spans (all of them if they are fewer)."""
    taken: list[Span] = []
    for span in spans:
        if tokens <= 0:
            break
        taken.append(span if span.length <= tokens else replace(span, length=tokens))
        tokens -= span.length
    return tuple(taken)


def behind(spans: tuple[Span, ...], tokens: int) -> tuple[Span, ...]:
    """Return what `cut` leaves."""
    rest: list[Span] = []
    for span in spans:
        if tokens >= span.length:
            tokens -= span.length
        else:
            rest.append(Span(span.source, span.start + tokens, span.length - tokens))
            tokens = 0
    return tuple(rest)
