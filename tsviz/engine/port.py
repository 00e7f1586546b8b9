"""The loop's one way to a scheduler: values in, the module's own objects out.

Events are built and added in one expression and never named afterwards, so that a recording proxy need not copy them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from tsviz.engine.binding import Plan, SchedulerModule
from tsviz.engine.events import (
    Aborted,
    Bootstrapped,
    Event,
    Extended,
    Finished,
    Loaded,
    PeerFailed,
    RemotePrefillDone,
    Reserved,
    Retracted,
    Stored,
    Succeeded,
)
from tsviz.engine.workloads.model import Tokens


class Submission(NamedTuple):
    """One request as the scheduler hears of it; `max_new_tokens` 0 is an undeclared budget."""

    request_id: str
    tokens: Tokens
    max_new_tokens: int


class StorageKey(NamedTuple):
    """One page in storage: cache group, content hash of its prefix page, offset of the block within that page."""

    group_id: int
    content_hash: str
    page_offset: int


class SchedulerRaised(Exception):
    """A scheduler raised where it should not have: the call, and what it said."""

    def __init__(self, call: str, error: Exception) -> None:
        super().__init__(f"{call}: {type(error).__name__}: {error}")


class Port(Protocol):
    """What the loop asks of a scheduler, or of several mirrored ones."""

    def submit(self, submissions: Sequence[Submission]) -> None:
        """Submit in this order, in one call."""

    def advance(self, events: Sequence[Event]) -> None:
        """Apply in this order, in one call."""

    def plan(self) -> Plan:
        """Decide the next round."""

    def drain_kv_events(self) -> int:
        """Drain the KV events; return how many there were."""

    def sizes(self) -> tuple[int, ...]:
        """Return bootstrapping, waiting, prefilling, decoding, empty LCM blocks: equal sizes, nothing moved."""

    def waiting_size(self) -> int:
        """Return how many requests are Submitted or Retracted."""

    def max_single_request_tokens(self) -> int:
        """Return the admission bound."""

    def storage_keys_of(self, tokens: Tokens) -> list[StorageKey]:
        """Return the keys of a prompt's matchable prefix pages."""

    def storage_keys_waiting(self) -> list[StorageKey]:
        """Return the keys that the next admissions would match."""

    def register_storage(self, keys: Sequence[StorageKey]) -> None:
        """Tell that these pages are in storage."""

    def unregister_storage(self, keys: Sequence[StorageKey]) -> None:
        """Tell that these are not any more."""


class SchedulerPort:
    """A port to one scheduler of a module."""

    def __init__(self, module: SchedulerModule, config: Any) -> None:
        self._module = module
        self.scheduler = module.Scheduler(config)
        self.waiting_size = self.scheduler.waiting_size
        self._makers: dict[type, Callable[[Any], Any]] = {
            Extended: self._extended,
            Reserved: self._reserved,
            Finished: self._named(module.ForwardEvent.Finish),
            Aborted: self._named(module.ForwardEvent.Abort),
            Retracted: self._named(module.ForwardEvent.Retract),
            Stored: self._stored,
            Loaded: lambda e: module.Cache.LoadBackDoneEvent(e.op_id, e.success),
            Bootstrapped: lambda e: module.PD.BootstrappedEvent(e.request_id),
            PeerFailed: lambda e: module.PD.FailedEvent(e.request_id),
            Succeeded: lambda e: module.PD.SucceededEvent(e.request_id),
            RemotePrefillDone: lambda e: module.PD.RemotePrefillDoneEvent(e.request_id, e.token),
        }

    def submit(self, submissions: Sequence[Submission]) -> None:
        """Submit in this order, in one call. Raises SchedulerRaised."""
        specs = []
        for request_id, tokens, max_new_tokens in submissions:
            spec = self._module.RequestSpec()
            spec.request_id = request_id
            spec.tokens = tokens
            spec.max_new_tokens = max_new_tokens
            specs.append(spec)
        try:
            self.scheduler.submit_requests(specs)
        except (RuntimeError, ValueError) as error:
            raise SchedulerRaised("submit_requests", error) from error

    def plan(self) -> Plan:
        """Decide the next round. Raises SchedulerRaised."""
        try:
            return self.scheduler.next_execution_plan()
        except (RuntimeError, ValueError) as error:
            raise SchedulerRaised("next_execution_plan", error) from error

    def advance(self, events: Sequence[Event]) -> None:
        """Apply in this order, in one call. Raises SchedulerRaised."""
        execution_event = self._module.ExecutionEvent()
        makers = self._makers
        for event in events:
            execution_event.add_event(makers[type(event)](event))
        try:
            self.scheduler.advance(execution_event)
        except (RuntimeError, ValueError) as error:
            raise SchedulerRaised("advance", error) from error

    def drain_kv_events(self) -> int:
        """Drain the KV events; return how many there were."""
        return len(self.scheduler.drain_kv_events())

    def sizes(self) -> tuple[int, ...]:
        """Return bootstrapping, waiting, prefilling, decoding, empty LCM blocks."""
        s = self.scheduler
        return (
            s.bootstrapping_size(),
            s.waiting_size(),
            s.prefilling_size(),
            s.decoding_size(),
            s.empty_lcm_blocks(),
        )

    def max_single_request_tokens(self) -> int:
        """Return the admission bound."""
        return self.scheduler.max_single_request_tokens()

    def storage_keys_of(self, tokens: Tokens) -> list[StorageKey]:
        """Return the keys of a prompt's matchable prefix pages."""
        return self._keys(self.scheduler.prefix_hashes_for_tokens(tokens))

    def storage_keys_waiting(self) -> list[StorageKey]:
        """Return the keys that the next admissions would match."""
        return self._keys(self.scheduler.waiting_prefix_hashes())

    def register_storage(self, keys: Sequence[StorageKey]) -> None:
        """Tell that these pages are in storage."""
        self.scheduler.register_storage_keys(*_columns(keys))

    def unregister_storage(self, keys: Sequence[StorageKey]) -> None:
        """Tell that these are not any more."""
        self.scheduler.unregister_storage_keys(*_columns(keys))

    def _keys(self, hashes: Sequence[str]) -> list[StorageKey]:
        return [StorageKey(*key) for key in zip(*self.scheduler.expand_prefix_keys(hashes), strict=True)]

    def _extended(self, event: Extended) -> Any:
        made = self._module.ForwardEvent.ExtendResult()
        made.request_id = event.request_id
        if event.tokens:
            made.tokens = event.tokens
        if event.candidates:
            made.spec_candidate_ids = event.candidates
        return made

    def _reserved(self, event: Reserved) -> Any:
        made = self._module.ForwardEvent.UpdateReserveNumTokens()
        made.request_id = event.request_id
        made.reserve_num_tokens_in_next_schedule_event = event.tokens
        return made

    def _stored(self, event: Stored) -> Any:
        made = self._module.Cache.WriteBackDoneEvent()
        made.op_id = event.op_id
        return made

    @staticmethod
    def _named(constructor: Callable[[], Any]) -> Callable[[Any], Any]:
        def make(event: Any) -> Any:
            made = constructor()
            made.request_id = event.request_id
            return made

        return make


def _columns(keys: Sequence[StorageKey]) -> tuple[list[int], list[str], list[int]]:
    return [k.group_id for k in keys], [k.content_hash for k in keys], [k.page_offset for k in keys]
