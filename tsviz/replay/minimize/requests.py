"""Passes over the requests: who is needed, when they arrive, what they share, what they are called."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tsviz.engine.workloads.model import Span, WorkRequest
from tsviz.replay.scenario.scenario import Scenario

from .shrink import Search, smallest


def at_once(scenario: Scenario, step_ns: int = 0) -> Scenario:
    """Return the scenario with its requests arriving in their order, `step_ns` apart."""
    order = sorted(scenario.requests, key=lambda r: scenario.arrived_ns.get(r.request_id, r.arrival_ns or 0))
    return replace(scenario, requests=tuple(_at(r, i * step_ns) for i, r in enumerate(order)))


def _at(request: WorkRequest, at_ns: int) -> WorkRequest:
    return replace(request, arrival_ns=at_ns, after=None, think_ns=0)


def fewer_requests(search: Search) -> None:
    """Take requests out: halves first, then ever smaller chunks, until no single one can go."""
    chunk = max(1, len(search.current().requests) // 2)
    while True:
        begin, removed = 0, False
        while begin < len(search.current().requests) > 1:
            ids = [r.request_id for r in search.current().requests]
            rest = ids[:begin] + ids[begin + chunk :]
            what = f"without {ids[begin]}" if chunk == 1 else f"without {len(ids) - len(rest)} requests"
            if rest and search.attempt(search.current().only(rest), what):
                removed = True
            else:
                begin += chunk
        if chunk == 1 and not removed:
            return
        chunk = max(1, chunk // 2)


def simpler_arrivals(search: Search) -> None:
    """Let all requests arrive at once; else at even steps; else as many as possible at the start."""
    best = search.current()
    if all(r.arrival_ns == 0 for r in best.requests):
        return
    if search.attempt(at_once(best), "all arrive at once"):
        return
    cost = best.device.cost
    step_ns = cost.round_ns + cost.token_ns * best.scheduler.max_scheduled_tokens
    even = [at_once(best, step_ns * rounds) for rounds in (1, 2, 4, 8)]
    if any(r.after is not None or r.arrival_ns not in (0, i * step_ns) for i, r in enumerate(best.requests)):
        for candidate in even:
            if search.attempt(candidate, "arrivals at even steps"):
                return
    for index, request in enumerate(search.current().requests):
        if request.after is not None:
            plain = search.current().with_request(
                index, arrival_ns=best.arrived_ns.get(request.request_id, 0), after=None, think_ns=0
            )
            search.attempt(plain, f"{request.request_id} arrives by the clock")
        smallest(
            search, search.current().requests[index].arrival_ns or 0, 0,
            lambda ns, i=index: search.current().with_request(i, arrival_ns=ns, after=None, think_ns=0),  # type: ignore[misc]
            f"{request.request_id} arrives at ns",
        )  # fmt: skip


def less_sharing(search: Search) -> None:
    """Give all prompts, else each one, and all outputs tokens of their own."""
    best = search.current()
    alone = replace(best, requests=tuple(_alone(r, i) for i, r in enumerate(best.requests)))
    if alone == best or search.attempt(alone, "nothing shared"):
        return
    for index in range(len(best.requests)):
        current = search.current()
        changed = _alone(current.requests[index], _free_source(current))
        if changed.prompt != current.requests[index].prompt and len(current.requests[index].prompt) > 1:
            search.attempt(current.with_request(index, prompt=changed.prompt), f"{changed.request_id} shares nothing")


def _alone(request: WorkRequest, index: int) -> WorkRequest:
    prompt, output = request.prompt_tokens, request.output_tokens
    return replace(request, prompt=(Span(index + 1, 0, prompt),), output=(Span(index + 1, prompt, output),))


def _free_source(scenario: Scenario) -> int:
    return max((s.source for r in scenario.requests for s in (*r.prompt, *r.output)), default=0) + 1


_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def short_names(search: Search) -> None:
    """Call the requests a, b, c, ... in the order of their ids, which ties between victims compare."""
    best = search.current()
    ids = sorted((r.request_id for r in best.requests), key=lambda name: name.encode())
    if len(ids) > len(_LETTERS) or ids == list(_LETTERS[: len(ids)]):
        return
    search.attempt(_renamed(best, ids), "short names")


def _renamed(scenario: Scenario, ids: Sequence[str]) -> Scenario:
    names = dict(zip(ids, _LETTERS, strict=False))
    requests = tuple(
        replace(r, request_id=names[r.request_id], after=None if r.after is None else names.get(r.after, r.after))
        for r in scenario.requests
    )
    arrived = {names[k]: v for k, v in scenario.arrived_ns.items() if k in names}
    aborts = tuple(replace(a, request_id=names[a.request_id]) for a in scenario.aborts)
    return replace(scenario, requests=requests, arrived_ns=arrived, aborts=aborts)
