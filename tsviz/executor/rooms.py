"""A room of a P/D link: one request's meeting place, as one node sees it (`executor-rules.md` section 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tsviz.engine.events import Bootstrapped, PeerEvent, PeerFailed
from tsviz.engine.workloads.model import WorkRequest
from tsviz.executor.manifest import Manifest
from tsviz.executor.messages import Status
from tsviz.executor.refusal import Failures, Why
from tsviz.executor.wire import Wire
from tsviz.trace.order.ops import Op


class Stage(Enum):
    """How far a room is; a failed one stays failed."""

    OPEN = 0
    BOOTSTRAPPED = 1
    TRANSFERRING = 2
    DONE = 3
    FAILED = 4


@dataclass(slots=True)
class Room:
    """`request` is there once this node has submitted it. `manifest` is what is to come or to go, `ops` what copies it;
    `since_ns` is when this node began to wait for the peer; `told` once the scheduler knows the end, `why` it failed.

    On P `sent` are the blocks that went ahead layer by layer (group, index in the manifest). On D `landed` is what came
    (group, index, layer; None is all layers), `missing_bytes` what is still to come, `status` P's token and candidates;
    `zeroing` is what the manifest waits for, None once it went out.
    """

    request_id: str
    request: WorkRequest | None = None
    stage: Stage = Stage.OPEN
    why: Why | None = None
    since_ns: int = 0
    manifest: Manifest | None = None
    ops: list[Op] = field(default_factory=list)
    sent: set[tuple[str, int]] = field(default_factory=set)
    landed: set[tuple[str, int, int | None]] = field(default_factory=set)
    missing_bytes: int = 0
    zeroing: Op | None = None
    status: Status | None = None
    told: bool = False

    @property
    def registered(self) -> bool:
        """Whether this node has submitted the request."""
        return self.request is not None

    @property
    def asked(self) -> Manifest | None:
        """What a decode node has asked its peer for; None until its pages are zeroed and the manifest is out."""
        return None if self.zeroing is not None else self.manifest

    @property
    def is_over(self) -> bool:
        """Whether nothing more is taken from the peer."""
        return self.stage in (Stage.DONE, Stage.FAILED)

    @property
    def has_landed(self) -> bool:
        """Whether every page and the status are in."""
        return self.status is not None and self.manifest is not None and not self.missing_bytes

    @property
    def has_everything(self) -> bool:
        """Whether nothing more is to come from the peer: a transfer that is out, or pages and status that are in."""
        return self.stage is Stage.TRANSFERRING or self.has_landed


GIVEN_UP = Why("its client gave up")
"""Why a room fails that a client aborts: no failure to the node that it asks."""


class Rooms:
    """The rooms of one node that are open, and the events that the loop has not been told; `failures` say why."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._open: dict[str, Room] = {}
        self._over: set[str] = set()
        self.failures = Failures()
        self._events: deque[tuple[PeerEvent, Sequence[int]]] = deque()

    def __iter__(self) -> Iterator[Room]:
        return iter(list(self._open.values()))

    def __getitem__(self, request_id: str) -> Room:
        return self._open[request_id]

    def get(self, request_id: str) -> Room | None:
        """Return an open room; None where there is none."""
        return self._open.get(request_id)

    def opened(self, request_id: str) -> Room:
        """Return a request's room, opened if it was not."""
        self._over.discard(request_id)
        return self._open.setdefault(request_id, Room(request_id))

    def is_over(self, request_id: str) -> bool:
        """Return whether news of a room comes too late."""
        return request_id in self._over

    def close(self, request_id: str) -> None:
        """Close a room; a peer that still waits is told."""
        room = self._open.pop(request_id, None)
        if room is not None and not room.is_over:
            self.fail(room, Why("the request ended without its transfer"))
        self._over.add(request_id)

    def fail(self, room: Room, why: Why) -> None:
        """Let a room fail and tell the peer; the scheduler is told once nothing of it is in flight."""
        room.stage, room.why = Stage.FAILED, why
        self._wire.send({"kind": "failed", "room": room.request_id, "why": why.kind, "detail": why.detail})

    def failed(self, room: Room) -> None:
        """Nothing of a room that failed is in flight any more."""
        room.told = True
        self.post(PeerFailed(room.request_id))
        if room.why is not None and room.why != GIVEN_UP:
            self.failures.whys[room.request_id] = room.why

    def bootstrapped(self, room: Room) -> None:
        """A manifest is there for a request that is."""
        room.stage = Stage.BOOTSTRAPPED
        self.post(Bootstrapped(room.request_id))

    def post(self, event: PeerEvent, candidates: Sequence[int] = ()) -> None:
        """Keep an event for the loop."""
        self._events.append((event, candidates))

    @property
    def unknown(self) -> int:
        """How many rooms the peer has opened whose requests are not here."""
        return sum(not room.registered for room in self._open.values())

    @property
    def has_events(self) -> bool:
        """Whether the loop has something to be told."""
        return bool(self._events)

    def take_events(self) -> Sequence[tuple[PeerEvent, Sequence[int]]]:
        """Return what the loop was not told yet, once."""
        events, self._events = list(self._events), deque()
        return events
