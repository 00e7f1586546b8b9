"""How long a node of a pair waits for its peer, and when it looks again (`executor-rules.md` section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsviz.engine.configs import Role
from tsviz.executor.refusal import Why
from tsviz.executor.rooms import Room, Stage

LOOK_NS = 1_000_000_000
"""How soon to look again while only our scheduler, or the peer, can do anything for a room; its news wakes the node."""


@dataclass(frozen=True, slots=True)
class PeerTimeouts:
    """How long a prefill node waits for a manifest, and a decode node for what it has asked for."""

    bootstrap_ns: int = 120_000_000_000
    waiting_ns: int = 300_000_000_000


@dataclass(frozen=True, slots=True)
class Patience:
    """That of one node."""

    role: Role
    timeouts: PeerTimeouts

    def late(self, room: Room, now_ns: int) -> Why | None:
        """Return why a room fails that has waited too long for the peer; None while it may wait."""
        wait = self._waits_for(room)
        if wait is None or now_ns <= room.since_ns + wait[1]:
            return None
        return Why(f"the peer is connected and sent no {wait[0]} within {wait[1] / 1e9:g} s")

    def next_look_ns(self, rooms: Sequence[Room], polled_ns: int) -> int:
        """Return when the first of these rooms is late; where one waits for no deadline, or there is none, soon."""
        waits = [(room.since_ns, self._waits_for(room)) for room in rooms]
        soon_ns = polled_ns + LOOK_NS
        return min((soon_ns if wait is None else since_ns + wait[1] + 1 for since_ns, wait in waits), default=soon_ns)

    def _waits_for(self, room: Room) -> tuple[str, int] | None:
        """Return what a room waits for that the peer is to send, and for how long at most; None where for nothing."""
        if not room.registered or room.is_over:
            return None
        if self.role is Role.P:
            return ("manifest", self.timeouts.bootstrap_ns) if room.stage is Stage.OPEN else None
        return ("pages", self.timeouts.waiting_ns) if room.asked is not None and not room.has_landed else None
