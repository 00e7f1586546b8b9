"""Event classes of the public API and the batch that carries them (`scheduler-rules.md` 1.5)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tsviz.scheduler import events as core
from tsviz.scheduler.binding.checks import Bound, Field, boolean, int32, int32_array, reject, string, uint32


def _tokens(value: object) -> tuple[int, ...]:
    """A sequence of int32 as a tuple. One plain token, the usual result, skips the conversion."""
    if type(value) is list and len(value) == 1:
        token = value[0]
        if type(token) is int and -0x80000000 <= token <= 0x7FFFFFFF:
            return (token,)
    return tuple(int32_array(value))


class _Event(Protocol):
    def _to_core(self) -> core.Event: ...


class ExtendResult(Bound):
    """A forward of a request landed."""

    __slots__ = ("_request_id", "_spec_candidate_ids", "_tokens")

    def __init__(self) -> None:
        """Empty id, no tokens."""
        self._request_id = ""
        self._tokens: tuple[int, ...] = ()
        self._spec_candidate_ids: tuple[int, ...] = ()

    @property
    def request_id(self) -> str:
        """The request. A plain property: one of these is made for every row of every round."""
        return self._request_id

    @request_id.setter
    def request_id(self, value: object) -> None:
        self._request_id = value if type(value) is str else string(value)

    @property
    def tokens(self) -> list[int]:
        """Sampled or accepted tokens, as a fresh list."""
        return list(self._tokens)

    @tokens.setter
    def tokens(self, value: object) -> None:
        self._tokens = _tokens(value)

    @property
    def spec_candidate_ids(self) -> list[int]:
        """Draft candidates, as a fresh list."""
        return list(self._spec_candidate_ids)

    @spec_candidate_ids.setter
    def spec_candidate_ids(self, value: object) -> None:
        self._spec_candidate_ids = _tokens(value)

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.ExtendResult(self._request_id, self._tokens, self._spec_candidate_ids)


class _ById(Bound):
    __slots__ = ("_request_id",)

    request_id = Field(string)

    def __init__(self) -> None:
        """Empty id."""
        self._request_id = ""


class Finish(_ById):
    """The request is done."""

    __slots__ = ()

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.Finish(self._request_id)


class Abort(_ById):
    """The request is given up."""

    __slots__ = ()

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.Abort(self._request_id)


class Retract(_ById):
    """The runtime takes the request's pages back."""

    __slots__ = ()

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.Retract(self._request_id)


class UpdateReserveNumTokens(_ById):
    """Sets what the next decode of the request consumes."""

    __slots__ = ("_reserve_num_tokens_in_next_schedule_event",)

    reserve_num_tokens_in_next_schedule_event = Field(int32)

    def __init__(self) -> None:
        """Empty id, no tokens."""
        super().__init__()
        self._reserve_num_tokens_in_next_schedule_event = 0

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.UpdateReserve(self._request_id, self._reserve_num_tokens_in_next_schedule_event)


class WriteBackDoneEvent(Bound):
    """A store operation finished."""

    __slots__ = ("_op_id",)

    op_id = Field(uint32)

    def __init__(self) -> None:
        """Operation 0."""
        self._op_id = 0

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.WriteBackDone(self._op_id)


class LoadBackDoneEvent(Bound):
    """A load operation ended."""

    __slots__ = ("_op_id", "_success")

    op_id = Field(uint32)
    success = Field(boolean)

    def __init__(self, op_id: int, success: bool) -> None:
        """Both arguments are required."""
        self.op_id = op_id
        self.success = success

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.LoadBackDone(self.op_id, self.success)


class _PdEvent(Bound):
    __slots__ = ("_request_id",)

    def __init__(self, request_id: str) -> None:
        """An event about one request."""
        self._request_id = string(request_id)

    @property
    def request_id(self) -> str:
        """The request; read-only."""
        return self._request_id


class BootstrappedEvent(_PdEvent):
    """Both engines know the request."""

    __slots__ = ()

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.Bootstrapped(self._request_id)


class FailedEvent(_PdEvent):
    """The transfer failed."""

    __slots__ = ()

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.Failed(self._request_id)


class SucceededEvent(_PdEvent):
    """The peer acknowledged the transfer."""

    __slots__ = ()

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.Succeeded(self._request_id)


class RemotePrefillDoneEvent(_PdEvent):
    """The peer's prefill landed."""

    __slots__ = ("_bootstrap_token",)

    bootstrap_token = Field(int32)

    def __init__(self, request_id: str, bootstrap_token: int) -> None:
        """The request and its first generated token."""
        super().__init__(request_id)
        self.bootstrap_token = bootstrap_token

    def _to_core(self) -> core.Event:
        """The event as an immutable value."""
        return core.RemotePrefillDone(self._request_id, self.bootstrap_token)


_KINDS = frozenset(
    (
        ExtendResult,
        Finish,
        Abort,
        Retract,
        UpdateReserveNumTokens,
        WriteBackDoneEvent,
        LoadBackDoneEvent,
        BootstrappedEvent,
        FailedEvent,
        SucceededEvent,
        RemotePrefillDoneEvent,
    )
)


class ExecutionEvent(Bound):
    """Events to advance by, in order of insertion."""

    __slots__ = ("_events",)

    def __init__(self) -> None:
        """No events."""
        self._events: list[core.Event] = []

    def add_event(self, event: _Event) -> ExecutionEvent:
        """Add a copy of an event; returns this object."""
        if type(event) not in _KINDS:
            reject("an event", event)
        self._events.append(event._to_core())
        return self


def execution_event(events: Iterable[core.Event]) -> ExecutionEvent:
    """Wrap events that are values already; ours, for replay, which makes millions of them."""
    out = ExecutionEvent()
    out._events.extend(events)
    return out
