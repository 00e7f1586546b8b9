"""A room of a P/D link: one request's meeting place, as one node sees it (`executor-rules.md` section 5)."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tsviz.executor.manifest import Manifest
from tsviz.executor.order import Op


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
    (group, index, layer; None is all layers), `missing_bytes` what is still to come, `status` P's token and candidates.
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
