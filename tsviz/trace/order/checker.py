"""What runs before what, and who touches which bytes: the happens-before checker (`executor-rules.md` section 2).

Two operations that overlap, one of them writing, must be ordered by the FIFO of a stream, by events, or by the host
having seen the first one's end before it submitted the second. No lucky timing is needed to find a missing edge, and a
trace is enough to look for one later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tsviz.trace.order.ops import ByteRange, Op, Stream


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
    a, b = tuple(a), tuple(b)
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


Clock = list[int]
"""For each place among the streams the number of the operation up to which everything has ended; -1 is nothing."""


def _nothing() -> Clock:
    return [-1] * len(Stream)


@dataclass(slots=True)
class OrderChecker:
    """Told of every operation in the order of submission, and of every end that the host sees; collects races.

    A clock says, per stream, up to which operation number everything has ended. Those of operations that the host has
    seen end are forgotten: the host's own, from which every later one starts, says no less.
    """

    races: list[Race] = field(default_factory=list)
    _clocks: dict[int, Clock] = field(default_factory=dict)
    _last: list[Clock] = field(default_factory=lambda: [_nothing() for _ in Stream])
    _open: list[list[Op]] = field(default_factory=lambda: [[] for _ in Stream])
    _host: Clock = field(default_factory=_nothing)
    _seen: tuple[int, ...] | None = None

    def seen(self) -> tuple[int, ...]:
        """Return, in the order of `Stream`, up to where the host has seen each stream end; -1 is nothing."""
        if self._seen is None:
            self._seen = tuple(self._host)
        return self._seen

    @property
    def open(self) -> int:
        """How many operations the host has not seen end."""
        return sum(map(len, self._open))

    def submitted(self, op: Op) -> None:
        """Check a new operation against all that are not ordered before it."""
        place = op.stream.place
        clock = _later(self._host, self._last[place])
        for number in op.waits:
            if (waited := self._clocks.get(number)) is not None:
                clock = _later(clock, waited)
        for at, ops in enumerate(self._open):
            if at != place and ops and ops[-1].number > clock[at]:
                for other in ops:
                    if other.number > clock[at]:
                        self._compare(other, op)
        clock[place] = op.number
        self._clocks[op.number] = self._last[place] = clock
        self._open[place].append(op)
        if op.stream is Stream.HOST:
            self.observed(op.number)

    def observed(self, number: int) -> None:
        """The host saw this operation end: everything before it has ended, and comes before all that follows."""
        self._host, self._seen = _later(self._host, self._clocks.get(number, self._host)), None
        for place, ops in enumerate(self._open):
            ended = self._host[place]
            if ops and ops[0].number <= ended:
                for op in ops:
                    if op.number <= ended:
                        del self._clocks[op.number]
                self._open[place] = [op for op in ops if op.number > ended]

    def adopt(self, seen: Sequence[int]) -> None:
        """Take over what the host had seen, as a trace keeps it."""
        for number in seen:
            if number >= 0:
                self.observed(number)
        self._host, self._seen = _later(self._host, seen), None

    def _compare(self, first: Op, second: Op) -> None:
        at = (
            overlap(first.writes, second.writes)
            or overlap(first.writes, second.reads)
            or overlap(first.reads, second.writes)
        )
        if at is not None:
            self.races.append(Race(first, second, at))


MOST_OPEN = 5000
"""So many operations may be on their way in a trace: each is compared with all that nothing orders before it."""


class TooManyOpen(Exception):
    """More operations are on their way than any device has: the host saw none of them end."""

    def __init__(self, op: Op) -> None:
        super().__init__(
            f"op {op.number:,}, round {op.round:,}: expected at most {MOST_OPEN:,} operations on their way, found more"
        )


def races_of(ops: Iterable[Op]) -> Iterator[Race]:
    """Yield the races among the operations of a trace, given in the order of submission. Raises `TooManyOpen`."""
    checker = OrderChecker()
    for op in ops:
        if op.seen:
            checker.adopt(op.seen)
        checker.submitted(op)
        if checker.open > MOST_OPEN:
            raise TooManyOpen(op)
        yield from checker.races
        checker.races.clear()


def check_ops(ops: Iterable[Op]) -> list[Race]:
    """Return the races among the operations of a trace, given in the order of submission."""
    return list(races_of(ops))


def _later(clock: Clock, other: Sequence[int]) -> Clock:
    return list(map(max, clock, other))
