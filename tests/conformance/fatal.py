"""Situations in which the reference aborts its process: ``python -m tests.conformance.fatal NAME``.

Each scenario takes a module and ends with the fatal call; what that call returns is returned.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from tests.conformance.modules import Missing, load
from tests.conformance.notation import Drive, full, state


def _surplus_result(role: str, prompt: int, plans: int, landed: tuple[tuple[int, ...], ...]) -> Callable[..., Any]:
    """A result for a request that has nothing in flight, after ``plans`` plans and these results."""

    def scenario(module: ModuleType) -> Any:
        drive = Drive(module, [full(2)], page=2, pages=33, budget=4, role=role)
        drive.submit("a", prompt)
        drive.event("BootstrappedEvent", "a")
        results = iter(landed)
        for _ in range(plans):
            drive.plan()
            tokens = next(results, None)
            if tokens is not None:
                drive.result("a", *tokens)
        return drive.event("ExtendResult", "a", [])

    return scenario


def _retraction_with_events(module: ModuleType, events: bool = True) -> Any:
    """Example 26 of scheduler-rules with KV events: the retraction publishes a page without a descriptor."""
    drive = Drive(
        module,
        [full(4), state(4)],
        page=4,
        pages=8,
        budget=4,
        enable_mixed_prefill_decode=True,
        num_host_pages=20,
        enable_kv_cache_events=events,
    )
    drive.submit("a", 8)
    for _ in range(2):
        shown = drive.round()
        drive.stored(*(op for op, *_ in shown.stored))
    drive.submit("b", 4)
    return drive.plan().plan


def _load_after_a_drain(module: ModuleType, events: bool = True) -> Any:
    """A drain between the admission of a storage hit and its acknowledgement forgets the descriptor."""
    drive = Drive(
        module,
        [full(2)],
        page=2,
        pages=33,
        num_host_pages=20,
        enable_l3_storage=True,
        enable_kv_cache_events=events,
    )
    own, prompt = drive.scheduler, list(range(8))
    own.register_storage_keys(*own.expand_prefix_keys(own.prefix_hashes_for_tokens(prompt)))
    drive.submit("a", prompt)
    drive.plan()
    own.drain_kv_events()
    drive.loaded(0)
    return drive.plan().plan


SURPLUS: dict[str, Callable[..., Any]] = {
    "result-prefilling": _surplus_result("Fused", 6, 1, ((),)),
    "result-prefill-done": _surplus_result("Fused", 3, 1, ((1,),)),
    "result-decoding": _surplus_result("Fused", 3, 2, ((1,), (2,))),
    "result-awaiting": _surplus_result("P", 3, 1, ((),)),
    "result-remote-prefilling": _surplus_result("D", 3, 1, ()),
}
EVENTS: dict[str, Callable[..., Any]] = {
    "events-retraction": _retraction_with_events,
    "events-load-after-drain": _load_after_a_drain,
}


if __name__ == "__main__":
    oracle = load("real")
    if isinstance(oracle, Missing):
        sys.exit(oracle.reason)
    {**SURPLUS, **EVENTS}[sys.argv[1]](oracle)
