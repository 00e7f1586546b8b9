"""What an attempt to schedule a request gives: a row, a refusal for capacity, or "not now"."""

from __future__ import annotations

from dataclasses import dataclass

from tsviz.scheduler.decisions import Chunk, Refused
from tsviz.scheduler.plan import Row


@dataclass(frozen=True, slots=True)
class NoSlot:
    """Not now: no free request slot."""

    request_id: str


Outcome = Row | Refused | NoSlot | Chunk
"""A `Chunk` is "not now": it was cut to nothing, and `bound_by` names the rule."""
