"""The errors that the twin raises where the reference would not have raised one."""

from __future__ import annotations


class SchedulerAbort(RuntimeError):
    """The reference logs and aborts its process here; the twin refuses the call and changes nothing."""


class InvariantError(RuntimeError):
    """A bookkeeping invariant broke: names the invariant, the place and the numbers."""
