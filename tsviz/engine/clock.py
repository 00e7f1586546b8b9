"""Time as the loop sees it: one clock a run, shared by the nodes, the device and the recorder."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Where `now` comes from, and how the loop waits. Nanoseconds since the start of the run."""

    def now_ns(self) -> int:
        """Return the current time."""

    def wait_until_ns(self, at_ns: int) -> None:
        """Return once `now_ns() >= at_ns`; earlier where something woke the clock."""


class VirtualClock:
    """A clock that stands still until somebody waits; it never goes back."""

    __slots__ = ("_now_ns",)

    def __init__(self, now_ns: int = 0) -> None:
        self._now_ns = now_ns

    def now_ns(self) -> int:
        """Return the current virtual time."""
        return self._now_ns

    def wait_until_ns(self, at_ns: int) -> None:
        """Jump to `at_ns`, or stay where the clock is when that has passed."""
        if at_ns > self._now_ns:
            self._now_ns = at_ns

    def advance(self, by_ns: int) -> None:
        """Let `by_ns` pass.

        Raises:
            ValueError: for a negative span.
        """
        if by_ns < 0:
            raise ValueError(f"a clock does not go back: asked to advance by {by_ns} ns")
        self._now_ns += by_ns
