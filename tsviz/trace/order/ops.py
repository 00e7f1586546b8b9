"""What runs on a device: operations, the streams they run on, the bytes they touch (`executor-rules.md` section 2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple


class ByteRange(NamedTuple):
    """Bytes `begin .. end` (end excluded) of a space: `device`, `host` or `slots`."""

    space: str
    begin: int
    end: int


class Stream(Enum):
    """Where operations run; `host` is the control thread itself, `backup` a worker that writes files.

    `place` is its own among them: a trace has what the host saw of each in this order, so that a new one comes last.
    """

    place: int

    def __init__(self, _name: str) -> None:
        self.place = len(type(self).__members__)

    DEFAULT = "default"
    EXEC = "exec"
    WRITE = "write"
    LOAD = "load"
    PEER = "peer"
    HOST = "host"
    BACKUP = "backup"


class Kind(Enum):
    """What an operation is; a row of the table of section 2 each.

    `fills`: the bytes that it moves are those that it writes, which it clears or brings from elsewhere.
    """

    fills: bool

    def __init__(self, name: str) -> None:
        self.fills = name in ("zero", "load", "fetch", "receive")

    STORE_ORDERED = "store_ordered"
    STORE_PINNED = "store_pinned"
    ZERO = "zero"
    LOAD = "load"
    PROLOGUE = "prologue"
    LAYER = "layer"
    EPILOGUE = "epilogue"
    RESULT = "result"
    COMMIT = "commit"
    FETCH = "fetch"
    BACKUP = "backup"
    LAND = "land"
    RECEIVE = "receive"
    SEND = "send"


@dataclass(slots=True, eq=False)
class Op:
    """One operation of a stream; its completion is its event. Times are on the run's clock, -1 until known.

    `waits` are numbers of operations whose events it waits for; `seen`, per stream, the number of the last operation
    whose end the host had seen when it submitted this one. `op_id` is the scheduler's, of cache operations.
    """

    number: int
    round: int
    stream: Stream
    kind: Kind
    waits: tuple[int, ...] = ()
    reads: Sequence[ByteRange] = ()
    writes: Sequence[ByteRange] = ()
    op_id: int | None = None
    layer: int | None = None
    seen: tuple[int, ...] = ()
    submit_ns: int = -1
    start_ns: int = -1
    end_ns: int = -1
