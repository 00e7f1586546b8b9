"""Events that the runtime feeds back (`scheduler-rules.md` 1.5 and 10.2), as immutable values."""

from __future__ import annotations

from typing import NamedTuple


class ExtendResult(NamedTuple):
    """A forward of the request landed; an intermediate chunk lands no tokens."""

    request_id: str
    tokens: tuple[int, ...] = ()
    spec_candidate_ids: tuple[int, ...] = ()


class Finish(NamedTuple):
    """The request is done."""

    request_id: str


class Abort(NamedTuple):
    """The request is given up."""

    request_id: str


class Retract(NamedTuple):
    """The runtime takes the request's pages back, without publishing anything."""

    request_id: str


class UpdateReserve(NamedTuple):
    """The next decode of the request consumes this many tokens."""

    request_id: str
    reserve_tokens: int


class WriteBackDone(NamedTuple):
    """A store operation finished."""

    op_id: int


class LoadBackDone(NamedTuple):
    """A load operation ended."""

    op_id: int
    success: bool


class Bootstrapped(NamedTuple):
    """Both engines of a PD pair know the request."""

    request_id: str


class Failed(NamedTuple):
    """The PD transfer of the request failed."""

    request_id: str


class Succeeded(NamedTuple):
    """The peer acknowledged the transfer."""

    request_id: str


class RemotePrefillDone(NamedTuple):
    """The peer's prefill landed; the token is its first one."""

    request_id: str
    bootstrap_token: int


Event = (
    ExtendResult
    | Finish
    | Abort
    | Retract
    | UpdateReserve
    | WriteBackDone
    | LoadBackDone
    | Bootstrapped
    | Failed
    | Succeeded
    | RemotePrefillDone
)
