"""What the recorder hands to the writer: one small tuple a call, holding references, made on the loop thread.

Nothing is copied that cannot change: plans are immutable, and an event is held by reference only when nobody else can
reach it any more (see `adapters.tokenspeed`). Everything else is taken apart by the writer, off the loop.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from .rounds import Counters

SUBMIT = "submit"
ADVANCE = "advance"
PLAN = "plan"
REGISTER_KEYS = "register_storage_keys"
UNREGISTER_KEYS = "unregister_storage_keys"
CLEAR = "clear_cache"
CLEAR_L1 = "clear_l1_cache"
DRAIN = "drain_kv_events"

EXTEND_RESULT = "extend_result"
FINISH = "finish"
ABORT = "abort"
RETRACT = "retract"
UPDATE_RESERVE = "update_reserve"
WRITE_BACK_DONE = "write_back_done"
LOAD_BACK_DONE = "load_back_done"
BOOTSTRAPPED = "bootstrapped"
FAILED = "failed"
SUCCEEDED = "succeeded"
REMOTE_PREFILL_DONE = "remote_prefill_done"


class Failure(NamedTuple):
    """An exception that a call raised."""

    kind: str
    message: str


class Event(NamedTuple):
    """One event taken apart. Fields that the kind does not have are at their defaults."""

    kind: str
    request: str | None = None
    tokens: Sequence[int] = ()
    candidates: Sequence[int] = ()
    op_id: int | None = None
    value: int | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """Results that stand one behind the other in a call, as columns; as an iterable it is their events.

    `candidates` is None where none of them has any.
    """

    requests: Sequence[str]
    tokens: Sequence[Sequence[int]]
    candidates: Sequence[Sequence[int]] | None

    def __len__(self) -> int:
        return len(self.requests)

    def __iter__(self) -> Iterator[Event]:
        columns = (self.requests, self.tokens, self.candidates or repeat((), len(self.requests)))
        return (Event(EXTEND_RESULT, *fields) for fields in zip(*columns, strict=True))


class Runs:
    """The events of a call in runs, as they come from another process; as an iterable it is the events."""

    __slots__ = ("runs",)

    def __init__(self, runs: Sequence[Results | Sequence[Event]]) -> None:
        self.runs = runs

    def __len__(self) -> int:
        return sum(map(len, self.runs))

    def __iter__(self) -> Iterator[Event]:
        return chain.from_iterable(self.runs)


class Arrival(NamedTuple):
    """When a request reached the engine: a time, or after another one ended plus a think time."""

    arrival_ns: int | None
    after: str | None
    think_ns: int | None


class Spec(NamedTuple):
    """One submitted request."""

    request: str
    tokens: array[int]
    max_new_tokens: int


class Dropped:
    """Stands for a plan that was dropped, since more waited to be written than memory is there for."""


DROPPED = Dropped()


class PlanEntry(NamedTuple):
    """A plan request. `plan` is None when the call raised, `DROPPED` where only the call is kept."""

    time_ns: int
    duration_ns: int
    plan: Any
    waiting_before: int
    counters: Counters | None
    failure: Failure | None


class AdvanceEntry(NamedTuple):
    """An advance call. `held` says how many tokens requests held behind it: after a failure all that are named,
    otherwise those whose bootstrap token came, which the scheduler may have ignored.
    """

    time_ns: int
    duration_ns: int
    events: Sequence[Any] | Runs
    failure: Failure | None
    held: Mapping[str, int] | None


class SubmitEntry(NamedTuple):
    """A submit call."""

    time_ns: int
    duration_ns: int
    specs: Sequence[Spec]
    arrivals: Mapping[str, Arrival] | None
    failure: Failure | None


class KeysEntry(NamedTuple):
    """A registration or removal of storage keys."""

    time_ns: int
    duration_ns: int
    kind: str
    groups: Sequence[int]
    hashes: Sequence[str]
    offsets: Sequence[int]
    failure: Failure | None


class ClearEntry(NamedTuple):
    """A clear of the cache and what it returned."""

    time_ns: int
    duration_ns: int
    kind: str
    result: bool | None
    failure: Failure | None


class DrainEntry(NamedTuple):
    """A drain of KV events."""

    time_ns: int
    duration_ns: int
    events: Sequence[Any]
    failure: Failure | None


class ForwardEntry(NamedTuple):
    """Device interval of a forward: of the last plan where no round is given."""

    start_ns: int
    end_ns: int
    round: int | None = None


class ForwardRow(NamedTuple):
    """What one row of a forward came to (table `forward_rows`)."""

    row: int
    request: str
    valid_tokens: int
    fed_tokens: int
    accepted_tokens: int
    top2_margin: float
    broken: bool


class ForwardRowsEntry(NamedTuple):
    """What the forward of a round came to; the rows are asked for by the writer."""

    round: int
    rows: Iterable[ForwardRow]


class ManyRanges(NamedTuple):
    """The byte ranges of several operations: those of number i are `begins[starts[i]:starts[i] + counts[i]]`, likewise
    `ends`.
    """

    starts: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    begins: npt.NDArray[np.int64]
    ends: npt.NDArray[np.int64]


class RangeColumns:
    """Byte ranges of one space that are worked out for many operations at once; as an iterable it is its ranges."""

    __slots__ = ()
    space: str

    @staticmethod
    def together(ranges: Sequence[RangeColumns]) -> ManyRanges:
        """Return the first bytes, and the bytes behind the last ones, of several of one device and class."""
        raise NotImplementedError


class DeviceOp(NamedTuple):
    """One operation of a real device that has ended (tables `device_ops` and `device_ranges`).

    A range is (space, first byte, byte behind the last one). `fills`: the bytes that it moves are those that it writes,
    and not those that it reads.
    """

    round: int
    op: int
    stream: str
    kind: str
    op_id: int | None
    layer: int | None
    fills: bool
    waits: Sequence[int]
    seen: Sequence[int]
    submit_ns: int
    start_ns: int
    end_ns: int
    reads: RangeColumns | Sequence[tuple[str, int, int]]
    writes: RangeColumns | Sequence[tuple[str, int, int]]


class DeviceOpsEntry(NamedTuple):
    """Operations in the order of submission; they are asked for by the writer."""

    ops: Iterable[DeviceOp]


class PageCrc(NamedTuple):
    """One checksum of a block's bytes, or of what is compared with them (table `page_crcs`)."""

    space: str
    writes: bool
    group: str
    page: int | None
    layer: int | None
    request: str | None
    item: int | None
    crc32: int


class PageCrcsEntry(NamedTuple):
    """The checksums of one operation of a real device."""

    round: int
    op: int
    rows: Sequence[PageCrc]


Decided = tuple[int, int, Any]
"""A decision as an observer is told it: round, stop, value. A bare tuple, since there are many a round."""

Measured = ForwardEntry | ForwardRowsEntry | DeviceOpsEntry | PageCrcsEntry
"""What a device says of itself."""

Entry = PlanEntry | AdvanceEntry | SubmitEntry | KeysEntry | ClearEntry | DrainEntry | Measured
EventReader = Mapping[type, Any]
"""Per class of event object a function that returns its `Event`."""
