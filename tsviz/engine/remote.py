"""What the loop asks of its side of a P/D link (`executor-rules.md` section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tsviz.engine.device import Planned
from tsviz.engine.events import PeerEvent
from tsviz.engine.workloads.model import WorkRequest


class RemoteSide(Protocol):
    """One node's end of the link."""

    def registered(self, request: WorkRequest) -> None:
        """The node has submitted the request."""

    def executed(self, planned: Planned) -> None:
        """The node's device has been handed this plan: its remote rows start now."""

    def poll(self) -> Sequence[tuple[PeerEvent, Sequence[int]]]:
        """Return the events that are due, each with the candidates that came with it."""

    def abort(self, request_id: str) -> bool:
        """Give up the transfer; True when an event will follow once it has been cancelled and joined."""

    def ended(self, request_id: str) -> None:
        """The node's request has ended."""

    def next_change_ns(self) -> int | None:
        """Return when a poll may next return something; None while everything waits for the peer."""
