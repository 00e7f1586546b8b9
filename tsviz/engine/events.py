"""What subsystems tell the scheduler, as values; a port turns them into a module's own event objects.

The loop, the link of a P/D pair and the storage tier only hand over lists of these: nobody but the loop advances
(`executor-rules.md` section 1), and mirrored ranks receive the very same list.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias


class Extended(NamedTuple):
    """A forward's row landed: no tokens for an intermediate chunk; candidates on role P with a drafter."""

    request_id: str
    tokens: Sequence[int]
    candidates: Sequence[int] = ()


class Reserved(NamedTuple):
    """How many tokens the last decode accepted: the reserve of the next one."""

    request_id: str
    tokens: int


class Finished(NamedTuple):
    """The output has ended."""

    request_id: str


class Aborted(NamedTuple):
    """The request is given up; nothing is published."""

    request_id: str


class Retracted(NamedTuple):
    """The forward of this row was never run: a page vanished from storage."""

    request_id: str


class Stored(NamedTuple):
    """A write-back ended."""

    op_id: int


class Loaded(NamedTuple):
    """A load-back ended."""

    op_id: int
    success: bool


class Bootstrapped(NamedTuple):
    """The pair knows each other."""

    request_id: str


class PeerFailed(NamedTuple):
    """The transfer is off, and joined."""

    request_id: str


class Succeeded(NamedTuple):
    """P: the peer has everything."""

    request_id: str


class RemotePrefillDone(NamedTuple):
    """D: the pages have landed, with the first token."""

    request_id: str
    token: int


PeerEvent: TypeAlias = Bootstrapped | PeerFailed | Succeeded | RemotePrefillDone
"""What a P/D link reports."""

Event: TypeAlias = Extended | Reserved | Finished | Aborted | Retracted | Stored | Loaded | PeerEvent
