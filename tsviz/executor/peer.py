"""One node's end of a real P/D link: manifests, pages and status over a wire (`executor-rules.md` section 5).

A failure is told to the scheduler once, and never before what may still write into our pages was cancelled and has
ended. News of a room that is over is dropped.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import torch

from tsviz.engine.binding import Batch
from tsviz.engine.clock import Clock
from tsviz.engine.configs import Role
from tsviz.engine.device import Planned
from tsviz.engine.events import Bootstrapped, PeerEvent, PeerFailed, RemotePrefillDone, Succeeded
from tsviz.engine.workloads.model import WorkRequest
from tsviz.executor.arena import Arena
from tsviz.executor.device import ExecutorDevice
from tsviz.executor.layout import GroupLayout
from tsviz.executor.manifest import BadManifest, Manifest, select_pages
from tsviz.executor.options import Edge
from tsviz.executor.order import Kind, Op, Stream, merged
from tsviz.executor.shape import ModelShape
from tsviz.executor.wire import Frame, Wire

POLL_NS = 1_000_000
"""How soon to look again while something is expected from the peer."""


@dataclass(frozen=True, slots=True)
class PeerTimeouts:
    """How long a prefill node waits for a manifest, and a decode node for its pages."""

    bootstrap_ns: int = 120_000_000_000
    waiting_ns: int = 300_000_000_000


class _Stage(Enum):
    OPEN = 0
    BOOTSTRAPPED = 1
    TRANSFERRING = 2
    DONE = 3
    FAILED = 4


@dataclass(slots=True)
class _Room:
    """One request's meeting place, as this node sees it; `pages` are what is to come or to go, by group."""

    request_id: str
    registered: bool = False
    stage: _Stage = _Stage.OPEN
    since_ns: int = 0
    manifest: Manifest | None = None
    ops: list[Op] = field(default_factory=list)
    landed: int = 0
    status: tuple[int, list[int]] | None = None
    told: bool = False

    @property
    def has_everything(self) -> bool:
        """Whether nothing more is to come from the peer: a transfer that is out, or pages and status that are in."""
        arrived = self.status is not None and self.manifest is not None and self.landed == self.manifest.blocks
        return self.stage is _Stage.TRANSFERRING or arrived


class PeerSide:
    """Implements `RemoteSide` for one node."""

    def __init__(
        self, role: Role, wire: Wire, device: ExecutorDevice, arena: Arena, shape: ModelShape, clock: Clock,
        timeouts: PeerTimeouts | None = None,
    ) -> None:  # fmt: skip
        self._role, self._wire, self._device, self._arena, self._shape = role, wire, device, arena, shape
        self._clock, self._timeouts = clock, timeouts or PeerTimeouts()
        self._granularity = {group.name: group.granularity for group in arena.layout.groups}
        self._rooms: dict[str, _Room] = {}
        self._over: set[str] = set()
        self._events: deque[tuple[PeerEvent, Sequence[int]]] = deque()
        self.moved_bytes = self._polled_ns = 0
        wire.send({"kind": "hello", "layout": arena.layout.signature})

    def registered(self, request: WorkRequest) -> None:
        """D is bootstrapped at once; P once a manifest is there."""
        room = self._room(request.request_id)
        room.registered, room.since_ns = True, self._clock.now_ns()
        if self._role is Role.D:
            self._post(Bootstrapped(request.request_id))
        elif room.manifest is not None:
            self._bootstrapped(room)

    def executed(self, planned: Planned) -> None:
        """D publishes manifests once its pages are zeroed; P sends pages and status."""
        if planned.remote_prefill is not None and planned.remote_prefill.request_ids:
            self._publish(planned.remote_prefill)
        if planned.remote_decode is not None and planned.remote_decode.request_ids:
            self._send(planned.remote_decode)

    def poll(self) -> Sequence[tuple[PeerEvent, Sequence[int]]]:
        """Take what has come, see what has ended, and return the events."""
        while self._wire.frames:
            self._take(self._wire.frames.popleft())
        self._polled_ns = now_ns = self._clock.now_ns()
        for room in list(self._rooms.values()):
            limit_ns = self._timeouts.bootstrap_ns if self._role is Role.P else self._timeouts.waiting_ns
            waits = room.stage is _Stage.OPEN or self._role is Role.D
            late = room.registered and waits and now_ns - room.since_ns > limit_ns
            lost = self._wire.lost is not None and not room.has_everything
            if room.stage not in (_Stage.DONE, _Stage.FAILED) and (late or lost):
                self._fail(room)
            self._settle(room)
        events, self._events = list(self._events), deque()
        return events

    def abort(self, request_id: str) -> bool:
        """Cancel; the failure is reported once nothing is in flight any more."""
        room = self._rooms.get(request_id)
        if room is None or room.stage is _Stage.DONE:
            return False
        if room.stage is not _Stage.FAILED:
            self._fail(room)
        return True

    def ended(self, request_id: str) -> None:
        """Close the room; a peer that still waits is told."""
        room = self._rooms.pop(request_id, None)
        if room is not None and room.stage not in (_Stage.DONE, _Stage.FAILED):
            self._wire.send({"kind": "failed", "room": request_id})
        self._over.add(request_id)

    def next_change_ns(self) -> int | None:
        """Return when to look again while a room is open; None when nothing is expected.

        Counted from the last look: where two nodes share a thread, the one that looked longer ago comes first.
        """
        waiting = any(room.registered and not room.told for room in self._rooms.values())
        return self._polled_ns + POLL_NS if waiting or self._events or self._wire.frames else None

    def _room(self, request_id: str) -> _Room:
        self._over.discard(request_id)
        return self._rooms.setdefault(request_id, _Room(request_id))

    def _post(self, event: PeerEvent, candidates: Sequence[int] = ()) -> None:
        self._events.append((event, candidates))

    def _bootstrapped(self, room: _Room) -> None:
        room.stage = _Stage.BOOTSTRAPPED
        self._post(Bootstrapped(room.request_id))

    def _fail(self, room: _Room) -> None:
        room.stage = _Stage.FAILED
        self._wire.send({"kind": "failed", "room": room.request_id})

    def _settle(self, room: _Room) -> None:
        """Report what a room has come to once nothing of it is in flight."""
        if room.told or not room.registered or not all(self._device.queue.ended(op) for op in room.ops):
            return
        if room.stage is _Stage.FAILED:
            room.told = True
            self._post(PeerFailed(room.request_id))
        elif room.stage is _Stage.TRANSFERRING and self._role is Role.P:
            room.told, room.stage = True, _Stage.DONE
            self._post(Succeeded(room.request_id))
        elif room.status is not None and room.has_everything:
            room.told, room.stage = True, _Stage.DONE
            token, candidates = room.status
            self._post(RemotePrefillDone(room.request_id, token), candidates)

    def _publish(self, batch: Batch) -> None:
        queue, device = self._device.queue, self._device
        if device.last_zero is not None and Edge.ZERO_REMOTE not in device.options.omitted:
            queue.wait(device.last_zero)
        tables, slots = batch.block_tables_arrays(), batch.request_pool_indices  # type: ignore[attr-defined]
        prefixes, prompts = batch.extend_prefix_lens, batch.prefill_lengths
        for row, request_id in enumerate(batch.request_ids):
            room = self._rooms[request_id]
            if room.stage is not _Stage.OPEN:
                continue
            device.view.land(request_id, slots[row], prompts[row])
            pages = select_pages(self._shape, self._granularity, tables, row, prefixes[row], prompts[row])
            room.manifest = Manifest(request_id, prefixes[row], prompts[row], pages)
            room.stage = _Stage.BOOTSTRAPPED
            device.counts["landing behind a prefix" if prefixes[row] else "landing"] += 1
            self._wire.send(room.manifest.told())

    def _send(self, batch: Batch) -> None:
        tables, device = batch.block_tables_arrays(), self._device
        rows = zip(batch.request_ids, batch.decode_input_ids, batch.spec_candidate_ids, strict=True)
        for row, (request_id, token, candidates) in enumerate(rows):
            room = self._rooms[request_id]
            if room.stage is not _Stage.BOOTSTRAPPED or room.manifest is None:
                continue  # It failed while the row was planned; its end is on the way.
            theirs = room.manifest
            pages = select_pages(
                self._shape, self._granularity, tables, row, theirs.prefix_tokens, theirs.prompt_tokens
            )
            if {name: len(ids) for name, ids in pages.items()} != {n: len(ids) for n, ids in theirs.pages.items()}:
                self._fail(room)
                continue
            moves = [
                (self._arena.layout.group(name), i, page) for name, ids in pages.items() for i, page in enumerate(ids)
            ]

            def run(moves: Sequence[tuple[GroupLayout, int, int]] = moves, request_id: str = request_id) -> None:
                for group, index, page in moves:
                    body = self._arena.read_block(group, page)
                    head = {"kind": "page", "room": request_id, "group": group.name, "index": index}
                    self._wire.send(head | {"crc": zlib.crc32(body)}, body)
                    self.moved_bytes += len(body)

            op = device.queue.submit(
                Stream.PEER, Kind.SEND, run, [device.queue.last_exec],
                reads=merged(r for group, _, page in moves for r in group.device_ranges(page)),
            )  # fmt: skip
            room.ops.append(op)
            room.stage = _Stage.TRANSFERRING
            device.queue.wait(op)
            self._wire.send(
                {"kind": "status", "room": request_id, "token": int(token), "candidates": [int(c) for c in candidates]}
            )
            device.counts["hand-over"] += 1

    def _take(self, frame: Frame) -> None:
        kind, request_id = frame.head.get("kind"), str(frame.head.get("room"))
        if kind == "hello":
            if frame.head.get("layout") != self._arena.layout.signature:
                self._wire.lost = "the peer's layout is another one"
            return
        if request_id in self._over:
            return
        room = self._room(request_id)
        if room.stage in (_Stage.FAILED, _Stage.DONE):
            return
        if kind == "failed":
            room.stage = _Stage.FAILED
        elif kind == "manifest" and self._role is Role.P:
            self._manifest(room, frame)
        elif kind == "page" and self._role is Role.D:
            self._land(room, frame)
        elif kind == "status" and self._role is Role.D:
            room.status = (int(frame.head["token"]), [int(c) for c in frame.head["candidates"]])

    def _manifest(self, room: _Room, frame: Frame) -> None:
        try:
            room.manifest = Manifest.heard(frame.head)
        except BadManifest:
            self._fail(room)
            return
        if room.registered:
            self._bootstrapped(room)

    def _land(self, room: _Room, frame: Frame) -> None:
        head, body = frame
        ids = () if room.manifest is None else room.manifest.pages.get(str(head.get("group")), ())
        index = head.get("index")
        if not isinstance(index, int) or not 0 <= index < len(ids) or zlib.crc32(body) != head.get("crc"):
            self._fail(room)
            return
        group = self._arena.layout.group(str(head["group"]))
        if len(body) != group.payload_bytes:
            self._fail(room)
            return
        room.landed += 1

        def run() -> None:
            self._arena.write_block(group, ids[index], torch.frombuffer(bytearray(body), dtype=torch.uint8))

        writes = merged(group.device_ranges(ids[index]))
        room.ops.append(self._device.queue.submit(Stream.PEER, Kind.RECEIVE, run, writes=writes))
        self.moved_bytes += len(body)
