"""What runs before what, and who touches which bytes: the happens-before checker (`executor-rules.md` section 2).

Two operations that overlap, one of them writing, must be ordered by the FIFO of a stream, by events, or by the host
having seen the first one's end before it submitted the second. No lucky timing is needed to find a missing edge, and a
trace is enough to look for one later.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tsviz.executor.layout import ByteRange
from tsviz.executor.ops import Op, Stream


@dataclass(frozen=True, slots=True)
class Race:
    """Two operations that nothing orders, and bytes that both touch; `edge` names what is missing."""

    first: Op
    second: Op
    at: ByteRange

    @property
    def edge(self) -> str:
        """The missing edge in words: kind -> kind."""
        return f"{self.first.kind.value} -> {self.second.kind.value}"

    def __str__(self) -> str:
        """One line for people."""
        a, b, r = self.first, self.second, self.at
        return (
            f"{self.edge}: op {a.number} (round {a.round}, {a.stream.value}) and op {b.number} (round {b.round},"
            f" {b.stream.value}) both touch {r.space} bytes {r.begin}..{r.end}, one writes, nothing orders them"
        )


def merged(ranges: Iterable[ByteRange]) -> tuple[ByteRange, ...]:
    """Return the ranges in order, those that touch joined."""
    out: list[ByteRange] = []
    for r in sorted(ranges):
        if out and out[-1].space == r.space and r.begin <= out[-1].end:
            out[-1] = ByteRange(r.space, out[-1].begin, max(out[-1].end, r.end))
        elif r.end > r.begin:
            out.append(r)
    return tuple(out)


def overlap(a: Sequence[ByteRange], b: Sequence[ByteRange]) -> ByteRange | None:
    """Return the first bytes that two lists of merged ranges share."""
    i = j = 0
    while i < len(a) and j < len(b):
        x, y = a[i], b[j]
        if x.space == y.space:
            begin, end = max(x.begin, y.begin), min(x.end, y.end)
            if begin < end:
                return ByteRange(x.space, begin, end)
        if (x.space, x.end) <= (y.space, y.end):
            i += 1
        else:
            j += 1
    return None


@dataclass(slots=True)
class _Known:
    op: Op
    clock: dict[Stream, int]


@dataclass(slots=True)
class OrderChecker:
    """Told of every operation in the order of submission, and of every end that the host sees; collects races.

    A clock says, per stream, up to which operation number everything has ended. Those of operations that the host has
    seen end are forgotten: the host's own, from which every later one starts, says no less.
    """

    races: list[Race] = field(default_factory=list)
    _clocks: dict[int, dict[Stream, int]] = field(default_factory=dict)
    _last: dict[Stream, dict[Stream, int]] = field(default_factory=dict)
    _open: dict[Stream, list[Op]] = field(default_factory=dict)
    _host: dict[Stream, int] = field(default_factory=dict)

    def seen(self) -> tuple[int, ...]:
        """Return, in the order of `Stream`, up to where the host has seen each stream end; -1 is nothing."""
        return tuple(self._host.get(stream, -1) for stream in Stream)

    def submitted(self, op: Op) -> None:
        """Check a new operation against all that are not ordered before it."""
        clock = dict(self._host)
        _raise_to(clock, self._last.get(op.stream, {}))
        for number in op.waits:
            _raise_to(clock, self._clocks.get(number, {}))
        for stream, ops in self._open.items():
            if stream is op.stream:
                continue
            before = clock.get(stream, -1)
            for other in ops:
                if other.number > before:
                    self._compare(other, op)
        clock[op.stream] = op.number
        self._clocks[op.number] = self._last[op.stream] = clock
        self._open.setdefault(op.stream, []).append(op)
        if op.stream is Stream.HOST:
            self.observed(op.number)

    def observed(self, number: int) -> None:
        """The host saw this operation end: everything before it has ended, and comes before all that follows."""
        _raise_to(self._host, self._clocks.get(number, {}))
        for stream, ops in self._open.items():
            ended = self._host.get(stream, -1)
            if ops and ops[0].number <= ended:
                for op in ops:
                    if op.number <= ended:
                        del self._clocks[op.number]
                self._open[stream] = [op for op in ops if op.number > ended]

    def adopt(self, seen: Sequence[int]) -> None:
        """Take over what the host had seen, as a trace keeps it."""
        for stream, number in zip(Stream, seen, strict=True):
            if number >= 0:
                self.observed(number)
                self._host[stream] = max(self._host.get(stream, -1), number)

    def _compare(self, first: Op, second: Op) -> None:
        at = (
            overlap(first.writes, second.writes)
            or overlap(first.writes, second.reads)
            or overlap(first.reads, second.writes)
        )
        if at is not None:
            self.races.append(Race(first, second, at))


def check_ops(ops: Iterable[Op]) -> list[Race]:
    """Return the races among the operations of a trace, given in the order of submission."""
    checker = OrderChecker()
    for op in ops:
        if op.seen:
            checker.adopt(op.seen)
        checker.submitted(op)
    return checker.races


def _raise_to(clock: dict[Stream, int], other: dict[Stream, int]) -> None:
    for stream, number in other.items():
        if number > clock.get(stream, -1):
            clock[stream] = number
