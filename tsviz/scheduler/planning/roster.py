"""Who is in which state, in submission order: the candidates of a round without a scan (seed 3)."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from collections.abc import Iterator

from tsviz.scheduler.decisions import Log, StateChange
from tsviz.scheduler.request import Request
from tsviz.scheduler.states import (
    BOOTSTRAPPING,
    DECODING,
    FINISHED,
    PREFILL_AWAITING_RESULT,
    PREFILL_DONE,
    PREFILLING,
    REMOTE_PREFILLING,
    RETRACTED,
    STATE_NAMES,
    SUBMITTED,
)


def _order(request: Request) -> int:
    return request.order


class Roster:
    """All known requests; sorted lists for the states that phases walk; free request slots."""

    __slots__ = (
        "by_id",
        "counts",
        "decoding",
        "finished",
        "log",
        "prefilling",
        "recoverable",
        "slots",
        "submitted",
        "waiting",
    )

    def __init__(self, slots: int) -> None:
        """No requests; slots 1..`slots` free, first in, first out."""
        self.by_id: dict[str, Request] = {}
        self.counts = [0] * (FINISHED + 1)
        self.waiting: list[Request] = []
        """Submitted, and Retracted without a recoverable snapshot: these admit like new."""
        self.recoverable: list[Request] = []
        """Retracted with a recoverable snapshot."""
        self.prefilling: list[Request] = []
        self.decoding: list[Request] = []
        """PrefillDone and Decoding."""
        self.finished: list[Request] = []
        self.slots = deque(range(1, slots + 1))
        self.submitted = 0
        self.log: Log | None = None

    def add(self, request: Request) -> None:
        """A new request in its initial state."""
        self.by_id[request.request_id] = request
        self.submitted += 1
        self._enter(request)
        if self.log is not None:
            self.log.tell(StateChange(request.request_id, "", STATE_NAMES[request.state]))

    def adopt(self, request: Request) -> None:
        """A request of a snapshot, in the state it is in. Finished ones are listed by the caller."""
        self.by_id[request.request_id] = request
        self._enter(request)

    def move(self, request: Request, state: int) -> None:
        """Change a request's state."""
        self._leave(request)
        if self.log is not None:
            self.log.tell(StateChange(request.request_id, STATE_NAMES[request.state], STATE_NAMES[state]))
        request.state = state
        self._enter(request)

    def first_decode(self, request: Request) -> None:
        """PrefillDone to Decoding: the walk list stays as it is."""
        self.counts[PREFILL_DONE] -= 1
        self.counts[DECODING] += 1
        request.state = DECODING
        if self.log is not None:
            self.log.tell(StateChange(request.request_id, "PrefillDone", "Decoding"))

    def reap(self) -> None:
        """Forget the requests that finished."""
        for request in self.finished:
            del self.by_id[request.request_id]
        self.finished.clear()
        self.counts[FINISHED] = 0

    def live(self) -> Iterator[Request]:
        """All requests in submission order, finished ones included until they are reaped."""
        return iter(self.by_id.values())

    @property
    def prefill_like(self) -> int:
        """Requests on their way through prefill, local or remote."""
        counts = self.counts
        return counts[PREFILLING] + counts[REMOTE_PREFILLING] + counts[PREFILL_AWAITING_RESULT] + counts[PREFILL_DONE]

    def _list_of(self, request: Request) -> list[Request] | None:
        state = request.state
        if state in (DECODING, PREFILL_DONE):
            return self.decoding
        if state == PREFILLING:
            return self.prefilling
        if state == SUBMITTED:
            return self.waiting
        if state == RETRACTED:
            return self.recoverable if request.recoverable else self.waiting
        if state == FINISHED:
            return self.finished
        assert state in (BOOTSTRAPPING, REMOTE_PREFILLING, PREFILL_AWAITING_RESULT)
        return None

    def _enter(self, request: Request) -> None:
        self.counts[request.state] += 1
        target = self._list_of(request)
        if target is None:
            return
        if not target or target[-1].order < request.order:
            target.append(request)
        else:
            insort(target, request, key=_order)

    def _leave(self, request: Request) -> None:
        self.counts[request.state] -= 1
        source = self._list_of(request)
        if source is not None:
            del source[bisect_left(source, request.order, key=_order)]
