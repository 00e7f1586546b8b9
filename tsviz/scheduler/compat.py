"""Drop-in for `tokenspeed_scheduler` 0.1.24: change the import and the same code runs on the twin.

Every name, field, default, error type and message fragment of the public module is here
(`scheduler-rules.md` 1). Ours are keyword-only arguments of `Scheduler`.
"""

from __future__ import annotations

from types import ModuleType

from tsviz.scheduler.binding import events as _events
from tsviz.scheduler.binding import plan as _plan
from tsviz.scheduler.binding import scheduler as _scheduler
from tsviz.scheduler.binding.config import CacheGroupConfig, RequestSpec, SchedulerConfig
from tsviz.scheduler.binding.events import ExecutionEvent
from tsviz.scheduler.binding.plan import ExecutionPlan
from tsviz.scheduler.binding.scheduler import CapacityModel, Scheduler
from tsviz.scheduler.config import CacheGroupFamily, CacheRetention, CacheTransferPolicy


def _namespace(name: str, *members: type) -> ModuleType:
    module = ModuleType(f"{__name__}.{name}")
    for member in members:
        setattr(module, member.__name__, member)
    return module


Forward = _namespace("Forward", _plan.Batch)
PD = _namespace(
    "PD",
    _events.BootstrappedEvent,
    _events.FailedEvent,
    _events.RemotePrefillDoneEvent,
    _events.SucceededEvent,
)
Cache = _namespace("Cache", _events.LoadBackDoneEvent, _plan.LoadBackOp, _events.WriteBackDoneEvent, _plan.WriteBackOp)
KVEvent = _namespace("KVEvent", _scheduler.BlockRemoved, _scheduler.BlockStored)
ForwardEvent = _namespace(
    "ForwardEvent",
    _events.Abort,
    _events.ExtendResult,
    _events.Finish,
    _events.Retract,
    _events.UpdateReserveNumTokens,
)

__all__ = [
    "PD",
    "Cache",
    "CacheGroupConfig",
    "CacheGroupFamily",
    "CacheRetention",
    "CacheTransferPolicy",
    "CapacityModel",
    "ExecutionEvent",
    "ExecutionPlan",
    "Forward",
    "ForwardEvent",
    "KVEvent",
    "RequestSpec",
    "Scheduler",
    "SchedulerConfig",
]
