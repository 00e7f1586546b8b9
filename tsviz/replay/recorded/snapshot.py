"""What a pane sees: frozen values at one position of a trace.

Panes are pure functions of these; nothing here refers back to the trace, so a pane can be drawn, tested and kept
while the cursor has moved on (debugger.md, section 1). Strings are as recorded: whoever draws them cleans them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tsviz.trace.errors import TraceError

STATES = (
    "bootstrapping", "waiting", "prefilling", "prefill_done", "remote", "decoding", "retracted", "finished", "aborted",
)  # fmt: skip
"""States of a request as far as recorded facts tell them (without re-execution)."""


@dataclass(frozen=True, slots=True)
class Row:
    """One scheduled row of the plan (table `operations`)."""

    kind: str
    request: str
    submission: int
    slot: int
    begin_tokens: int | None
    input_tokens: int
    replay_tokens: int
    prefill_tokens: int

    @property
    def completes(self) -> bool:
        """Whether this prefill row reaches the end of the prompt."""
        return self.begin_tokens is not None and self.begin_tokens + self.input_tokens == self.prefill_tokens


@dataclass(frozen=True, slots=True)
class Cause:
    """What became of a request in a round: the one named cause (debugger.md, section 3), since when, in words."""

    name: str
    words: str
    holder: str
    since_round: int
    at_least: bool = False
    """It may hold since before the trace begins, so that its rounds are at least those since then."""


@dataclass(frozen=True, slots=True)
class Term:
    """One term of what an admission holds beyond its chunk."""

    name: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Reserve:
    """What the request's last prefill attempt held beyond its chunk, in tokens, and in which round that was.

    `full_tokens` is what a full-history group holds: the terms but `state growth`, which is what a state group holds.
    """

    round: int
    terms: tuple[Term, ...]
    full_tokens: int


@dataclass(frozen=True, slots=True)
class RequestLine:
    """One live (or just ended) request at the position. Lengths in tokens; `age_rounds` since its submission."""

    request: str
    submission: int
    state: str
    computed_tokens: int
    prompt_tokens: int
    generated_tokens: int
    max_new_tokens: int
    held_pages: int
    age_rounds: int
    scheduled: bool
    retractions: int
    cause: Cause | None = None
    """None where decisions are not known: not recorded at this level, or behind the verified frontier."""
    group_pages: tuple[int, ...] = ()
    """Pages it holds by group, in the order of `TraceHead.groups`; empty for one that holds none."""
    carried: bool = False
    """It was submitted before the trace begins, so that it was retracted at least so often."""


@dataclass(frozen=True, slots=True)
class BlockTable:
    """The block table of one request in one group behind the plan: page ids by slot, 0 is a hole.

    `changed` holds the slots that this round's plan wrote, `before` what stood in them (0: nothing or a hole).
    """

    group: str
    block_tokens: int
    pages: tuple[int, ...]
    changed: frozenset[int]
    before: dict[int, int]
    zeroed: frozenset[int]


@dataclass(frozen=True, slots=True)
class Transfer:
    """One store or load of the plan; `acknowledged_round` is None while it is out at the end of the trace."""

    op_id: int
    kind: str
    pages: int
    source_pinned: bool | None
    acknowledged_round: int | None


@dataclass(frozen=True, slots=True)
class Outstanding:
    """An operation that is out, and the round whose plan began it."""

    round: int
    transfer: Transfer


@dataclass(frozen=True, slots=True)
class Forward:
    """A measured forward: its round, when that was planned, its begin and end on the device, and its tokens."""

    round: int
    plan_ns: int
    start_ns: int
    end_ns: int
    tokens: int


@dataclass(frozen=True, slots=True)
class DeviceOperation:
    """An operation of a real device: what it is, on which stream, whose end it waited for, and when it ran."""

    op: int
    round: int
    stream: str
    kind: str
    layer: int | None
    op_id: int | None
    moved_bytes: int
    waits: tuple[int, ...]
    submit_ns: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """What a row of a forward came to: tokens before it, fed, accepted, the least distance of its two best logits."""

    request: str
    valid_tokens: int
    fed_tokens: int
    accepted_tokens: int
    top2_margin: float
    broken: bool


@dataclass(frozen=True, slots=True)
class DeviceSide:
    """What a device did for a round: its operations in the order of submission, its rows, the forwards around it."""

    forwards: tuple[Forward, ...]
    operations: tuple[DeviceOperation, ...] = ()
    rows: tuple[DeviceRow, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """A row as recorded: its table, and its columns as names and text."""

    table: str
    fields: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Pool:
    """LCM parents of the device: all that can be used, those that hold nothing, and the rest (owned or cached)."""

    usable_pages: int
    empty_pages: int
    zeroed_pages: int
    active_pages: int | None = None
    """Parents that live tables hold; None where decisions do not tell."""

    @property
    def occupied_pages(self) -> int:
        """Parents that hold at least one owned or cached block."""
        return self.usable_pages - self.empty_pages


@dataclass(frozen=True, slots=True)
class Frontier:
    """How far decisions are known: `source` is `recorded`, `derived` (re-executed and verified) or `none`.

    `divergence` says in words where the twin and the recording part; empty where they do not.
    """

    source: str
    last_round: int
    divergence: str = ""


@dataclass(frozen=True, slots=True)
class TraceHead:
    """What does not change while one steps: identity of the trace and its size."""

    name: str
    node: str
    rank: int
    role: str
    engine: str
    engine_version: str
    rule_set: str
    rounds: int
    requests: int
    live: bool
    clock: str
    gaps: int
    parts: tuple[str, ...]
    groups: tuple[str, ...] = ()
    """Names of the cache groups."""
    frontier: Frontier = Frontier("none", 0)
    first_round: int = 1
    """The first round that is recorded: a later one than 1 in a slice, and where a flight recorder dropped the rest."""
    calls_only: bool = False
    """Whether only its calls were recorded: plans are then not there, or made again and compared."""
    host_pages: int = 0
    """LCM blocks of the host tier; 0 without one."""
    zero_ns: int = 0
    """What the part's clock showed when the trace began: 0 for a virtual clock, else the start of its first round."""
    wall_zero_ns: int | None = None
    """When the trace began, in ns since 1970; None where its clock has no place on the wall clock."""


@dataclass(frozen=True, slots=True)
class Preparing:
    """How far the indexing of a large trace is, in rows of its tables; `error` says why it has stopped.

    `words`: nothing is being built, since what tells of requests was not recorded, and how it is had all the same.
    """

    done_rows: int
    of_rows: int
    error: str = ""
    words: str = ""


class NotPrepared(TraceError):
    """What was asked for is told by what is still being built: ask again; `preparing` says how far that is."""

    def __init__(self, path: Path, preparing: Preparing) -> None:
        super().__init__(path, "requests", "what happened to them", "that it is still put together")
        self.preparing = preparing


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one screen shows at one round."""

    head: TraceHead
    round: int
    start_ns: int
    budget_tokens: int
    scheduled_tokens: int
    batch_slots: int
    rows: tuple[Row, ...]
    requests: tuple[RequestLine, ...]
    counts: dict[str, int]
    """Requests by state, from the scheduler's own counters."""
    retracted: int
    transfers: tuple[Transfer, ...]
    pool: Pool
    selected: int | None
    """Submission whose tables are shown."""
    tables: tuple[BlockTable, ...]
    events: tuple[str, ...]
    """What landed between the previous plan and this one, one line each, in words."""
    decisions: str = "none"
    """Where causes and reserves come from: `recorded`, `derived` (re-executed and verified), or `none`."""
    reserve: Reserve | None = None
    """Of the selected request."""
    preparing: Preparing | None = None
    """Set while nothing is known of requests, because what tells of them is being built."""


class RecordedView(Protocol):
    """Recorded state of one part of a trace: any round, without re-execution (architecture.md, section 6)."""

    @property
    def head(self) -> TraceHead:
        """Identity and size of the trace."""
        ...

    def snapshot(self, round_: int, selected: int | None = None) -> Snapshot:
        """Return what is known at `round_` (clamped to the trace), with the tables of request `selected`."""
        ...

    def next_mark(self, round_: int, submission: int | None, step: int) -> int | None:
        """Return the next (`step` 1) or previous (-1) round in which `submission` was scheduled or changed state."""
        ...
