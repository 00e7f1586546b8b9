"""Live state: the scheduler object at one stop of one round, as frozen values (architecture.md, section 6).

It has what recorded tables cannot tell: who owns and shares each page, in which order cached pages would be evicted,
which operations pin what, where a request stands in its queue, and the plan as far as it was built. It comes from
re-execution and is made only for rounds that were verified.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.scheduler.plan import Batch, Plan, visible_pages
from tsviz.scheduler.snapshot import PLAIN, RequestState, Snapshot
from tsviz.scheduler.states import (
    DECODING,
    PREFILL_DONE,
    PREFILLING,
    RETRACTED,
    STATE_NAMES,
    SUBMITTED,
)

from .pages import LiveTier, tier_of

_AT = {name: index for index, name in enumerate(PLAIN)}
WAITING, RECOVERABLE, RESIDENT, DECODES = "waiting", "recoverable", "prefilling", "decoding"


@dataclass(frozen=True, slots=True)
class LiveRequest:
    """One live request. Lengths in tokens; `tables` by group as page ids by slot, 0 a hole."""

    request: str
    submission: int
    state: str
    """As the twin names it: Submitted, Prefilling, Decoding, ..."""
    queue: str
    """The list that a phase walks and in which it stands: waiting, recoverable, prefilling, decoding; else empty."""
    place: int
    """Its position in that queue, from 0; -1 without one."""
    slot: int
    """Request-pool slot; 0 without pages."""
    total_tokens: int
    computed_tokens: int
    """Tokens whose rows are written, the scheduled window included; -1 in a state that has none."""
    prompt_tokens: int
    max_new_tokens: int
    retractions: int
    in_flight: int
    """Forwards whose result is out."""
    scheduled: bool
    """Whether it has a row in the plan so far."""
    tables: tuple[tuple[int, ...], ...]
    available_tokens: tuple[int, ...]
    """By group, tokens that fit into the table before it must grow."""

    @property
    def generated_tokens(self) -> int:
        """Tokens beyond the submitted prompt."""
        return self.total_tokens - self.prompt_tokens


@dataclass(frozen=True, slots=True)
class LiveRow:
    """A row of the plan so far: `kind` prefill, decode, remote_prefill or remote_decode."""

    kind: str
    request: str
    slot: int
    input_tokens: int


@dataclass(frozen=True, slots=True)
class Ticket:
    """An operation that is out: `kind` store_pinned, store_stream_ordered or load."""

    op_id: int
    kind: str
    pages: int


@dataclass(frozen=True, slots=True)
class LiveState:
    """A scheduler at a stop. `stop` 0 is right before the plan; None is behind it, before the calls that follow."""

    round: int
    stop: int | None
    requests: tuple[LiveRequest, ...]
    """In order of submission."""
    tiers: tuple[LiveTier, ...]
    """The device, and the host where there is one."""
    rows: tuple[LiveRow, ...]
    """The plan so far; behind the round the whole plan, before it nothing."""
    zeroed_pages: tuple[tuple[int, ...], ...]
    """By group, fresh pages of the plan so far."""
    tickets: tuple[Ticket, ...]
    free_slots: tuple[int, ...]
    storage_keys: int
    """Keys known to be in storage."""

    def queue(self, name: str) -> tuple[LiveRequest, ...]:
        """Return who stands in a queue, in its order."""
        return tuple(sorted((r for r in self.requests if r.queue == name), key=lambda r: r.place))

    def holders(self, group: int, page: int) -> tuple[str, ...]:
        """Return the requests whose table of a group has a page."""
        return tuple(r.request for r in self.requests if r.tables and page in r.tables[group])

    @property
    def tier(self) -> LiveTier:
        """The device."""
        return self.tiers[0]


@dataclass(frozen=True, slots=True)
class Seen:
    """A scheduler as it was seen at a stop, not yet worked out: what costs time is left to whoever wants it."""

    round: int
    stop: int | None
    snapshot: Snapshot
    """Its state at that moment, also inside a round."""
    rows: tuple[LiveRow, ...]
    zeroed_pages: tuple[tuple[int, ...], ...]
    submissions: dict[str, int]


def live_state(seen: Seen) -> LiveState:
    """Work out a live state."""
    snapshot = seen.snapshot
    scheduled = {row.request for row in seen.rows}
    queues: dict[str, int] = {}
    places: dict[int, tuple[str, int]] = {}
    for at in sorted(range(len(snapshot.requests)), key=lambda at: _turn(snapshot.requests[at])):
        name = _queue(snapshot.requests[at])
        places[at] = (name, queues.get(name, 0) if name else -1)
        queues[name] = queues.get(name, 0) + 1
    requests = tuple(
        _request(request, seen.submissions.get(request.request_id, -1), places[at], request.request_id in scheduled)
        for at, request in enumerate(snapshot.requests)
    )
    return LiveState(
        seen.round, seen.stop, requests, _tiers(snapshot, requests), seen.rows, seen.zeroed_pages,
        _tickets(snapshot), snapshot.free_slots, 0 if snapshot.shadow is None else len(snapshot.shadow),
    )  # fmt: skip


def _turn(request: RequestState) -> tuple[Any, ...]:
    """Return what orders a queue: readmissions with generated output first, then by epoch; others by submission."""
    plain = dict(zip(PLAIN, request.plain, strict=True))
    if _queue(request) == RECOVERABLE:
        return (not plain["resumes_generation"], plain["retraction_epoch"], plain["order"])
    return (False, 0, plain["order"])


def plan_rows(plan: Plan) -> tuple[LiveRow, ...]:
    """Return the rows of a plan, also of one that is being built."""
    rows = _batch(plan.batch, "prefill", "decode")
    rows += _batch(plan.remote_prefill, "remote_prefill", "remote_prefill")
    rows += _batch(plan.remote_decode, "remote_decode", "remote_decode")
    return tuple(rows)


def _batch(batch: Batch | None, first: str, then: str) -> list[LiveRow]:
    if batch is None:
        return []
    return [
        LiveRow(first if at < batch.num_extends else then, row.request_id, row.slot, row.input_length)
        for at, row in enumerate(batch.rows)
    ]


def _queue(request: RequestState) -> str:
    state = request.plain[_AT["state"]]
    if state == SUBMITTED:
        return WAITING
    if state == RETRACTED:
        return RECOVERABLE if request.plain[_AT["recoverable"]] else WAITING
    if state == PREFILLING:
        return RESIDENT
    return DECODES if state in (DECODING, PREFILL_DONE) else ""


def _request(request: RequestState, submission: int, place: tuple[str, int], scheduled: bool) -> LiveRequest:
    plain = dict(zip(PLAIN, request.plain, strict=True))
    number = {name: value for name, value in plain.items() if type(value) is int}
    state = number["state"]
    computed = request.token_count - 1 if state == DECODING else -1
    if state in (PREFILLING, PREFILL_DONE):
        computed = number["window_end"]
    return LiveRequest(
        request=request.request_id,
        submission=submission,
        state=STATE_NAMES[state],
        queue=place[0],
        place=place[1],
        slot=number["slot"] if request.tables else 0,
        total_tokens=request.token_count,
        computed_tokens=computed,
        prompt_tokens=number["submitted_tokens"],
        max_new_tokens=number["max_new_tokens"],
        retractions=number["retractions"],
        in_flight=number["in_flight"],
        scheduled=scheduled,
        tables=tuple([tuple(visible_pages((t[0], t[1], t[3]))) for t in request.tables]),
        available_tokens=tuple([t[2] - number["debt_tokens"] for t in request.tables]),
    )


def _tiers(snapshot: Snapshot, requests: tuple[LiveRequest, ...]) -> tuple[LiveTier, ...]:
    device: list[tuple[int, int, int]] = []
    host: list[tuple[int, int, int]] = []
    for op in snapshot.stores:
        for t in op.transfers:
            host.append((t.group, t.host_page, op.op_id))
            if op.source_pinned:
                device.append((t.group, t.device_page, op.op_id))
    for load in snapshot.loads:
        for pair in load.pairs:
            host.append((pair.group, pair.host_page, load.op_id))
            device.append((pair.group, pair.device_page, load.op_id))
    tables: list[tuple[int, int, npt.NDArray[np.int32]]] = [
        (group, request.submission, np.array(table, np.int32))
        for request in requests
        for group, table in enumerate(request.tables)
    ]
    tiers = [tier_of("device", snapshot.device, snapshot.config, tables, device)]
    if snapshot.host is not None:
        tiers.append(tier_of("host", snapshot.host, snapshot.config, [], host))
    return tuple(tiers)


def _tickets(snapshot: Snapshot) -> tuple[Ticket, ...]:
    tickets = [
        Ticket(op.op_id, "store_pinned" if op.source_pinned else "store_stream_ordered", len(op.transfers))
        for op in snapshot.stores
    ]
    tickets += [Ticket(load.op_id, "load", len(load.pairs)) for load in snapshot.loads]
    return tuple(sorted(tickets, key=lambda ticket: ticket.op_id))
