"""What can be said about the executor as a device."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from tsviz.engine.cost import DeviceCost
from tsviz.engine.faults import AckFaults


class Edge(Enum):
    """The edges of the ordering table (`executor-rules.md` section 2): who must come first, and who waits."""

    EXEC_STORE = "exec->store"
    STORE_ZERO = "store->zero"
    STORE_LOAD = "store->load"
    EXEC_ZERO = "exec->zero"
    ZERO_LOAD = "zero->load"
    EXEC_LOAD = "exec->load"
    ZERO_FORWARD = "zero->forward"
    LOAD_FORWARD = "load->forward"
    RESULT_COMMIT = "result->commit"
    ZERO_REMOTE = "zero->remote"


class Fault(Enum):
    """Mistakes of an executor that can be made on purpose, by their number in the catalogue (section 10)."""

    FENCE_PINNED = 3
    """Zeroing waits for pinned stores too."""
    TAKEN_FOR_PINNED = 4
    """A store whose sources nothing pins is taken for a pinned one, which zeroing does not wait for."""
    ZERO_PARENT = 7
    """A whole LCM parent is cleared for one child."""
    STALE_TABLE = 9
    """The pages of computed positions are taken from the table of the round before."""
    REPLAY_WRITES = 10
    """Rows that are fed again write into every group."""
    REPLAY_SEES = 11
    """Rows that are fed again see positions before the replay."""
    STATE_IN_PLACE = 12
    """A decode writes its state over the one that it read, also where it enters another block."""
    CHECKPOINT_GRAIN = 13
    """A checkpoint is taken at a boundary of the block granularity instead of the prefix granularity."""
    REJECTED_STATE = 14
    """The state after the whole window is kept, rejected candidates included."""
    DROPPED_TOKEN = 15
    """The host is told one token fewer than the device accepted."""
    HOST_VALID = 20
    """Positions come from what the host knows instead of the device."""
    SLOT_KEPT = 21
    """A slot is not reset for its next owner."""
    SHARED_STAGING = 22
    """Tables are uploaded from one buffer that the next round overwrites."""
    EARLY_ACK = 24
    """A store is acknowledged before it has ended."""
    LATE_CANDIDATES = 28
    """A decode node's first decode runs without the candidates that its peer sent."""
    EARLY_FAILURE = 29
    """A failed transfer is told while the peer's bytes are still written into our pages."""
    TABLE_HOLE = 30
    """The last page of every decode is missing from its table."""


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """How the executor runs: poison for zeros, loads layer by layer, logits kept, edges left out, faults.

    `page_crcs`: every operation's blocks are summed up as it finds and leaves them (`crcs`), for whoever observes.
    `pace` makes forwards take virtual time by a cost model, so that runs on a virtual clock are the same every time;
    None lets them take what they take. `tracked`: byte ranges are worked out and checked. `paged_kernel`: decodes
    attend over pages where they lie, where there is a kernel for that.
    """

    poison: bool = True
    layerwise: bool = True
    keep_logits: bool = False
    tracked: bool = True
    paged_kernel: bool = True
    page_crcs: bool = False
    omitted: frozenset[Edge] = frozenset()
    faults: frozenset[Fault] = frozenset()
    acks: AckFaults = field(default_factory=AckFaults)
    pace: DeviceCost | None = None
    stop_tokens: frozenset[int] = frozenset()

    def unless(self, edge: Edge, number: int | None) -> int | None:
        """Return what to wait for over an edge: nothing where the edge is left out."""
        return None if edge in self.omitted else number
