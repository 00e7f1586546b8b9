"""Event objects and counters of the public scheduler API, to plain data and back.

`module` is the real package, the twin's drop-in API, or anything of that shape: this room imports neither.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import entries as e
from .rounds import Counters


class _Readers(dict[type, Callable[[Any], e.Event]]):
    """Readers by class; a class derived from an event class is read like it."""

    def __missing__(self, kind: type) -> Callable[[Any], e.Event]:
        for base in kind.__mro__:
            if base in self:
                reader = self[kind] = self[base]
                return reader
        raise KeyError(kind)


def event_reader(module: Any) -> Mapping[type, Callable[[Any], e.Event]]:
    """Return, per class of event object of `module`, the function that takes such an object apart."""
    forward, cache, pd = module.ForwardEvent, module.Cache, module.PD

    def named(kind: str) -> Callable[[Any], e.Event]:
        return lambda event: e.Event(kind, event.request_id)

    readers = {
        forward.ExtendResult: lambda v: e.Event(e.EXTEND_RESULT, v.request_id, v.tokens, v.spec_candidate_ids),
        forward.Finish: named(e.FINISH),
        forward.Abort: named(e.ABORT),
        forward.Retract: named(e.RETRACT),
        forward.UpdateReserveNumTokens: lambda v: e.Event(
            e.UPDATE_RESERVE, v.request_id, value=v.reserve_num_tokens_in_next_schedule_event
        ),
        cache.WriteBackDoneEvent: lambda v: e.Event(e.WRITE_BACK_DONE, op_id=v.op_id),
        cache.LoadBackDoneEvent: lambda v: e.Event(e.LOAD_BACK_DONE, op_id=v.op_id, value=int(v.success)),
        pd.BootstrappedEvent: named(e.BOOTSTRAPPED),
        pd.FailedEvent: named(e.FAILED),
        pd.SucceededEvent: named(e.SUCCEEDED),
        pd.RemotePrefillDoneEvent: lambda v: e.Event(e.REMOTE_PREFILL_DONE, v.request_id, value=v.bootstrap_token),
    }
    return _Readers(readers)


def make_event(module: Any, event: e.Event) -> Any:
    """Build the event object of `module` that `event` describes; the inverse of `event_reader`."""
    forward, cache, pd = module.ForwardEvent, module.Cache, module.PD
    match event.kind:
        case e.EXTEND_RESULT:
            made = forward.ExtendResult()
            made.tokens, made.spec_candidate_ids = list(event.tokens), list(event.candidates)
        case e.FINISH:
            made = forward.Finish()
        case e.ABORT:
            made = forward.Abort()
        case e.RETRACT:
            made = forward.Retract()
        case e.UPDATE_RESERVE:
            made = forward.UpdateReserveNumTokens()
            made.reserve_num_tokens_in_next_schedule_event = event.value
        case e.WRITE_BACK_DONE:
            made = cache.WriteBackDoneEvent()
            made.op_id = event.op_id
            return made
        case e.LOAD_BACK_DONE:
            return cache.LoadBackDoneEvent(event.op_id, bool(event.value))
        case e.REMOTE_PREFILL_DONE:
            return pd.RemotePrefillDoneEvent(event.request, event.value)
        case e.BOOTSTRAPPED:
            return pd.BootstrappedEvent(event.request)
        case e.FAILED:
            return pd.FailedEvent(event.request)
        case e.SUCCEEDED:
            return pd.SucceededEvent(event.request)
        case other:
            raise ValueError(f"unknown kind of event {other!r}")
    made.request_id = event.request
    return made


def read_counters(scheduler: Any) -> Counters:
    """Read the counters that are stored with every plan."""
    return Counters(
        scheduler.bootstrapping_size(),
        scheduler.waiting_size(),
        scheduler.prefilling_size(),
        scheduler.decoding_size(),
        scheduler.pd_transfer_size(),
        scheduler.empty_lcm_blocks(),
    )


def make_execution_event(module: Any, events: Iterable[e.Event]) -> Any:
    """Build what `advance` takes of these events, in order."""
    made = module.ExecutionEvent()
    for event in events:
        made.add_event(make_event(module, event))
    return made


def make_spec(module: Any, spec: e.Spec) -> Any:
    """Build one of the specs that `submit_requests` takes."""
    made = module.RequestSpec()
    made.request_id, made.tokens, made.max_new_tokens = spec.request, list(spec.tokens), spec.max_new_tokens
    return made
