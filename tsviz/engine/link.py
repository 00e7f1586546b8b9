"""The simulated link of a P/D pair: rooms, messages with a time, failures (`executor-rules.md` section 5).

A failure on either side is told to both, once, and never before the transfer has been cancelled and joined.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tsviz.engine.clock import Clock
from tsviz.engine.configs import Role
from tsviz.engine.device import Planned
from tsviz.engine.events import Bootstrapped, PeerEvent, PeerFailed, RemotePrefillDone, Succeeded
from tsviz.engine.faults import seeded_unit
from tsviz.engine.workloads.model import WorkRequest


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """What the link costs and what goes wrong on it. Transfers of different requests do not slow each other down.

    A transfer takes `transfer_ns` plus `transfer_token_ns` for every token of the prompt; cancelling one takes
    `cancel_ns`. A lost manifest ends in P's timeout. Faults are by request id or by a seeded rate.
    """

    seed: int = 0
    manifest_ns: int = 200_000
    transfer_ns: int = 1_000_000
    transfer_token_ns: int = 1_000
    cancel_ns: int = 1_000_000
    bootstrap_timeout_ns: int = 120_000_000_000
    waiting_timeout_ns: int = 300_000_000_000
    lost_manifests: frozenset[str] = frozenset()
    lost_manifest_rate: float = 0.0
    failed_transfers: frozenset[str] = frozenset()
    failed_transfer_rate: float = 0.0


class _Stage(Enum):
    """How far a room has come."""

    OPEN = 0
    MANIFEST = 1
    BOOTSTRAPPED = 2
    TRANSFERRING = 3
    DONE = 4
    FAILED = 5


_BEFORE_BOOTSTRAP = frozenset({_Stage.OPEN, _Stage.MANIFEST})
_BEFORE_DONE = frozenset({_Stage.MANIFEST, _Stage.BOOTSTRAPPED, _Stage.TRANSFERRING})


class _Message(NamedTuple):
    """What one side will be told and when; without an event it is a timeout that counts in `stages` only."""

    due_ns: int
    sequence: int
    room: _Room
    event: PeerEvent | None
    candidates: Sequence[int]
    stages: frozenset[_Stage]

    @property
    def stale(self) -> bool:
        """Whether what it says is overtaken."""
        if self.event is None:
            return self.room.stage not in self.stages
        return self.room.stage is _Stage.FAILED and not isinstance(self.event, PeerFailed)


@dataclass(slots=True)
class _Room:
    """One request's meeting place."""

    request_id: str
    prompt_tokens: int
    stage: _Stage = _Stage.OPEN
    registered: set[Role] = field(default_factory=set)
    ended: set[Role] = field(default_factory=set)
    held: list[tuple[Role, _Message]] = field(default_factory=list)


class Link:
    """Both ends share one: `side` gives each node its own."""

    def __init__(self, options: LinkOptions, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        self.mail: dict[Role, list[_Message]] = {Role.P: [], Role.D: []}
        self.rooms: dict[str, _Room] = {}
        self._sequence = 0

    def side(self, role: Role) -> LinkSide:
        """Return the end of the node with this role."""
        return LinkSide(self, role)

    def room(self, request: WorkRequest) -> _Room:
        """Return the request's room; the first to come opens it."""
        return self.rooms.setdefault(request.request_id, _Room(request.request_id, request.prompt_tokens))

    def post(
        self,
        role: Role,
        room: _Room,
        event: PeerEvent | None,
        after_ns: int,
        *,
        candidates: Sequence[int] = (),
        stages: frozenset[_Stage] = frozenset(),
    ) -> None:
        """Let the side hear it after a while; one that has not submitted the request yet hears it when it has."""
        self._sequence += 1
        message = _Message(self.clock.now_ns() + after_ns, self._sequence, room, event, candidates, stages)
        if role in room.registered:
            heapq.heappush(self.mail[role], message)
        else:
            room.held.append((role, message))

    def fail(self, room: _Room) -> None:
        """Give the room up: whoever is still in it is told, after the transfer was cancelled."""
        after_ns = self.options.cancel_ns if room.stage is _Stage.TRANSFERRING else 0
        room.stage = _Stage.FAILED
        for role in (Role.D, Role.P):
            if role not in room.ended:
                self.post(role, room, PeerFailed(room.request_id), after_ns)

    def is_faulty(self, what: str, request_id: str, named: frozenset[str], rate: float) -> bool:
        """Return whether this request was chosen for this fault."""
        return request_id in named or (rate > 0 and seeded_unit(self.options.seed, what, request_id) < rate)


class LinkSide:
    """Implements `RemoteSide` for one node."""

    def __init__(self, link: Link, role: Role) -> None:
        self._link = link
        self._role = role
        self._mail = link.mail[role]

    def registered(self, request: WorkRequest) -> None:
        """D bootstraps at once; P waits for the manifest, for so long."""
        link, room = self._link, self._link.room(request)
        room.registered.add(self._role)
        for role, message in [held for held in room.held if held[0] is self._role]:
            heapq.heappush(link.mail[role], message)
        room.held = [held for held in room.held if held[0] is not self._role]
        if self._role is Role.D:
            link.post(Role.D, room, Bootstrapped(request.request_id), 0)
        else:
            link.post(Role.P, room, None, link.options.bootstrap_timeout_ns, stages=_BEFORE_BOOTSTRAP)

    def executed(self, planned: Planned) -> None:
        """D sends a manifest for its remote prefill; P starts the transfers of its remote decodes."""
        if self._role is Role.D and planned.remote_prefill is not None:
            for request_id in planned.remote_prefill.request_ids:
                self._send_manifest(self._link.rooms[request_id])
        elif self._role is Role.P and planned.remote_decode is not None:
            batch = planned.remote_decode
            rows = zip(batch.request_ids, batch.decode_input_ids, batch.spec_candidate_ids, strict=True)
            for request_id, token, candidates in rows:
                self._start_transfer(self._link.rooms[request_id], token, candidates)

    def poll(self) -> Sequence[tuple[PeerEvent, Sequence[int]]]:
        """Return the events that are due; a timeout that is due fails its room."""
        mail, link = self._mail, self._link
        events: list[tuple[PeerEvent, Sequence[int]]] = []
        while mail and (mail[0].stale or mail[0].due_ns <= link.clock.now_ns()):
            message = heapq.heappop(mail)
            room, event = message.room, message.event
            if message.stale:
                continue
            if event is None:
                link.fail(room)
                continue
            if isinstance(event, Bootstrapped) and self._role is Role.P:
                room.stage = _Stage.BOOTSTRAPPED
            elif isinstance(event, Succeeded | RemotePrefillDone):
                room.stage = _Stage.DONE
            events.append((event, message.candidates))
        return events

    def abort(self, request_id: str) -> bool:
        """Cancel a transfer that may write into our pages; elsewhere the node may abort by itself."""
        room = self._link.rooms[request_id]
        if room.stage in _BEFORE_DONE:
            self._link.fail(room)
        return room.stage is _Stage.FAILED

    def ended(self, request_id: str) -> None:
        """Close the room from this side; the peer's request cannot go on without a transfer that was done."""
        room = self._link.rooms[request_id]
        room.ended.add(self._role)
        if room.stage is not _Stage.DONE and room.stage is not _Stage.FAILED:
            self._link.fail(room)
        if len(room.ended) == 2:
            del self._link.rooms[request_id]

    def next_change_ns(self) -> int | None:
        """Return when this side may next hear something."""
        mail = self._mail
        while mail and mail[0].stale:
            heapq.heappop(mail)
        return mail[0].due_ns if mail else None

    def _send_manifest(self, room: _Room) -> None:
        if room.stage is not _Stage.OPEN:
            return  # The room is dead, or a retracted request rides the row again (`scheduler-rules.md` section 13.1).
        link, options = self._link, self._link.options
        room.stage = _Stage.MANIFEST
        link.post(Role.D, room, None, options.waiting_timeout_ns, stages=_BEFORE_DONE)
        if not link.is_faulty("manifest", room.request_id, options.lost_manifests, options.lost_manifest_rate):
            link.post(Role.P, room, Bootstrapped(room.request_id), options.manifest_ns)

    def _start_transfer(self, room: _Room, token: int, candidates: Sequence[int]) -> None:
        if room.stage is not _Stage.BOOTSTRAPPED:
            return  # The room failed while the row was planned: the peer's failure is on its way.
        link, options = self._link, self._link.options
        room.stage = _Stage.TRANSFERRING
        taken_ns = options.transfer_ns + options.transfer_token_ns * room.prompt_tokens
        if link.is_faulty("transfer", room.request_id, options.failed_transfers, options.failed_transfer_rate):
            link.post(Role.P, room, None, taken_ns, stages=frozenset({_Stage.TRANSFERRING}))
            return
        link.post(Role.D, room, RemotePrefillDone(room.request_id, token), taken_ns, candidates=candidates)
        link.post(Role.P, room, Succeeded(room.request_id), taken_ns)
