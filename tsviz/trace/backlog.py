"""What waits to be written, held within memory: the recorded program neither waits for a disk nor is filled by it.

Beyond a limit plans are dropped, which are nearly all that is large, and calls stay complete (`gaps.py`); where calls
alone come to far more than that, recording ends. Looked at by a thread of its own, now and then.
"""

from __future__ import annotations

from .errors import FellBehind
from .frame_pipe import FramePipe
from .recorder import Recorder

LOOK_SECONDS = 0.1
MOST_WAITING = 20_000
"""Entries, two a round: with 64 rows a round they hold about a gigabyte, or as bytes 10 MB (`frame_pipe.py`)."""
CALLS_FOR_A_PLAN = 5
"""So many times the limit may wait without plans: results of 64 rows take about a fifth of what their plan takes."""
BYTES_FOR_AN_ENTRY = 12_800
"""So many bytes may wait for each entry of the limit, 256 MB in all: calls of some 350,000 rounds of 64 rows."""
_PLANS_SHARE = 4
"""In a part in so many of these bytes plans may wait too: the first ones behind a gap are large."""


class Backlog:
    """The backlog of one recorder; where entries are read at once it is in a pipe, as bytes."""

    def __init__(self, recorder: Recorder, pipe: FramePipe | None = None) -> None:
        self._recorder, self._pipe = recorder, pipe
        self._dropping = False

    def look(self, most: int) -> None:
        """Drop plans while more than `most` entries wait, until half of them are left.

        Raises FellBehind when there are so many that even calls cannot be kept.
        """
        entries, pipe = self._recorder.waiting_entries(), self._pipe
        if entries > most * CALLS_FOR_A_PLAN:
            raise FellBehind(f"{entries:,} entries waited to be written, more than {most * CALLS_FOR_A_PLAN:,}")
        size, most_bytes = 0, most * BYTES_FOR_AN_ENTRY
        if pipe is not None:
            entries, size = entries + pipe.waiting, pipe.waiting_bytes
            if size > most_bytes:
                raise FellBehind(f"{size:,} bytes of calls waited to be written, more than {most_bytes:,}")
        half = 2 if self._dropping else 1
        if self._dropping != (half * entries > most or half * _PLANS_SHARE * size > most_bytes):
            self._dropping = not self._dropping
            (self._recorder.drop_plans if self._dropping else self._recorder.keep_plans)()
