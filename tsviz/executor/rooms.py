"""A room of a P/D link: one request's meeting place, as one node sees it (`executor-rules.md` section 5)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tsviz.engine.events import Bootstrapped, PeerEvent
from tsviz.executor.manifest import Manifest
from tsviz.executor.ops import Op
from tsviz.executor.wire import Wire


class Stage(Enum):
    """How far a room is; a failed one stays failed."""

    OPEN = 0
    BOOTSTRAPPED = 1
    TRANSFERRING = 2
    DONE = 3
    FAILED = 4


@dataclass(slots=True)
class Room:
    """`manifest` is what is to come or to go, `ops` what copies it; `told` once the scheduler knows the end.

    On P `sent` are the blocks that went ahead layer by layer (group, index in the manifest). On D `landed` is what came
    (group, index, layer; None is all layers), `missing_bytes` what is still to come, `status` P's token and candidates;
    `zeroing` is what the manifest waits for, None once it went out.
    """

    request_id: str
    registered: bool = False
    stage: Stage = Stage.OPEN
    since_ns: int = 0
    manifest: Manifest | None = None
    ops: list[Op] = field(default_factory=list)
    sent: set[tuple[str, int]] = field(default_factory=set)
    landed: set[tuple[str, int, int | None]] = field(default_factory=set)
    missing_bytes: int = 0
    zeroing: Op | None = None
    status: tuple[int, list[int]] | None = None
    told: bool = False

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


class Rooms:
    """The rooms of one node that are open, and the events that the loop has not been told."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._open: dict[str, Room] = {}
        self._over: set[str] = set()
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
            self._wire.send({"kind": "failed", "room": request_id})
        self._over.add(request_id)

    def fail(self, room: Room) -> None:
        """Let a room fail and tell the peer; the scheduler is told once nothing of it is in flight."""
        room.stage = Stage.FAILED
        self._wire.send({"kind": "failed", "room": room.request_id})

    def bootstrapped(self, room: Room) -> None:
        """A manifest is there for a request that is."""
        room.stage = Stage.BOOTSTRAPPED
        self.post(Bootstrapped(room.request_id))

    def post(self, event: PeerEvent, candidates: Sequence[int] = ()) -> None:
        """Keep an event for the loop."""
        self._events.append((event, candidates))

    @property
    def has_events(self) -> bool:
        """Whether the loop has something to be told."""
        return bool(self._events)

    def take_events(self) -> Sequence[tuple[PeerEvent, Sequence[int]]]:
        """Return what the loop was not told yet, once."""
        events, self._events = list(self._events), deque()
        return events
