"""Why: a frozen value for each decision, told to an observer at its stop (`architecture.md` 5).

The values are those the code acts on. A *stop* (phase, candidate, attempt, retraction iteration, grant) moves
the stop number on; every other decision hangs on the stop before it. A decode that touches no page is a stop
of which nothing is told. Round and stop stand beside the value, not in it: a refusal or a verdict that
repeats unchanged is the same object.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

# Causes: what a verdict says of a request in a round (`debugger.md` 3). The list is closed.
SCHEDULED: Final = "scheduled"
BOOTSTRAP: Final = "waits_for_bootstrap"
RESULT: Final = "waits_for_result"
REMOTE_TRANSFER: Final = "remote_transfer"
BATCH_FULL: Final = "batch_full"
BUDGET_SPENT: Final = "token_budget_spent"
HOLDBACK: Final = "decode_holdback"
CHUNK_ZERO: Final = "chunk_cut_to_zero"
NO_SLOT: Final = "no_request_slot"
HEAD_OF_LINE: Final = "head_of_line"
SEALED: Final = "sealed_by_readmission"
RESIDENT_BLOCKED: Final = "resident_prefill_blocked"
RETRACTED: Final = "retracted"
CANNOT_JOIN: Final = "grant_cannot_join"
NEVER: Final = "never_schedulable"
CAPACITY: Final = "capacity"
RECOVERY_ALONE: Final = "recovery_runs_alone"
ONE_REMOTE: Final = "one_remote_admission"
PREFILL_ONLY: Final = "decode_waits_for_prefill_round"
DEFERRED: Final = "deferred_by_transfer"
NOT_QUIESCENT: Final = "victim_not_quiescent"
NOTHING_RETRACTABLE: Final = "nothing_retractable"

CAUSES: Final = (
    SCHEDULED,
    BOOTSTRAP,
    RESULT,
    REMOTE_TRANSFER,
    BATCH_FULL,
    BUDGET_SPENT,
    HOLDBACK,
    CHUNK_ZERO,
    NO_SLOT,
    HEAD_OF_LINE,
    SEALED,
    RESIDENT_BLOCKED,
    RETRACTED,
    CANNOT_JOIN,
    NEVER,
    CAPACITY,
    RECOVERY_ALONE,
    ONE_REMOTE,
    PREFILL_ONLY,
    DEFERRED,
    NOT_QUIESCENT,
    NOTHING_RETRACTABLE,
)


# Stops


@dataclass(frozen=True, slots=True)
class Phase:
    """Stop: a phase of the role's grammar begins."""

    name: str
    """remote_decodes, recovery, readmission, resident_chunks, new_prompts, decodes, remote_admission or
    retraction."""
    budget_tokens: int
    """Forward tokens left."""
    holdback_tokens: int
    """Budget that decodes leave to a pending prefill."""
    batch_rows: int
    """Rows in the local batch so far."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Stop: a phase comes to a request."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Attempt:
    """Stop: an admission is tried. Several for one candidate when a storage prefetch found no room."""

    request_id: str
    kind: str
    """first_chunk, remote_landing, later_chunk or decode."""
    need_pages: tuple[int, ...]
    """Per group, new device pages: growth by the demand, and one a host hit."""
    hit_tokens: int
    """Prefix hit the demands were sized for."""


@dataclass(frozen=True, slots=True)
class Iteration:
    """Stop: one turn of the retraction loop."""

    blocker_id: str
    victim_id: str
    """Empty when nobody can be a victim."""
    outcome: str
    """retracted, victim_not_quiescent, nothing_retractable or deferred_by_transfer."""
    op_id: int
    """Operation that defers, else -1."""


@dataclass(frozen=True, slots=True)
class Grant:
    """Stop: the freed capacity is offered."""

    request_id: str
    outcome: str
    """granted, capacity, not_now, cannot_join, batch_full or nobody_waits."""


# Rows that hang on a stop


@dataclass(frozen=True, slots=True)
class StateChange:
    """A transition of the request's state machine."""

    request_id: str
    before: str
    """Empty for a new request."""
    after: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """A run of rounds begins in which this is what became of the request."""

    request_id: str
    cause: str
    """One of `CAUSES`."""
    holder_id: str
    """The request in the way; empty when none is."""
    rule: str
    """The chunk rule that cut to nothing, or the inequality that can never hold; else empty."""
    op_id: int
    """Operation that defers, else -1."""


@dataclass(frozen=True, slots=True)
class TierMatch:
    """What a first admission may resume from, per tier and group."""

    request_id: str
    tier: str
    """device or host."""
    group: int
    probed_pages: int
    """Prefix pages looked up."""
    common_tokens: int
    """Length on which the groups agree."""
    closed_tokens: int
    """Length that full history alone reaches."""
    begin_slot: int
    """First table slot of the mask."""
    hole_slots: int
    hit_slots: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A cut chunk and the rule that bound it."""

    request_id: str
    tokens: int
    """0 is "not now"."""
    bound_by: str
    """The last rule that shortened it: replay, whole_prompt, budget, alignment, promotion, final_window."""
    budget_tokens: int
    replay_tokens: int
    """Fed again out of the budget."""
    unscheduled_tokens: int
    promotion_tokens: int
    """Pending promotion boundary, 0 without one."""


@dataclass(frozen=True, slots=True)
class Reserve:
    """What an admission holds beyond its chunk, term by term."""

    request_id: str
    decode_tokens: int
    """The decode slot of a completing chunk."""
    rest_of_prompt_tokens: int
    """Prompt left after the chunk; full history prepays it when there is headroom."""
    headroom_tokens: int
    """Admission headroom, full history only."""
    growth_tokens: int
    """Growth of a state group beyond its endpoint (at least a block of it); -1 when nothing grows."""

    @property
    def full_tokens(self) -> int:
        """Reserve of a full-history group."""
        prepaid = self.rest_of_prompt_tokens + self.headroom_tokens if self.headroom_tokens else 0
        return max(self.decode_tokens, prepaid)

    def state_tokens(self, granularity_tokens: int) -> int:
        """Reserve of a state group."""
        return max(granularity_tokens, self.growth_tokens) if self.growth_tokens >= 0 else 0


@dataclass(frozen=True, slots=True)
class Refused:
    """An admission was refused for capacity: what it needs, what is there, what evictions could reach."""

    request_id: str
    need_pages: tuple[int, ...]
    """Per group, new device pages."""
    free_blocks: int
    """LCM blocks that no group held."""
    free_local_pages: tuple[int, ...]
    """Per group, empty children in its own blocks."""
    reachable_blocks: int
    """LCM blocks that would be free after every eviction this request may cause."""
    reachable_local_pages: tuple[int, ...]
    """Per group, empty children in blocks that would remain."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """An admission was granted."""

    request_id: str
    epoch: int
    """Access epoch of the request."""
    device_tokens: int
    host_tokens: int
    promotion_tokens: int
    fresh_pages: tuple[int, ...]
    """Per group, pages to zero."""
    loaded_pages: int
    evicted_pages: int
    """Planned evictions."""


@dataclass(frozen=True, slots=True)
class Hold:
    """An incomplete prefill holds the line: nothing behind it is scheduled."""

    request_id: str
    computed_tokens: int
    prompt_tokens: int


@dataclass(frozen=True, slots=True)
class Blocker:
    """The first request of the round that was refused for capacity."""

    request_id: str


@dataclass(frozen=True, slots=True)
class Victim:
    """A candidate of the retraction loop."""

    request_id: str
    tier: str
    """prefill or decode."""
    rank: int
    """0 is chosen first; -1 when exempt."""
    releasable_blocks: int
    """LCM blocks its tables alone hold (decode tier; 0 in the prefill tier, which ranks by tokens)."""
    tokens: int
    in_flight: int
    """Forwards whose result is out; above 0 the victim is not quiescent."""
    exempt: bool
    """Its admission covers its whole generation."""


@dataclass(frozen=True, slots=True)
class Readmission:
    """A retracted request with a recoverable snapshot, in the order of return."""

    request_id: str
    rank: int
    resumes_generation: bool
    retraction_epoch: int


@dataclass(frozen=True, slots=True)
class Publication:
    """Completed pages of one group entered the device index."""

    request_id: str
    group: int
    first_page: int
    end_page: int
    kind: str
    """chunk, endpoint or promoted."""
    new_pages: int
    """Entries that did not exist before."""


@dataclass(frozen=True, slots=True)
class Reclaim:
    """Expired slots of one group were given up."""

    request_id: str
    group: int
    slots: int


@dataclass(frozen=True, slots=True)
class Eviction:
    """A cached page left its tier."""

    tier: str
    group: int
    page: int
    kind: str
    epoch: int
    acquired: bool


@dataclass(frozen=True, slots=True)
class Transfer:
    """An operation between the tiers began or ended."""

    op_id: int
    kind: str
    """store_pinned, store_stream_ordered or load."""
    event: str
    """started, done or failed."""
    pages: int


@dataclass(frozen=True, slots=True)
class Pool:
    """Supply of one group on the device at the end of a round."""

    group: int
    local_pages: int
    """Empty children in the group's own blocks."""
    cached_pages: int
    empty_blocks: int
    """LCM blocks that no group holds; the same for every group."""
    available_blocks: int
    """Empty, or holding only unpinned cache; the same for every group."""
    active_blocks: int
    """Referred to by live tables; the same for every group."""


Stop = Phase | Candidate | Attempt | Iteration | Grant
Decision = (
    Stop
    | StateChange
    | Verdict
    | TierMatch
    | Chunk
    | Reserve
    | Refused
    | Admitted
    | Hold
    | Blocker
    | Victim
    | Readmission
    | Publication
    | Reclaim
    | Eviction
    | Transfer
    | Pool
)

STOPS: Final = (Phase, Candidate, Attempt, Iteration, Grant)
DECISIONS: Final = (
    *STOPS,
    StateChange,
    Verdict,
    TierMatch,
    Chunk,
    Reserve,
    Refused,
    Admitted,
    Hold,
    Blocker,
    Victim,
    Readmission,
    Publication,
    Reclaim,
    Eviction,
    Transfer,
    Pool,
)


class Observer(Protocol):
    """Who wants to know. Called while the round is built; must not change anything of the scheduler."""

    def __call__(self, round_number: int, stop: int, decision: Decision, /) -> None:
        """Take a decision of a round (counted from 1; between rounds that of the last plan) at a stop."""


class Log:
    """Numbers the stops of a round and tells the observer. Exists only when one listens."""

    __slots__ = ("_observer", "muted", "round_number", "stop", "told")

    def __init__(self, observer: Observer) -> None:
        """Nothing told yet."""
        self._observer = observer
        self.round_number = 0
        self.stop = 0
        self.told = 0
        """Decisions told in this round, the one being told included."""
        self.muted = 0
        """Decisions of the next round that were told before a snapshot and are not told again."""

    def begin(self, round_number: int) -> None:
        """A round begins; its first stop is 1."""
        self.round_number = round_number
        self.stop = 0
        self.told = 0

    def at(self, stop: Stop) -> None:
        """A stop."""
        self.stop += 1
        self.tell(stop)

    def tell(self, decision: Decision) -> None:
        """A decision at the current stop."""
        self.told += 1
        if self.told > self.muted:
            self._observer(self.round_number, self.stop, decision)
