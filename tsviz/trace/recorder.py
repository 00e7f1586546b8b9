"""The loop thread's side of recording: every call is one append of one tuple (performance.md, R1)."""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from .entries import DROPPED, Arrival, Decided, Entry, ForwardEntry, PlanEntry

_RING_ENTRIES = 4
"""So many entries the reader is woken for."""
_MOST_SPENT = 8


class Bell:
    """Where the thread that reads entries sleeps; the loop thread wakes it when it is about to leave the interpreter.

    The real scheduler plans without the interpreter's lock. A reader that runs just then takes nothing from the loop;
    one that wakes up on its own is as a rule still at work when the loop comes back, which then sleeps until it is let
    in and woken: dearer than all of the reading (docs/performance.md).
    """

    __slots__ = ("_lock", "waits")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self.waits = False

    def wait(self, seconds: float) -> None:
        """Sleep until it rings, so long at most (reader)."""
        self.waits = True
        self._lock.acquire(timeout=seconds)
        self.waits = False

    def ring(self) -> None:
        """Wake the reader, if it sleeps (any thread)."""
        self.waits = False
        with contextlib.suppress(RuntimeError):  # rung already
            self._lock.release()


class Recorder:
    """The log of one scheduler. Made by `BundleWriter.recorder`; all methods are called on the loop thread.

    `now_ns` is the clock of the part, virtual or monotonic.
    """

    __slots__ = ("_arrivals", "_bell", "_entries", "_spent", "append", "loop", "now_ns")

    def __init__(self, now_ns: Callable[[], int], bell: Bell | None = None) -> None:
        """`bell`: what a reader sleeps at that wants to work while the scheduler plans."""
        self._entries: deque[Entry | Decided] = deque()
        self._spent: list[Entry | Decided] = []
        self._bell = bell
        self.loop: int | None = None
        """The id of the thread that first asked for a plan, as the kernel has it."""
        self._arrivals: Mapping[str, Arrival] | None = None
        self.append: Callable[[Entry | Decided], None] = self._entries.append
        self.now_ns = now_ns

    def arrivals(self, arrivals: Mapping[str, tuple[int | None, str | None, int | None]]) -> None:
        """Say when and why the requests of the next submit call arrived: (arrival_ns, after, think_ns) by id."""
        self._arrivals = {request: Arrival(*arrival) for request, arrival in arrivals.items()}

    def take_arrivals(self) -> Mapping[str, Arrival] | None:
        """Return what `arrivals` said since the last call, once."""
        arrivals, self._arrivals = self._arrivals, None
        return arrivals

    def before_plan(self) -> None:
        """Free what was read, where the memory is used again at once, and wake the reader: the scheduler plans next."""
        self._spent.clear()
        if self.loop is None:
            self.loop = threading.get_native_id()
        bell = self._bell
        if bell is not None and bell.waits and len(self._entries) >= _RING_ENTRIES:
            bell.ring()

    def read_one(self, read: Callable[[Any], bytes]) -> bytes | None:
        """Return what `read` makes of the entry that waits longest; None where none waits (reader).

        It is freed on the loop thread then, unless that one lets wait for it: what a plan holds was allocated there,
        and so comes back to the scheduler without a lock and still warm.
        """
        try:
            entry = self._entries.popleft()
        except IndexError:
            return None
        data = read(entry)
        if len(self._spent) < _MOST_SPENT:
            self._spent.append(entry)
        return data

    def forward(self, start_ns: int, end_ns: int) -> None:
        """Record the device interval of the forward of the last plan."""
        self.append(ForwardEntry(start_ns, end_ns))

    def drop_plans(self) -> None:
        """Keep of plans from now on that they were asked for: what is large of what waits are the plans."""
        keep = self._entries.append

        def append(entry: Entry | Decided) -> None:
            if isinstance(entry, PlanEntry) and entry.plan is not None:
                entry = entry._replace(plan=DROPPED)
            keep(entry)

        self.append = append

    def keep_plans(self) -> None:
        """Keep everything again."""
        self.append = self._entries.append

    def waiting_entries(self) -> int:
        """How many entries the writer has not taken yet."""
        return len(self._entries)

    def take(self, limit: int) -> list[Entry | Decided]:
        """Return at most `limit` entries in order (writer thread)."""
        entries = self._entries
        try:
            return [entries.popleft() for _ in range(min(limit, len(entries)))]
        except IndexError:  # recording ended meanwhile, and all were thrown away
            return []


def drop(_: object) -> None:
    """Take an entry and forget it: the writer has failed, and the recorded program must not notice."""
