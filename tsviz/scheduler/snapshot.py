"""State as data: everything a scheduler is, as builtin values and immutable dataclasses. No pickle.

Tokens, digest chains and table pages only ever grow, so a snapshot holds them with a length and copies
nothing. What can be derived (heaps, lookup dictionaries, live counters) is derived again by `rebuild`.
"""

from __future__ import annotations

from array import array
from collections import deque
from dataclasses import dataclass
from heapq import heappush
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from tsviz.scheduler.cache.hashing import Digest
from tsviz.scheduler.cache.index import Entry, Tier
from tsviz.scheduler.cache.kv_events import Boundary, KvEvents
from tsviz.scheduler.cache.storage import StorageKey
from tsviz.scheduler.cache.tables import Table
from tsviz.scheduler.cache.transfers import LoadOp, StoreOp
from tsviz.scheduler.config import Config
from tsviz.scheduler.decisions import Refused, Verdict
from tsviz.scheduler.plan import Plan, Row
from tsviz.scheduler.planning.memory import Remembered
from tsviz.scheduler.request import Request
from tsviz.scheduler.rules import RuleSet

if TYPE_CHECKING:
    from tsviz.scheduler.scheduler import Scheduler

PLAIN = (
    "access_epoch",
    "debt_tokens",
    "decode_row",
    "hashed_pages",
    "in_flight",
    "max_new_tokens",
    "next_reserve_tokens",
    "order",
    "prefill_size",
    "promotion_tokens",
    "quiet_until",
    "recoverable",
    "refusal",
    "replay_tokens",
    "resumes_generation",
    "retraction_epoch",
    "retractions",
    "scheduled_round",
    "slack_tokens",
    "slot",
    "spec_candidates",
    "state",
    "submitted_tokens",
    "verdict",
    "views",
    "window_end",
)

_plain = attrgetter(*PLAIN)

Scalar = int | bool | tuple[int, ...] | tuple[tuple["array[int]", int, int], ...] | Row | Refused | Verdict | None


class RequestState(NamedTuple):
    """One request: a tuple, because a thousand of them are made at once."""

    request_id: str
    tokens: array[int]
    token_count: int
    chain: list[Digest]
    chain_pages: int
    state_boundaries: tuple[int, ...]
    tables: tuple[tuple[array[int], int, int, int], ...]
    """Per group: pages, how many of them, available tokens, frontier."""
    memory: tuple[int, int, int, Digest, int] | None
    """Remembered refusal: budget range, blocks, first digest, group."""
    plain: tuple[Scalar, ...]
    """The remaining fields, in a fixed order."""


@dataclass(frozen=True, slots=True)
class TierState:
    """One tier."""

    fresh: int
    returned: tuple[int, ...]
    owner: tuple[int, ...]
    occupied: tuple[int, ...]
    holes: tuple[int, ...]
    tabled: tuple[int, ...]
    refs: tuple[tuple[int, ...], ...]
    entries: tuple[tuple[Entry | None, ...], ...]
    registered: int


@dataclass(frozen=True, slots=True)
class KvState:
    """KV-event bookkeeping."""

    boundaries: tuple[tuple[Digest, Boundary], ...]
    entries: tuple[tuple[Digest, int], ...]
    touched: tuple[Digest, ...]
    kept: tuple[tuple[Digest, int], ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A scheduler at a stop. `plan` is the plan under construction when the stop lies inside a round."""

    config: Config
    rules: RuleSet
    rounds: int
    submitted: int
    free_slots: tuple[int, ...]
    requests: tuple[RequestState, ...]
    finished: tuple[str, ...]
    retraction_epoch: int
    clock: int
    device: TierState
    host: TierState | None
    shadow: tuple[StorageKey, ...] | None
    kv: KvState | None
    pending_stores: tuple[StorageKey, ...]
    stores: tuple[StoreOp, ...]
    loads: tuple[LoadOp, ...]
    next_op: int
    finish_stores: tuple[StoreOp, ...]
    stop: int = 0
    """Stop inside round `rounds + 1`; 0 between rounds."""
    told: int = 0
    """Decisions of that round that were told up to the stop."""
    plan: Plan | None = None


def capture(scheduler: Scheduler) -> Snapshot:
    """The state between two calls."""
    cache, roster = scheduler.cache, scheduler.roster
    transfers = cache.transfers
    return Snapshot(
        config=scheduler.config,
        rules=scheduler.rules,
        rounds=scheduler.rounds,
        submitted=roster.submitted,
        free_slots=tuple(roster.slots),
        requests=tuple([_request_state(request) for request in roster.by_id.values()]),
        finished=tuple([request.request_id for request in roster.finished]),
        retraction_epoch=scheduler.retraction.epoch,
        clock=cache.clock,
        device=_tier_state(cache.device),
        host=None if cache.host is None else _tier_state(cache.host),
        shadow=None if cache.shadow is None else tuple(cache.shadow.keys),
        kv=None if cache.kv is None else _kv_state(cache.kv),
        pending_stores=tuple(transfers.pending),
        stores=tuple(transfers.stores.values()),
        loads=tuple(transfers.loads.values()),
        next_op=transfers.next_op,
        finish_stores=tuple(scheduler.feedback.finish_stores),
    )


def rebuild(scheduler: Scheduler, snapshot: Snapshot) -> None:
    """Put a snapshot into a scheduler that was just made from the same config."""
    cache, roster, transfers = scheduler.cache, scheduler.roster, scheduler.cache.transfers
    scheduler.rounds = snapshot.rounds
    scheduler.feedback.finish_stores = list(snapshot.finish_stores)
    scheduler.retraction.epoch = snapshot.retraction_epoch
    cache.clock = snapshot.clock
    _rebuild_tier(cache.device, snapshot.device)
    if cache.host is not None and snapshot.host is not None:
        _rebuild_tier(cache.host, snapshot.host)
    if cache.shadow is not None and snapshot.shadow is not None:
        cache.shadow.keys.update(dict.fromkeys(snapshot.shadow))
    if cache.kv is not None and snapshot.kv is not None:
        _rebuild_kv(cache.kv, snapshot.kv)
    transfers.pending.extend(snapshot.pending_stores)
    transfers.stores.update((op.op_id, op) for op in snapshot.stores)
    transfers.loads.update((op.op_id, op) for op in snapshot.loads)
    transfers.storing.update((t.group, t.digest, t.offset) for op in snapshot.stores for t in op.transfers)
    transfers.next_op = snapshot.next_op
    for state in snapshot.requests:
        roster.adopt(_rebuild_request(scheduler, state))
    roster.finished = [roster.by_id[request_id] for request_id in snapshot.finished]
    roster.submitted = snapshot.submitted
    roster.slots = deque(snapshot.free_slots)


def _request_state(request: Request) -> RequestState:
    memo = request.memo
    return RequestState(
        request_id=request.request_id,
        tokens=request.tokens,
        token_count=len(request.tokens),
        chain=request.chain,
        chain_pages=len(request.chain),
        state_boundaries=tuple(request.state_boundaries),
        tables=tuple([(t.pages, len(t.pages), t.available, t.frontier) for t in request.tables]),
        memory=None if memo is None else (*memo[:3], memo.first_digest, memo.group),
        plain=_plain(request),
    )


def _rebuild_request(scheduler: Scheduler, state: RequestState) -> Request:
    page_tokens = scheduler.config.prefix_granularity
    request = Request(state.request_id, state.tokens[: state.token_count], 0, page_tokens, 0, 0)
    request.chain = state.chain[: state.chain_pages]
    for name, value in zip(PLAIN, state.plain, strict=True):
        setattr(request, name, value)
    request.state_boundaries = list(state.state_boundaries)
    for pages, count, available, frontier in state.tables:
        table = Table()
        table.pages, table.available, table.frontier = pages[:count], available, frontier
        request.tables.append(table)
    if state.memory is not None:
        low, high, blocks, digest, group = state.memory
        cache = scheduler.cache
        device = cache.device.where[group][0] if group >= 0 else {}
        host = cache.host.where[group][0] if group >= 0 and cache.host is not None else {}
        request.memo = Remembered(low, high, blocks, digest, group, device, host)
    return request


def _tier_state(tier: Tier) -> TierState:
    return TierState(
        fresh=tier.fresh,
        returned=tuple(tier.returned),
        owner=tuple(tier.owner),
        occupied=tuple(tier.occupied),
        holes=tuple(tier.holes),
        tabled=tuple(tier.tabled),
        refs=tuple([tuple(refs) for refs in tier.refs]),
        entries=tuple([tuple(entries) for entries in tier.entries]),
        registered=tier.registered,
    )


def _rebuild_tier(tier: Tier, state: TierState) -> None:
    tier.fresh, tier.registered = state.fresh, state.registered
    tier.returned = deque(state.returned)
    tier.owner, tier.occupied = list(state.owner), list(state.occupied)
    tier.holes, tier.tabled = list(state.holes), list(state.tabled)
    tier.active = sum(1 for count in state.tabled if count)
    for group, refs in enumerate(state.refs):
        tier.refs[group][:] = refs
        tier.entries[group][:] = state.entries[group]
        tier.pushed[group][:] = [None] * len(refs)
    tier.busy = [0] * len(state.owner)
    for group, packing in enumerate(tier.packing):
        parents = [parent for parent, owner in enumerate(state.owner) if owner == group and parent]
        if packing == 1:
            parents = _rebuild_pages(tier, group, parents)
        for parent in parents:
            _rebuild_parent(tier, group, parent)
    for where, entries in zip(tier.where, state.entries, strict=True):
        if len(where) == 1:
            where[0].update({entry[0]: page for page, entry in enumerate(entries) if entry is not None})
            continue
        for page, entry in enumerate(entries):
            if entry is not None:
                where[entry.offset][entry.digest] = page


def _rebuild_pages(tier: Tier, group: int, pages: list[int]) -> list[int]:
    """What `_rebuild_parent` does for occupied blocks of one page; returns the blocks that are left to it.

    Written out because a large pool is restored page by page whenever somebody looks at another round.
    """
    refs, entries = tier.refs[group], tier.entries[group]
    occupied, holes, busy = tier.occupied, tier.holes, tier.busy
    left = [page for page in pages if holes[page] or occupied[page] != 1]
    if left:
        spared = set(left)
        pages = [page for page in pages if page not in spared]
    unpinned = [page for page in pages if refs[page] == 1 and entries[page] is not None]
    for page in pages:
        busy[page] = 1
    for page in unpinned:
        busy[page] = 0
    tier.loose[group].extend(unpinned)
    tier.evictable += len(unpinned)
    tier.clean += len(unpinned)
    return left


def _rebuild_parent(tier: Tier, group: int, parent: int) -> None:
    """Counters and orders of one bound LCM block."""
    packing, occupied = tier.packing[group], tier.occupied[parent]
    tier.local[group] += packing - occupied
    if 0 < occupied < packing:
        tier.listed[group][occupied].add(parent)
        heappush(tier.dense[group][occupied], parent)
    busy = 0
    for child in range(packing):
        page = 1 + (parent - 1) * packing + child
        if tier.holes[parent] >> child & 1:
            continue
        if tier.is_unpinned(group, page):
            tier.evictable += 1
            tier.requeue(group, page)
        else:
            busy += 1
    tier.busy[parent] = busy
    if busy:
        tier.reach_local[group] += packing - busy
    else:
        tier.clean += 1


def _kv_state(kv: KvEvents) -> KvState:
    return KvState(
        boundaries=tuple(kv.boundaries.items()),
        entries=tuple(kv.entries.items()),
        touched=tuple(kv.touched),
        kept=tuple(kv.kept.items()),
    )


def _rebuild_kv(kv: KvEvents, state: KvState) -> None:
    kv.boundaries.update(state.boundaries)
    kv.entries.update(state.entries)
    kv.touched.update(dict.fromkeys(state.touched))
    kv.kept.update(state.kept)
