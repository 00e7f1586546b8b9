"""The writing process: `python -m tsviz.trace.apart_process`, frames on standard input, its last words on the output.

It ends when the pipe does. Behind a `CLOSE` frame the bundle is closed, and it says `closed`; without one the recorded
process was killed: what came through is committed, and the bundle is one that was not closed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO

from .apart import CLOSE, ENTRY, HEADER, LOOP, OPEN, PART
from .aside import Aside
from .backlog import MOST_WAITING
from .recorder import Recorder
from .retention import Retention
from .ring import RingOptions
from .wire_reader import READER, Decoder, decoded_plan
from .writer import BundleWriter

_NICE = 5
_WAIT_SECONDS = 0.01
"""Where `MOST_WAITING` entries wait for the disk nothing is read from the pipe meanwhile: what then waits at the other
end is dropped there, since only a plan that was not sent can be left out (`backlog.py`)."""


def _no_clock() -> int:
    """The times of entries come with them."""
    return 0


def write(source: BinaryIO) -> str:
    """Take frames to their end; return the last words, `closed` or what went wrong."""
    writer: BundleWriter | None = None
    recorders: list[Recorder] = []
    decoders: list[Decoder] = []
    end: dict[str, Any] | None = None
    aside, loops = Aside(), list[tuple[int, int]]()
    while writer is None or writer.error is None:
        head = source.read(HEADER.size)
        if len(head) < HEADER.size:
            break
        kind, part, size = HEADER.unpack(head)
        data = source.read(size)
        if len(data) < size:  # killed in the middle of a frame
            break
        if kind == ENTRY:
            aside.look(loops, time.monotonic())
            recorders[part].append(decoders[part].decode(data))
            while recorders[part].waiting_entries() > MOST_WAITING and writer is not None and writer.error is None:
                time.sleep(_WAIT_SECONDS)
        elif kind == OPEN:
            told = json.loads(data)
            ring = None if told["ring"] is None else RingOptions.of(told["ring"])
            writer = BundleWriter(
                Path(told["path"]),
                meta=told["meta"],
                tokens=told["tokens"],
                ring=ring,
                made=True,
                retention=None if told["retention"] is None else Retention.of(told["retention"]),
            )
        elif kind == PART:
            assert writer is not None
            told = json.loads(data)
            recorders.append(writer.recorder(**told, event_reader=READER, now_ns=_no_clock, read=decoded_plan))
            decoders.append(Decoder())
        elif kind == LOOP:
            told = json.loads(data)
            loops.append((told["process"], told["thread"]))
        elif kind == CLOSE:
            end = json.loads(data)
    if writer is None:
        return "the recorded process ended before it said anything"
    if end is None and writer.error is None:
        writer.leave()
        return "the recorded process ended without closing the recording"
    writer.close(None if end is None else end["end"], compacted=end is not None and end["compacted"])
    return "closed"


def _give_way() -> None:
    """Let the recorded program go first, also where the kernel weighs sessions and not the processes in them."""
    with contextlib.suppress(OSError):
        os.nice(_NICE)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text(str(_NICE))


def main() -> None:
    """Write, and say how it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    _give_way()
    try:
        said = write(sys.stdin.buffer)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
    with contextlib.suppress(OSError):
        sys.stdout.write(said)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
