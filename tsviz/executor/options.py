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


@dataclass(frozen=True, slots=True)
class DeviceOptions:
    """How the executor runs: poison for zeros, loads layer by layer, logits kept, edges left out, faults.

    `pace` makes forwards take virtual time by a cost model, so that runs on a virtual clock are the same every time;
    None lets them take what they take. `tracked`: byte ranges are worked out and checked.
    """

    poison: bool = True
    layerwise: bool = True
    keep_logits: bool = False
    tracked: bool = True
    omitted: frozenset[Edge] = frozenset()
    acks: AckFaults = field(default_factory=AckFaults)
    pace: DeviceCost | None = None
    stop_tokens: frozenset[int] = frozenset()

    def unless(self, edge: Edge, number: int | None) -> int | None:
        """Return what to wait for over an edge: nothing where the edge is left out."""
        return None if edge in self.omitted else number
