"""How far a recording that is being followed is: a value that needs no trace to be read."""

from __future__ import annotations

from dataclasses import dataclass

LIVE, FINISHED, KILLED = "live", "finished", "killed"
ALIVE, GONE, UNKNOWN = "alive", "gone", "unknown"


@dataclass(frozen=True, slots=True)
class Look:
    """How far a recording is: the last committed round, its state, and how long ago the last commit was.

    `state` is LIVE, FINISHED or KILLED; `recorder` is ALIVE, GONE or UNKNOWN; `reason` says why a finished one ended.
    """

    rounds: int
    state: str
    recorder: str
    age_s: float
    reason: str = ""
