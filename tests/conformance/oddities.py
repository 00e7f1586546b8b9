"""Calls that an engine should not make: both implementations must refuse them alike, changing nothing.

A result for a request that holds pages with nothing in flight would abort the reference; it is never
drawn (``test_fatal.py`` shows it in a process of its own).
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.conformance.calls import Call
from tests.conformance.prompts import Prompts
from tests.conformance.tracker import Tracker

_PEER_EVENTS = ("BootstrappedEvent", "SucceededEvent")


def odd_call(rng: Random, config: dict[str, Any], tracker: Tracker, prompts: Prompts) -> Call | None:
    """One odd call, or None when the drawn kind has no subject now."""
    kind = rng.choice(("event", "event", "event", "result", "submit", "query", "storage", "acknowledge", "typed"))
    live = list(tracker.live.values())
    if kind == "event":
        return _odd_event(rng, tracker)
    if kind == "result":
        safe = [r for r in live if r.state in ("boot", "wait")] if not tracker.plan_raised else []
        chunks = [r for r in live if r.in_flight[:1] == ["chunk"]]
        if chunks and rng.random() < 0.5:
            request = rng.choice(chunks)
            request.in_flight.pop(0)
            return ("advance", [("ExtendResult", request.request_id, [1])])
        name = rng.choice(safe).request_id if safe else "nobody"
        return ("advance", [("ExtendResult", name, rng.choice(([], [1])))])
    if kind == "submit":
        bad = [("x", [], 0), ("x", [1], -1), ("x", [1], 2**31 - 1)]
        if prompts.bounded:
            bad.append(("x", [1] * (prompts.bound + 1), 0))
        if live:
            bad.append((rng.choice(live).request_id, [1], 0))
        return ("submit", [("fine", [1], 0), rng.choice(bad)])
    if kind == "query":
        return rng.choice(
            (
                ("cache_group_available_pages", "no such group"),
                ("cache_group_total_pages", config["cache_groups"][0]["group_id"]),
                ("max_single_request_tokens",),
                ("request_token_size", "nobody"),
                ("pd_transfer_pinned", "nobody"),
                ("prefix_hashes_for_tokens", [-1] * (2 * config["prefix_granularity"] + 1)),
            )
        )
    if kind == "storage":
        return rng.choice(
            (
                ("register_storage_keys", [0], ["h"], []),
                ("unregister_storage_keys", [0], [], [0]),
                ("register_storage_keys", [99], ["h"], [0]),
                ("register_storage_keys", [-1], ["h"], [0]),
                ("register_storage_keys", [0], ["h"], [0]),
                ("unregister_storage_keys", [99], ["h"], [0]),
                ("expand_prefix_keys", "ab"),
            )
        )
    if kind == "acknowledge":
        event = rng.choice((("WriteBackDoneEvent", 4000), ("LoadBackDoneEvent", 4001, True)))
        return ("advance", [event])
    return rng.choice(
        (
            ("submit", [("x", "text", 0)]),
            ("submit", [(7, [1], 0)]),
            ("submit", [("x", [1.5], 0)]),
            ("submit", [("x", [1], 2**31)]),
            ("request_token_size", 3),
            ("advance", [("Finish", None)]),
        )
    )


def _odd_event(rng: Random, tracker: Tracker) -> Call | None:
    """An event in a state that may refuse it; only those that can be repeated without losing count."""
    live = list(tracker.live.values())
    request = rng.choice(live) if live else None
    name = request.request_id if request else "nobody"
    kinds: list[tuple[Any, ...]] = [("RemotePrefillDoneEvent", name, -1)]
    if request is None or request.state in ("boot", "wait", "prefill", "remote", "await"):
        kinds += [("UpdateReserveNumTokens", name, 1)]
        if request is None or not (request.runtime_retracted or request.retractions):
            kinds += [("Finish", name)]
    if request is None or request.state == "boot":
        kinds += [("Retract", name), ("SucceededEvent", name), ("RemotePrefillDoneEvent", name, 5)]
    elif request.state == "wait" and not request.runtime_retracted:
        kinds += [("BootstrappedEvent", name), ("Retract", name)]
    if request is not None and request.state == "decode" and rng.random() < 0.1:
        kinds += [("UpdateReserveNumTokens", name, -1)]
    known = [other for other in tracker.known if other not in tracker.live]
    if known and rng.random() < 0.3:
        name = known[-1]
        kinds = [("ExtendResult", name, [1]), ("Finish", name), ("Abort", name), ("Retract", name)]
    return ("advance", [rng.choice(kinds)])
