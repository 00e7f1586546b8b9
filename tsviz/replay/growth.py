"""Following a whole recording as a library: its bundle whenever more of it is committed, to its end.

Each bundle is frozen: what is committed later changes nothing in it, and of each table only what is new was read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tsviz.trace import layout
from tsviz.trace.errors import NothingYet
from tsviz.trace.reader import Bundle, Part, open_bundle
from tsviz.trace.ring import ring_at
from tsviz.trace.tail import Tail

from .follow import Looker
from .follow_values import LIVE, Look

POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Grown:
    """A recording at one moment: what is committed of every part, and how far each is, by `node/rank`."""

    bundle: Bundle
    looks: dict[str, Look]
    told: tuple[str, ...] = ()
    """What was dropped in front of it since the look before, by a ring, in words."""

    @property
    def rounds(self) -> int:
        """Committed rounds of all parts."""
        return sum(look.rounds for look in self.looks.values())

    @property
    def ended(self) -> bool:
        """Whether nothing will follow: every part was closed, or its process killed."""
        return bool(self.looks) and all(look.state != LIVE for look in self.looks.values())


def growth(
    path: Path, *, wait: Callable[[float], object] = time.sleep, waits: Callable[[str], object] = lambda _: None
) -> Iterator[Grown]:
    """Yield what is committed now, then again whenever more is, and a last time when the recording has ended.

    Of a flight recorder, `OUT.ring` or the OUT that it has not written yet, it is what is kept at each moment.
    `wait(seconds)` is called between two looks, and `waits(words)` while there is no part, whenever the words change.
    Raises `TraceError`, OSError.
    """
    if (home := ring_at(path)) is not None:
        from .ring.follow import ring_growth

        yield from ring_growth(home, wait)
        return
    followers: dict[str, _Kept] = {}
    seen: dict[str, tuple[int, str]] | None = None
    said = ""
    while True:
        try:
            bundle = open_bundle(path)
        except NothingYet as nothing:
            if str(nothing) != said:
                waits(said := str(nothing))
            wait(POLL_SECONDS)
            continue
        for part in bundle.parts:
            followers.setdefault(f"{part.node}/{part.rank}", _Kept(path, part.node, part.rank))
        looks = {name: follower.look() for name, follower in followers.items()}
        now = {name: (look.rounds, look.state) for name, look in looks.items()}
        if now != seen:
            seen = now
            grown = Grown(_frozen(path, followers), looks)
            yield grown
            if grown.ended:
                return
        wait(POLL_SECONDS)


class _Kept(Looker):
    """Follows one part, of which everything is kept that was read: all of it is asked about again and again."""

    def __init__(self, path: Path, node: str, rank: int) -> None:
        self._tail = Tail(layout.part_directory(path, node, rank) / layout.HOT)
        super().__init__(path, node, rank, self._tail)

    def part(self) -> Part:
        """Return the part as it is committed now. Raises `TraceError`."""
        self._tail.refresh()
        return Part.at(self._directory, self._tail.committed())


def _frozen(path: Path, followers: dict[str, _Kept]) -> Bundle:
    bundle = open_bundle(path)
    if bundle.end is None:
        bundle.parts = [followers[f"{part.node}/{part.rank}"].part() for part in bundle.parts
                        if f"{part.node}/{part.rank}" in followers]  # fmt: skip
    return bundle
