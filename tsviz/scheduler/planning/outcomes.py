"""What an attempt to schedule a request gives: a row, a refusal for capacity, or "not now"."""

from __future__ import annotations

from dataclasses import dataclass

from tsviz.scheduler.cache.eviction import Shortage
from tsviz.scheduler.plan import Row
from tsviz.scheduler.planning.chunks import Chunk


@dataclass(frozen=True, slots=True)
class Refused:
    """Capacity failure: may become the blocker of the round."""

    request_id: str
    shortage: Shortage


@dataclass(frozen=True, slots=True)
class NoSlot:
    """No free request slot."""

    request_id: str


@dataclass(frozen=True, slots=True)
class ZeroChunk:
    """The chunk is cut to nothing; `chunk.bound_by` names the rule."""

    request_id: str
    chunk: Chunk


Outcome = Row | Refused | NoSlot | ZeroChunk
