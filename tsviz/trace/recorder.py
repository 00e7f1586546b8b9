"""The loop thread's side of recording: every call is one append of one tuple (performance.md, R1)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping

from .entries import DROPPED, Arrival, Decided, Entry, ForwardEntry, PlanEntry


class Recorder:
    """The log of one scheduler. Made by `BundleWriter.recorder`; all methods are called on the loop thread.

    `now_ns` is the clock of the part, virtual or monotonic.
    """

    __slots__ = ("_arrivals", "_entries", "append", "now_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._entries: deque[Entry | Decided] = deque()
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
