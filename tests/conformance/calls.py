"""Calls as plain data, and their application to an implementation.

A call is a tuple whose first item names it: ``("submit", [(id, tokens, max_new_tokens), ...])``,
``("plan",)``, ``("advance", [event, ...])`` with events such as ``("Finish", id)``, and the queries
below. An outcome is ``("ok", value)`` or ``("error", type name, fragment)``. A lifetime is therefore a
list that can be printed, stored as JSON, shortened, and replayed on either implementation.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tests.conformance.described import describe_kv_event, describe_plan
from tests.conformance.messages import fragment_of

Call = tuple[Any, ...]
Outcome = tuple[Any, ...]

_GROUP_FIELDS = (
    "retention",
    "sliding_window_tokens",
    "family",
    "cache_blocks_per_lcm_block",
    "transfer_policy",
    "shard_count",
    "replayable",
)


def build_config(module: ModuleType, data: dict[str, Any]) -> Any:
    """A ``SchedulerConfig`` from plain data; enum-valued fields are given by member name."""
    config = module.SchedulerConfig()
    for name, value in data.items():
        if name == "role":
            config.role = getattr(module.SchedulerConfig.Role, value)
        elif name == "cache_groups":
            config.cache_groups = [build_group(module, group) for group in value]
        else:
            setattr(config, name, value)
    return config


def build_group(module: ModuleType, data: dict[str, Any]) -> Any:
    """A ``CacheGroupConfig`` from plain data."""
    enums = {
        "retention": module.CacheRetention,
        "family": module.CacheGroupFamily,
        "transfer_policy": module.CacheTransferPolicy,
    }
    options = {
        name: getattr(enums[name], data[name]) if name in enums else data[name]
        for name in _GROUP_FIELDS
        if name in data
    }
    return module.CacheGroupConfig(data["group_id"], data["block_granularity"], data["total_pages"], **options)


def build_spec(module: ModuleType, request_id: Any, tokens: Any, max_new_tokens: Any) -> Any:
    """A ``RequestSpec``."""
    spec = module.RequestSpec()
    spec.request_id = request_id
    spec.tokens = tokens
    spec.max_new_tokens = max_new_tokens
    return spec


def build_event(module: ModuleType, event: tuple[Any, ...]) -> Any:
    """One event object from ``(kind, arguments...)``."""
    kind, *arguments = event
    if kind in ("BootstrappedEvent", "FailedEvent", "SucceededEvent", "RemotePrefillDoneEvent"):
        return getattr(module.PD, kind)(*arguments)
    if kind == "LoadBackDoneEvent":
        return module.Cache.LoadBackDoneEvent(*arguments)
    if kind == "WriteBackDoneEvent":
        built = module.Cache.WriteBackDoneEvent()
        built.op_id = arguments[0]
        return built
    built = getattr(module.ForwardEvent, kind)()
    built.request_id = arguments[0]
    if kind == "ExtendResult":
        built.tokens = arguments[1]
        if len(arguments) > 2:
            built.spec_candidate_ids = arguments[2]
    elif kind == "UpdateReserveNumTokens":
        built.reserve_num_tokens_in_next_schedule_event = arguments[1]
    return built


def perform(module: ModuleType, scheduler: Any, call: Call) -> Any:
    """Make one call and return its answer as plain data; what it raises passes through."""
    name, *arguments = call
    if name == "plan":
        return describe_plan(scheduler.next_execution_plan())
    if name == "submit":
        return scheduler.submit_requests([build_spec(module, *spec) for spec in arguments[0]])
    if name == "advance":
        execution = module.ExecutionEvent()
        for event in arguments[0]:
            execution.add_event(build_event(module, event))
        return scheduler.advance(execution)
    if name == "drain_kv_events":
        return [describe_kv_event(event) for event in scheduler.drain_kv_events()]
    if name == "expand_prefix_keys":
        return tuple(list(part) for part in scheduler.expand_prefix_keys(*arguments))
    if name == "capacity":
        data, method, *rest = arguments
        answer = getattr(module.CapacityModel(build_config(module, data)), method)(*rest)
        return list(answer) if isinstance(answer, list | tuple) else answer
    return getattr(scheduler, name)(*arguments)


def attempt(module: ModuleType, scheduler: Any, call: Call) -> Outcome:
    """Make one call; an exception becomes ``("error", type name, fragment)``."""
    try:
        return ("ok", perform(module, scheduler, call))
    except Exception as error:  # every type is part of the comparison
        return ("error", type(error).__name__, fragment_of(str(error)), str(error))
