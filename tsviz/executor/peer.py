"""One node's end of a real P/D link: manifests, pages and status over a wire (`executor-rules.md` section 5).

A failure is told to the scheduler once, and never before what may still write into our pages was cancelled and has
ended. News of a room that is over is dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsviz.engine.binding import Batch
from tsviz.engine.clock import Clock
from tsviz.engine.configs import Role
from tsviz.engine.device import Planned
from tsviz.engine.events import Bootstrapped, PeerEvent, PeerFailed, RemotePrefillDone, Succeeded
from tsviz.engine.workloads.model import WorkRequest
from tsviz.executor.arena import Arena
from tsviz.executor.device import ExecutorDevice
from tsviz.executor.handover import Sender
from tsviz.executor.landing import Landing
from tsviz.executor.manifest import BadManifest, Manifest
from tsviz.executor.options import Fault
from tsviz.executor.rooms import Room, Rooms, Stage
from tsviz.executor.shape import ModelShape
from tsviz.executor.wire import Frame, Wire

POLL_NS = 1_000_000
"""How soon to look again while something is expected from the peer."""


@dataclass(frozen=True, slots=True)
class PeerTimeouts:
    """How long a prefill node waits for a manifest, and a decode node for its pages."""

    bootstrap_ns: int = 120_000_000_000
    waiting_ns: int = 300_000_000_000


class PeerSide:
    """Implements `RemoteSide` for one node."""

    def __init__(
        self, role: Role, wire: Wire, device: ExecutorDevice, arena: Arena, shape: ModelShape, clock: Clock,
        timeouts: PeerTimeouts | None = None, *, layerwise: bool = False,
    ) -> None:  # fmt: skip
        """`layerwise`: a prefill node sends each layer's pages while the prompt is computed."""
        self._role, self._wire, self._device, self._layerwise = role, wire, device, layerwise
        self._signature = arena.layout.signature
        self._sender = Sender(wire, device, arena, shape)
        self._landing = Landing(wire, device, arena, shape)
        self._clock, self._timeouts = clock, timeouts or PeerTimeouts()
        self._rooms = Rooms(wire)
        self._polled_ns = 0
        wire.send({"kind": "hello", "layout": self._signature})

    @property
    def moved_bytes(self) -> int:
        """How many bytes of pages went or came."""
        return self._sender.moved_bytes + self._landing.moved_bytes

    def registered(self, request: WorkRequest) -> None:
        """D is bootstrapped at once; P once a manifest is there."""
        room = self._rooms.opened(request.request_id)
        room.registered, room.since_ns = True, self._clock.now_ns()
        if self._role is Role.D:
            self._rooms.post(Bootstrapped(request.request_id))
        elif room.manifest is not None:
            self._rooms.bootstrapped(room)

    def executed(self, planned: Planned) -> None:
        """D publishes manifests once its pages are zeroed; P sends pages and status."""
        if planned.remote_prefill is not None and planned.remote_prefill.request_ids:
            self._publish(planned.remote_prefill)
        if self._layerwise and self._role is Role.P:
            for row, request_id in enumerate(planned.request_ids):
                room = self._rooms[request_id]
                if room.stage is Stage.BOOTSTRAPPED and room.manifest is not None:
                    self._sender.chunk(room, room.manifest, planned, row)
        if planned.remote_decode is not None and planned.remote_decode.request_ids:
            self._send(planned.remote_decode)

    def poll(self) -> Sequence[tuple[PeerEvent, Sequence[int]]]:
        """Take what has come, see what has ended, and return the events."""
        while self._wire.frames:
            self._take(self._wire.frames.popleft())
        self._polled_ns = now_ns = self._clock.now_ns()
        for room in self._rooms:
            limit_ns = self._timeouts.bootstrap_ns if self._role is Role.P else self._timeouts.waiting_ns
            waits = room.stage is Stage.OPEN or self._role is Role.D
            late = room.registered and waits and now_ns - room.since_ns > limit_ns
            lost = self._wire.lost is not None and not room.has_everything
            if not room.is_over and (late or lost):
                self._rooms.fail(room)
            if not room.is_over:
                self._landing.tell(room)
            self._settle(room)
        return self._rooms.take_events()

    def abort(self, request_id: str) -> bool:
        """Cancel; the failure is reported once nothing is in flight any more."""
        room = self._rooms.get(request_id)
        if room is None or room.stage is Stage.DONE:
            return False
        if room.stage is not Stage.FAILED:
            self._rooms.fail(room)
        return True

    def ended(self, request_id: str) -> None:
        """Close the room; a peer that still waits is told."""
        self._rooms.close(request_id)

    def next_change_ns(self) -> int | None:
        """Return when to look again while a room is open; None when nothing is expected.

        Counted from the last look: where two nodes share a thread, the one that looked longer ago comes first.
        """
        waiting = any(room.registered and not room.told for room in self._rooms)
        expects = waiting or self._rooms.has_events or self._wire.frames
        return self._polled_ns + POLL_NS if expects else None

    def _settle(self, room: Room) -> None:
        """Report what a room has come to once nothing of it is in flight."""
        hurries = room.stage is Stage.FAILED and Fault.EARLY_FAILURE in self._device.options.faults
        in_flight = not hurries and not all(self._device.queue.ended(op) for op in room.ops)
        if room.told or not room.registered or in_flight:
            return
        if room.stage is Stage.FAILED:
            room.told = True
            self._rooms.post(PeerFailed(room.request_id))
        elif room.stage is Stage.TRANSFERRING and self._role is Role.P:
            room.told, room.stage = True, Stage.DONE
            self._rooms.post(Succeeded(room.request_id))
        elif room.status is not None and room.has_landed:
            room.told, room.stage = True, Stage.DONE
            token, candidates = room.status
            self._rooms.post(RemotePrefillDone(room.request_id, token), candidates)

    def _publish(self, batch: Batch) -> None:
        for row, request_id in enumerate(batch.request_ids):
            room = self._rooms[request_id]
            if room.stage is Stage.OPEN:
                self._landing.publish(room, batch, row)

    def _send(self, batch: Batch) -> None:
        for row, request_id in enumerate(batch.request_ids):
            room = self._rooms[request_id]
            if room.stage is not Stage.BOOTSTRAPPED or room.manifest is None:
                continue  # It failed while the row was planned; its end is on the way.
            if not self._sender.finish(room, room.manifest, batch, row):
                self._rooms.fail(room)

    def _take(self, frame: Frame) -> None:
        kind, request_id = frame.head.get("kind"), str(frame.head.get("room"))
        if kind == "hello":
            if frame.head.get("layout") != self._signature:
                self._wire.lost = "the peer's layout is another one"
            return
        if self._rooms.is_over(request_id):
            return
        room = self._rooms.opened(request_id)
        if room.stage in (Stage.FAILED, Stage.DONE):
            return
        if kind == "failed":
            room.stage = Stage.FAILED
        elif kind == "manifest" and self._role is Role.P:
            self._manifest(room, frame)
        elif kind == "page" and self._role is Role.D:
            if not self._landing.land(room, frame):
                self._rooms.fail(room)
        elif kind == "status" and self._role is Role.D:
            room.status = (int(frame.head["token"]), [int(c) for c in frame.head["candidates"]])

    def _manifest(self, room: Room, frame: Frame) -> None:
        try:
            room.manifest = Manifest.heard(frame.head)
        except BadManifest:
            self._rooms.fail(room)
            return
        if room.registered:
            self._rooms.bootstrapped(room)
