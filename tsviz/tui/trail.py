"""Where the cursor was: back and forward through jumps, as in a browser (debugger.md, section 2, `u`/`U`)."""

from __future__ import annotations

from typing import NamedTuple

_MOST = 500


class Spot(NamedTuple):
    """A place of the cursor."""

    round: int
    stop: int | None = None
    submission: int | None = None


class Trail:
    """The spots that were left by a jump, and those that were gone back from."""

    def __init__(self) -> None:
        self._back: list[Spot] = []
        self._forward: list[Spot] = []

    def left(self, spot: Spot) -> None:
        """The cursor jumps away from a spot; what was gone back from is forgotten."""
        self._forward.clear()
        if not self._back or self._back[-1] != spot:
            self._back.append(spot)
            del self._back[:-_MOST]

    def back(self, here: Spot) -> Spot | None:
        """Return the last spot that was left, or None."""
        return self._move(self._back, self._forward, here)

    def forward(self, here: Spot) -> Spot | None:
        """Return the last spot that was gone back from, or None."""
        return self._move(self._forward, self._back, here)

    def _move(self, source: list[Spot], target: list[Spot], here: Spot) -> Spot | None:
        if not source:
            return None
        target.append(here)
        return source.pop()
