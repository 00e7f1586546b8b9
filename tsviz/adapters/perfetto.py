"""A trace as Perfetto's own format: tracks for rounds, device, groups and requests, flows from blocker to blocked.

It takes rows as docs/sql.md has them (the caller asks for them) and knows no scheduling. Every row becomes one slice,
instant or counter value, so that counts there equal counts here. perfetto is imported when something is written.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any

Columns = Mapping[str, Sequence[Any]]
"""A relation by column."""

ROUND_COUNTERS = (
    ("waiting_requests", "requests"), ("prefilling_requests", "requests"), ("decoding_requests", "requests"),
    ("scheduled_tokens", "tokens"), ("empty_pages", "pages"),
)  # fmt: skip
"""Columns of `rounds` that become a counter each, with their units."""
GROUP_COUNTERS = (("cached_pages", "pages"), ("local_pages", "pages"))
"""Columns of `pool` that become a counter of each group."""
OPERATION_ARGUMENTS = ("input_tokens", "begin_tokens", "replay_tokens", "slot")

DEVICE_ARGUMENTS = ("round", "op", "layer", "op_id", "moved_bytes", "stall_ns")

ROUND, DEVICE, OPERATION, WAIT, HOLD, RETRACTION = "round", "device", "operation", "wait", "hold", "retraction"
DEVICE_OPERATION = "device_operation"
"""Categories of events."""


class NoPerfetto(Exception):
    """The package is not installed; the message says how to get it."""


@dataclass(frozen=True, slots=True)
class PartRows:
    """One scheduler: rows of `rounds`, `forwards`, `operations`, `requests`, and of decided ones where they are known.

    `waits` are the `verdict_runs` other than scheduled ones, `retractions` those of the decided table with an outcome
    of `retracted`, `groups` the names by index, `device_ops` has what `device_stalls` says of an operation beside it
    (null where it did not wait). All in order of round, or of submission.
    """

    name: str
    role: str
    rounds: Columns
    forwards: Columns
    operations: Columns
    requests: Columns
    waits: Columns
    retractions: Columns
    pool: Columns
    groups: Sequence[str]
    device_ops: Columns


@dataclass(slots=True)
class Written:
    """What was written: events by category, counter values, request tracks and flows."""

    events: dict[str, int] = field(default_factory=dict)
    counter_values: int = 0
    request_tracks: int = 0
    flows: int = 0


def write_perfetto(parts: Sequence[PartRows], out: IO[bytes]) -> Written:
    """Write the parts as one trace; each is a process. Raises NoPerfetto, OSError."""
    from .perfetto_packets import Packets

    packets = Packets(out)
    for number, part in enumerate(parts):
        _Part(part, number, packets).write()
    return packets.written


class _Part:
    """Writes one part: its tracks are numbered within a range of their own."""

    def __init__(self, part: PartRows, number: int, packets: Any) -> None:
        self._part, self._packets = part, packets
        self._root = (number + 1) << 40
        self._next = self._root
        self._pid = number + 1
        self._round: Sequence[int] = part.rounds["round"]
        self._start: Sequence[int] = part.rounds["start_ns"]
        ends = [end for end in part.forwards["end_ns"] if end is not None]
        self._end = max([*ends, *(s + 1 for s in self._start[-1:])], default=0)
        self._tracks: dict[int, int] = {}
        self._by_name: dict[str, list[tuple[int, int]]] = {}
        self._flow = self._root

    def write(self) -> None:
        """Write everything of the part."""
        self._packets.process(self._root, self._pid, f"{self._part.name} ({self._part.role})")
        self._rounds()
        self._device()
        self._groups()
        self._requests()
        self._operations()
        self._waits()
        self._retractions()

    def _track(self, name: str, parent: int | None = None, unit: str = "") -> int:
        self._next += 1
        self._packets.track(self._next, self._root if parent is None else parent, name, unit)
        return self._next

    def _starts(self, round_: int) -> int:
        """Return when a round was asked for; behind the last the end of the trace."""
        at = bisect_right(self._round, round_ - 1)
        return self._start[at] if at < len(self._start) else self._end

    def _span(self, first: int, last: int) -> tuple[int, int]:
        """Return the time from the plan of `first` to the plan behind `last`."""
        begin = self._starts(first)
        return begin, max(begin, self._starts(last + 1))

    def _rounds(self) -> None:
        rounds = self._part.rounds
        track = self._track("rounds")
        for index, round_ in enumerate(self._round):
            arguments = {"round": round_, **{name: rounds[name][index] for name, _ in ROUND_COUNTERS}}
            self._packets.slice(track, *self._span(round_, round_), ROUND, f"round {round_}", arguments)
        for name, unit in ROUND_COUNTERS:
            counter = self._track(name.replace("_", " "), unit=unit)
            for start, value in zip(self._start, rounds[name], strict=True):
                self._packets.count(counter, start, value)

    def _device(self) -> None:
        forwards = self._part.forwards
        track = self._track("device")
        for round_, start, end in _rows(forwards, "round", "start_ns", "end_ns"):
            self._packets.slice(track, start, max(start, end), DEVICE, "forward", {"round": round_})
        self._streams(track)

    def _streams(self, parent: int) -> None:
        """Write a track a stream below the device's, and a flow from what another stream waited for to what waited."""
        ops = self._part.device_ops
        flows: dict[int, list[int]] = {}
        ends: dict[int, int] = {}
        for op, for_op in _rows(ops, "op", "for_op"):
            if for_op is not None:
                self._flow += 1
                flows.setdefault(for_op, []).append(self._flow)
                ends[op] = self._flow
        tracks: dict[str, int] = {}
        free: dict[str, int] = {}
        for index, (op, stream, kind, start, end) in enumerate(
            _rows(ops, "op", "stream", "kind", "start_ns", "end_ns")
        ):
            if stream not in tracks:
                tracks[stream] = self._track(stream, parent)
            begin = max(start, free.get(stream, 0))  # a stream is first in, first out: what times blur must not cross
            free[stream] = max(begin, end)
            arguments = {name: ops[name][index] for name in DEVICE_ARGUMENTS}
            self._packets.slice(
                tracks[stream], begin, free[stream], DEVICE_OPERATION, kind, arguments, ends.get(op, 0),
                flows.get(op, ()),
            )  # fmt: skip

    def _groups(self) -> None:
        pool = self._part.pool
        if not len(pool["round"]):
            return
        parent = self._track("groups")
        tracks = [
            [(name, self._track(f"{group} {name.replace('_', ' ')}", parent, unit)) for name, unit in GROUP_COUNTERS]
            for group in self._part.groups
        ]
        for index, (round_, group) in enumerate(_rows(pool, "round", "group")):
            for name, track in tracks[group]:
                self._packets.count(track, self._starts(round_), pool[name][index])

    def _requests(self) -> None:
        parent = self._track("requests")
        for submission, request, round_ in _rows(self._part.requests, "submission", "request", "submit_round"):
            self._tracks[submission] = self._track(request, parent)
            self._by_name.setdefault(request, []).append((round_, submission))
        self._packets.written.request_tracks += len(self._tracks)

    def _operations(self) -> None:
        operations = self._part.operations
        for index, (round_, submission, kind) in enumerate(_rows(operations, "round", "submission", "kind")):
            arguments = {"round": round_, **{name: operations[name][index] for name in OPERATION_ARGUMENTS}}
            self._packets.slice(
                self._tracks[submission], *self._span(round_, round_), OPERATION, kind, arguments,
            )  # fmt: skip

    def _waits(self) -> None:
        names = ("submission", "cause", "holder", "rule", "since_round", "until_round")
        for submission, cause, holder, rule, since, until in _rows(self._part.waits, *names):
            begin, end = self._span(since, until)
            flow = self._blocks(holder, submission, since, begin)
            arguments = {"round": since, "until_round": until, "holder": holder, "rule": rule}
            self._packets.slice(self._tracks[submission], begin, end, WAIT, cause, arguments, flow)

    def _retractions(self) -> None:
        for round_, stop, blocker, victim in _rows(self._part.retractions, "round", "stop", "blocker", "victim"):
            submission = self._submission(victim, round_)
            if submission is None:
                continue
            at = self._starts(round_)
            flow = self._blocks(blocker, submission, round_, at)
            arguments = {"round": round_, "stop": stop, "blocker": blocker}
            self._packets.instant(self._tracks[submission], at, RETRACTION, "retracted", arguments, ends=flow)

    def _blocks(self, holder: str | None, blocked: int, round_: int, at: int) -> int:
        """Begin a flow at the holder and return its number; 0 where nobody else holds."""
        submission = self._submission(holder, round_) if holder else None
        if submission is None or submission == blocked:
            return 0
        self._flow += 1
        self._packets.instant(self._tracks[submission], at, HOLD, "blocks", {"round": round_}, begins=self._flow)
        return self._flow

    def _submission(self, request: str, round_: int) -> int | None:
        """Return the latest submission of an id at a round."""
        known = self._by_name.get(request, [])
        at = bisect_right(known, (round_, 1 << 62))
        return known[at - 1][1] if at else None


def _rows(columns: Columns, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(columns[name] for name in names), strict=True)
