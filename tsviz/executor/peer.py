"""One node's end of a real P/D link: manifests, pages and status over a wire (`executor-rules.md` section 5).

A failure is told to the scheduler once, and never before what may still write into our pages was cancelled and has
ended. News of a room that is over is dropped. Whatever a peer says that is not true fails the room that it names, and
nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from tsviz.engine.binding import Batch
from tsviz.engine.clock import Clock
from tsviz.engine.configs import Role
from tsviz.engine.device import Planned
from tsviz.engine.events import Bootstrapped, PeerEvent, RemotePrefillDone, Succeeded
from tsviz.engine.workloads.model import WorkRequest
from tsviz.executor.arena import Arena
from tsviz.executor.device import ExecutorDevice
from tsviz.executor.handover import Sender
from tsviz.executor.landing import Landing
from tsviz.executor.manifest import Manifest
from tsviz.executor.messages import BROKEN, Failed, Message, NoRoom, Page, Status, message_of, room_of
from tsviz.executor.options import Fault
from tsviz.executor.refusal import Failures, RoomFails, Why
from tsviz.executor.rooms import GIVEN_UP, Room, Rooms, Stage
from tsviz.executor.shape import ModelShape
from tsviz.executor.wire import Frame, Wire

POLL_NS = 1_000_000
"""How soon to look again while something is expected from the peer."""
UNASKED = "the scheduler takes it up again as if computed (A5 in docs/failures.md)"
"""Kind of reason: a decode node's request that landed, lost its pages, and that no peer is to compute again."""
MOST_UNKNOWN_ROOMS = 10_000
"""Rooms that a peer may open before this node has submitted their requests."""


@dataclass(frozen=True, slots=True)
class PeerTimeouts:
    """How long a prefill node waits for a manifest, and a decode node for what it has asked for."""

    bootstrap_ns: int = 120_000_000_000
    waiting_ns: int = 300_000_000_000


class PeerSide:
    """Implements `RemoteSide` for one node, over a wire whose ends have greeted each other (`greeting`)."""

    def __init__(
        self, role: Role, wire: Wire, device: ExecutorDevice, arena: Arena, shape: ModelShape, clock: Clock,
        timeouts: PeerTimeouts | None = None, *, layerwise: bool = False,
    ) -> None:  # fmt: skip
        """`layerwise`: a prefill node sends each layer's pages while the prompt is computed."""
        self._role, self._wire, self._device, self._layerwise = role, wire, device, layerwise
        self._shape, self._layout = shape, arena.layout
        self._sender = Sender(wire, device, arena, shape)
        self._landing = Landing(wire, device, arena, shape, clock)
        self._clock, self._timeouts = clock, timeouts or PeerTimeouts()
        self._rooms = Rooms(wire)
        self._polled_ns = 0
        wire.most_body_bytes = max(group.payload_bytes for group in arena.layout.groups)

    @property
    def moved_bytes(self) -> int:
        """How many bytes of pages went or came."""
        return self._sender.moved_bytes + self._landing.moved_bytes

    @property
    def failures(self) -> Failures:
        """The requests of which the scheduler was told that they failed, and why."""
        return self._rooms.failures

    def registered(self, request: WorkRequest) -> None:
        """D is bootstrapped at once; P once a manifest is there."""
        room = self._rooms.opened(request.request_id)
        room.request, room.since_ns = request, self._clock.now_ns()
        if room.is_over:
            return
        if self._role is Role.D:
            self._rooms.post(Bootstrapped(request.request_id))
        elif room.manifest is not None:
            self._guarded(room, partial(self._bootstrap, room))

    def executed(self, planned: Planned) -> None:
        """D publishes manifests once its pages are zeroed; P sends pages and status."""
        if planned.remote_prefill is not None:
            self._refuse_returned(planned.remote_prefill)
            self._each(planned.remote_prefill, Stage.OPEN, self._landing.publish)
        if self._layerwise and self._role is Role.P:
            for row, request_id in enumerate(planned.request_ids):
                room = self._rooms[request_id]
                if room.stage is Stage.BOOTSTRAPPED:
                    self._guarded(room, partial(self._sender.chunk, room, planned, row))
        if planned.remote_decode is not None:
            self._each(planned.remote_decode, Stage.BOOTSTRAPPED, self._sender.finish)

    def poll(self) -> Sequence[tuple[PeerEvent, Sequence[int]]]:
        """Take what has come, see what has ended, and return the events."""
        lost = self._wire.lost
        while self._wire.frames:
            self._take(self._wire.frames.popleft())
        self._polled_ns = now_ns = self._clock.now_ns()
        for room in self._rooms:
            if not room.is_over and lost is not None and not room.has_everything:
                self._rooms.fail(room, Why("the connection ended", lost))
            if not room.is_over and (late := self._late(room, now_ns)) is not None:
                self._rooms.fail(room, late)
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
            self._rooms.fail(room, GIVEN_UP)
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

    def _late(self, room: Room, now_ns: int) -> Why | None:
        """Return why a room fails that has waited too long for the peer; None while it may wait."""
        if self._role is Role.P:
            waits, limit_ns, what = room.stage is Stage.OPEN, self._timeouts.bootstrap_ns, "manifest"
        else:
            waits, limit_ns, what = room.asked is not None and not room.has_landed, self._timeouts.waiting_ns, "pages"
        if room.registered and waits and now_ns - room.since_ns > limit_ns:
            return Why(f"the peer is connected and sent no {what} within {limit_ns / 1e9:g} s")
        return None

    def _settle(self, room: Room) -> None:
        """Report what a room has come to once nothing of it is in flight."""
        hurries = room.stage is Stage.FAILED and Fault.EARLY_FAILURE in self._device.options.faults
        in_flight = not hurries and not all(self._device.queue.ended(op) for op in room.ops)
        if room.told or not room.registered or in_flight:
            return
        if room.stage is Stage.FAILED:
            self._rooms.failed(room)
        elif room.stage is Stage.TRANSFERRING and self._role is Role.P:
            room.told, room.stage = True, Stage.DONE
            self._rooms.post(Succeeded(room.request_id))
        elif room.status is not None and room.has_landed:
            room.told, room.stage = True, Stage.DONE
            self._rooms.post(RemotePrefillDone(room.request_id, room.status.token), room.status.candidates)

    def _each(self, batch: Batch, stage: Stage, start: Callable[[Room, Batch, int], None]) -> None:
        for row, request_id in enumerate(batch.request_ids):
            room = self._rooms[request_id]
            if room.stage is stage:  # else it failed while the row was planned; its end is on the way
                self._guarded(room, partial(start, room, batch, row))

    def _refuse_returned(self, batch: Batch) -> None:
        """Fail those that have landed before: the next plan decodes them, and nobody computes what they lost."""
        rows = zip(batch.request_ids, batch.extend_prefix_lens, batch.prefill_lengths, strict=True)
        for request_id, begin, end in rows:
            room = self._rooms[request_id]
            if room.stage is Stage.DONE:
                room.told = False
                self._rooms.fail(room, Why(UNASKED, f"tokens {begin} to {end} are lost"))

    def _guarded(self, room: Room, act: Callable[[], None]) -> None:
        try:
            act()
        except RoomFails as error:
            self._rooms.fail(room, error.why)

    def _take(self, frame: Frame) -> None:
        try:
            request_id = room_of(frame)
        except NoRoom as error:
            self._wire.end(str(error))
            return
        if self._rooms.is_over(request_id):
            return
        if self._rooms.get(request_id) is None and self._rooms.unknown >= MOST_UNKNOWN_ROOMS:
            self._wire.end(f"more than {MOST_UNKNOWN_ROOMS:,} rooms of requests that are not here")
            return
        room = self._rooms.opened(request_id)
        if not room.is_over:
            self._guarded(room, lambda: self._hear(room, message_of(frame)))

    def _hear(self, room: Room, message: Message) -> None:
        match message:
            case Failed(why):
                room.stage, room.why = Stage.FAILED, why
            case Page() if self._role is Role.D:
                self._landing.land(room, message)
            case Status() if self._role is Role.D:
                self._landing.take(room, message)
            case Manifest() if self._role is Role.P and room.manifest is None:
                room.manifest = message
                if room.registered:
                    self._bootstrap(room)
            case _:
                raise RoomFails(
                    BROKEN, f"{type(message).__name__.lower()}: not now, or not for node {self._role.value}"
                )

    def _bootstrap(self, room: Room) -> None:
        assert room.request is not None, "a request of this node"
        assert room.manifest is not None, "its manifest has come"
        room.manifest.check(room.request, self._shape, self._layout)
        self._rooms.bootstrapped(room)
