"""What a run came to: typed, with numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class EndReason(Enum):
    """Why a run ended."""

    DRAINED = "drained"
    """Every request has ended and every acknowledgement that will come has come."""
    MAX_ROUNDS = "max_rounds"
    """The limit on rounds was reached."""
    STOPPED = "stopped"
    """Somebody asked for it."""
    STALLED = "stalled"
    """Live requests, empty plans, and nothing out or to come that could change the next plan."""
    SCHEDULER_RAISED = "scheduler_raised"
    """The scheduler raised half-way through a call; what it had done until then stays done."""
    RANK_FAILED = "rank_failed"
    """A mirrored scheduler refused what rank 0 accepted."""


class RefusalCause(Enum):
    """Why a request was not submitted."""

    BEYOND_BOUND = "beyond the admission bound"
    EMPTY_PROMPT = "empty prompt"
    EMPTY_OUTPUT = "empty output"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request turned away at intake: what it needs and what the scheduler's bound is, both in tokens."""

    request_id: str
    cause: RefusalCause
    need_tokens: int
    bound_tokens: int


@dataclass(frozen=True, slots=True)
class RunSummary:
    """The outcome of one node's run; times are nanoseconds since its start.

    `retractions` is read off the waiting count before and after each plan: exact, except that a request that was thrown
    back mid-prompt, resumes exactly where it had stopped and shares its round with another retraction hides one.
    `failed` are requests of a P/D pair that its transfer gave up; `aborted` those that a client or the device did.
    """

    reason: EndReason
    detail: str
    rounds: int
    scheduled_rounds: int
    scheduled_rows: int
    submitted: int
    finished: int
    aborted: int
    failed: int
    refusals: tuple[Refusal, ...]
    live: int
    not_arrived: int
    retractions: int
    generated_tokens: int
    kv_events: int
    end_ns: int

    @property
    def refused(self) -> int:
        """How many requests were turned away at intake."""
        return len(self.refusals)

    def told(self) -> dict[str, str | int]:
        """What a bundle keeps of it, by name: why the node's run ended, and what became of the requests."""
        return {
            "reason": self.reason.value,
            "detail": self.detail,
            "rounds": self.rounds,
            "submitted": self.submitted,
            "finished": self.finished,
            "aborted": self.aborted,
            "failed": self.failed,
            "refused": self.refused,
            "live": self.live,
            "not_arrived": self.not_arrived,
            "end_ns": self.end_ns,
        }
