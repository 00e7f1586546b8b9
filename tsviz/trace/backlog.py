"""What waits to be written, held within memory: the recorded program neither waits for a disk nor is filled by it.

Beyond a limit plans are dropped, which are nearly all that is large, and calls stay complete (`gaps.py`); where calls
alone come to far more than that, recording ends. Looked at by a thread of its own, now and then.
"""

from __future__ import annotations

from collections.abc import Callable

from .errors import FellBehind
from .recorder import Recorder

LOOK_SECONDS = 0.1
MOST_WAITING = 20_000
"""Entries, two a round: with 64 rows a round they hold about a gigabyte."""
CALLS_FOR_A_PLAN = 5
"""So many times the limit may wait without plans: results of 64 rows take about a fifth of what their plan takes."""


class Backlog:
    """The backlog of one recorder."""

    def __init__(self, recorder: Recorder, taken: Callable[[], int] = lambda: 0) -> None:
        """`taken`: how many entries more wait that were taken from it already."""
        self._recorder, self._taken = recorder, taken
        self._dropping = False

    def look(self, most: int) -> None:
        """Drop plans while more than `most` entries wait, until half of them are left.

        Raises FellBehind when there are so many that even calls cannot be kept.
        """
        waiting = self._recorder.waiting_entries() + self._taken()
        if waiting > most * CALLS_FOR_A_PLAN:
            raise FellBehind(f"{waiting:,} entries waited to be written, more than {most * CALLS_FOR_A_PLAN:,}")
        if self._dropping != (waiting > (most // 2 if self._dropping else most)):
            self._dropping = not self._dropping
            (self._recorder.drop_plans if self._dropping else self._recorder.keep_plans)()
