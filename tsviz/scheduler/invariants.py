"""Invariants of the bookkeeping and of the seed's section 5, by name, checkable after any call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tsviz.scheduler.cache.geometry import FULL
from tsviz.scheduler.cache.index import Tier
from tsviz.scheduler.cache.tables import releasable_blocks
from tsviz.scheduler.errors import InvariantError
from tsviz.scheduler.plan import Plan
from tsviz.scheduler.request import Request
from tsviz.scheduler.scheduler import Scheduler
from tsviz.scheduler.states import DECODING, FINISHED, PREFILL_DONE, PREFILLING, holds_pages


@dataclass(frozen=True, slots=True)
class Breach:
    """A broken invariant."""

    name: str
    place: str
    expected: str
    found: str


def _holders(scheduler: Scheduler) -> Iterator[Request]:
    return (request for request in scheduler.roster.live() if holds_pages(request.state))


def _table_pages(scheduler: Scheduler) -> Iterator[tuple[int, int, Request]]:
    """(group, page, request) of every real slot of every live table."""
    for request in _holders(scheduler):
        for group, table in zip(scheduler.cache.groups, request.tables, strict=True):
            for page in table.pages[table.frontier :]:
                if page:
                    yield group.index, page, request


def _tiers(scheduler: Scheduler) -> Iterator[Tier]:
    yield scheduler.cache.device
    if scheduler.cache.host is not None:
        yield scheduler.cache.host


def _differ(name: str, place: str, expected: object, found: object) -> Iterator[Breach]:
    if expected != found:
        yield Breach(name, place, str(expected), str(found))


def pool_totals(scheduler: Scheduler) -> Iterator[Breach]:
    """Free and bound LCM blocks make up the pool, and no block is free twice."""
    for tier in _tiers(scheduler):
        bound = sum(1 for owner in tier.owner[1:] if owner >= 0)
        yield from _differ("pool_totals", tier.name, tier.parents, tier.empty + bound)
        yield from _differ("pool_totals", tier.name, len(set(tier.returned)), len(tier.returned))
        for parent in tier.returned:
            yield from _differ("pool_totals", f"{tier.name} block {parent}", -1, tier.owner[parent])


def child_counts(scheduler: Scheduler) -> Iterator[Breach]:
    """Occupied children, holes and empty children of each bound block agree, page by page."""
    for tier in _tiers(scheduler):
        local = [0] * len(tier.packing)
        for parent in range(1, tier.fresh):
            group = tier.owner[parent]
            if group < 0:
                continue
            packing = tier.packing[group]
            place = f"{tier.name} block {parent}"
            occupied = [child for child in range(packing) if tier.refs[group][1 + (parent - 1) * packing + child]]
            holes = ((1 << packing) - 1) & ~sum(1 << child for child in occupied)
            yield from _differ("child_counts", place, len(occupied), tier.occupied[parent])
            yield from _differ("child_counts", place, holes, tier.holes[parent])
            local[group] += packing - len(occupied)
        yield from _differ("child_counts", tier.name, local, tier.local)


def owner_counts(scheduler: Scheduler) -> Iterator[Breach]:
    """A page has as many owners as live slots, index entries and tickets name it."""
    transfers = scheduler.cache.transfers
    device: Counter[tuple[int, int]] = Counter((g, p) for g, p, _ in _table_pages(scheduler))
    host: Counter[tuple[int, int]] = Counter()
    for op in transfers.stores.values():
        for t in op.transfers:
            host[t.group, t.host_page] += 1
            if op.source_pinned:
                device[t.group, t.device_page] += 1
    for load in transfers.loads.values():
        for pair in load.pairs:
            host[pair.group, pair.host_page] += 1
            device[pair.group, pair.device_page] += 1
    for tier, owners in zip(_tiers(scheduler), (device, host), strict=False):
        for group, entries in enumerate(tier.entries):
            owners.update((group, page) for page, entry in enumerate(entries) if entry is not None)
            for page, refs in enumerate(tier.refs[group]):
                place = f"{tier.name} group {group} page {page}"
                yield from _differ("owner_counts", place, owners[group, page], refs)


def private_pages(scheduler: Scheduler) -> Iterator[Breach]:
    """A page that is not cached belongs to one request only."""
    owner: dict[tuple[int, int], str] = {}
    for group, page, request in _table_pages(scheduler):
        if scheduler.cache.device.entries[group][page] is None:
            other = owner.setdefault((group, page), request.request_id)
            yield from _differ("private_pages", f"group {group} page {page}", other, request.request_id)


def index_entries(scheduler: Scheduler) -> Iterator[Breach]:
    """Keys and cached pages are one to one; a replayable group caches nothing."""
    for tier in _tiers(scheduler):
        for group in tier.groups:
            by_key = {
                page: (digest, offset)
                for offset, where in enumerate(tier.where[group.index])
                for digest, page in where.items()
            }
            by_page = {
                page: (entry.digest, entry.offset)
                for page, entry in enumerate(tier.entries[group.index])
                if entry is not None
            }
            place = f"{tier.name} group {group.index}"
            yield from _differ("index_entries", place, by_page, by_key)
            if group.replayable:
                yield from _differ("index_entries", place, 0, len(by_page))


def live_counters(scheduler: Scheduler) -> Iterator[Breach]:
    """The counters that spare a scan equal what a scan would count."""
    for tier in _tiers(scheduler):
        busy: Counter[int] = Counter()
        evictable = 0
        for group, refs in enumerate(tier.refs):
            for page, count in enumerate(refs):
                if tier.is_unpinned(group, page):
                    evictable += 1
                elif count:
                    busy[(page - 1) // tier.packing[group] + 1] += 1
        reach, clean = [0] * len(tier.packing), 0
        for parent in range(1, tier.fresh):
            group = tier.owner[parent]
            if group < 0:
                continue
            yield from _differ("live_counters", f"{tier.name} block {parent}", busy[parent], tier.busy[parent])
            if busy[parent]:
                reach[group] += tier.packing[group] - busy[parent]
            else:
                clean += 1
        yield from _differ(
            "live_counters",
            tier.name,
            (evictable, clean, reach),
            (tier.evictable, tier.clean, tier.reach_local),
        )
    device = scheduler.cache.device
    parents = {(page - 1) // device.packing[group] + 1 for group, page, _ in _table_pages(scheduler)}
    yield from _differ("live_counters", "active blocks", len(parents), device.active)


def exclusive_blocks(scheduler: Scheduler) -> Iterator[Breach]:
    """What a victim would release is what a count over its tables says."""
    cache = scheduler.cache
    for request in _holders(scheduler):
        if request.exclusive_at == cache.device.sharing:
            counted = releasable_blocks(cache.device, cache.groups, request.tables)
            yield from _differ("exclusive_blocks", request.request_id, counted, request.exclusive_blocks)


def request_slots(scheduler: Scheduler) -> Iterator[Breach]:
    """Every slot is free or belongs to one page-holding request."""
    taken = [request.slot for request in _holders(scheduler)]
    slots = sorted([*taken, *scheduler.roster.slots])
    yield from _differ("request_slots", "slots", list(range(1, scheduler.config.max_batch_size + 1)), slots)


def roster_lists(scheduler: Scheduler) -> Iterator[Breach]:
    """The lists that phases walk hold exactly the requests of their states, in submission order."""
    roster = scheduler.roster
    requests = sorted(roster.by_id.values(), key=lambda r: r.order)
    counts = Counter(request.state for request in requests)
    yield from _differ("roster_lists", "counts", [counts[s] for s in range(FINISHED + 1)], roster.counts)
    decoding = [r.request_id for r in requests if r.state in (PREFILL_DONE, DECODING)]
    yield from _differ("roster_lists", "decoding", decoding, [r.request_id for r in roster.decoding])
    prefilling = [r.request_id for r in requests if r.state == PREFILLING]
    yield from _differ("roster_lists", "prefilling", prefilling, [r.request_id for r in roster.prefilling])


def computed_frontier(scheduler: Scheduler) -> Iterator[Breach]:
    """Only computed tokens are hashed as a prefix, and full history reaches over every computed token."""
    page_tokens = scheduler.cache.page_tokens
    for request in _holders(scheduler):
        if request.state not in (PREFILLING, PREFILL_DONE, DECODING):
            continue
        place = request.request_id
        computed = max(request.computed_tokens, request.window_end)
        hashed = request.hashed_pages * page_tokens
        if hashed > computed:
            yield Breach("computed_frontier", place, f"at most {computed} tokens hashed", str(hashed))
        if request.state == DECODING:
            continue
        for group, table in zip(scheduler.cache.groups, request.tables, strict=True):
            reach = len(table.pages) * group.granularity_tokens
            if group.kind == FULL and reach < computed:
                yield Breach("computed_frontier", place, f"table over {computed} tokens", str(reach))


def tickets_pinned(scheduler: Scheduler) -> Iterator[Breach]:
    """No ticket without a pin: what an operation reads or writes is occupied."""
    cache, transfers = scheduler.cache, scheduler.cache.transfers
    if cache.host is None:
        return
    sides = [(cache.host, t.group, t.host_page) for op in transfers.stores.values() for t in op.transfers]
    for load in transfers.loads.values():
        sides += [(cache.host, pair.group, pair.host_page) for pair in load.pairs]
    for tier, group, page in sides:
        if not tier.refs[group][page]:
            yield Breach("tickets_pinned", f"{tier.name} group {group} page {page}", "an owner", "none")


Invariant = Callable[[Scheduler], Iterator[Breach]]

INVARIANTS: dict[str, Invariant] = {
    check.__name__: check
    for check in (
        pool_totals,
        child_counts,
        owner_counts,
        private_pages,
        index_entries,
        live_counters,
        exclusive_blocks,
        request_slots,
        roster_lists,
        computed_frontier,
        tickets_pinned,
    )
}


def breaches(scheduler: Scheduler) -> list[Breach]:
    """Every broken invariant of the state."""
    return [breach for check in INVARIANTS.values() for breach in check(scheduler)]


def check(scheduler: Scheduler) -> None:
    """Raise InvariantError for the first broken invariant of the state."""
    for breach in breaches(scheduler):
        raise InvariantError(
            f"{breach.name} at {breach.place} after round {scheduler.rounds}: "
            f"expected {breach.expected}, found {breach.found}"
        )


def plan_breaches(scheduler: Scheduler, plan: Plan) -> list[Breach]:
    """Broken invariants of a plan: one row a request, prefill first, limits kept, one truncated prefill."""
    config, batch = scheduler.config, plan.batch
    remote = [b for b in (plan.remote_decode, plan.remote_prefill) if b is not None]
    rows = [*batch.rows, *(row for b in remote for row in b.rows)]
    ids = [row.request_id for row in rows]
    out = list(_differ("one_row", "plan", len(set(ids)), len(ids)))
    if len(batch.rows) > config.max_batch_size:
        out.append(Breach("batch_limit", "plan", str(config.max_batch_size), str(len(batch.rows))))
    fed = sum(row.input_length for row in batch.extends)
    if fed > config.max_scheduled_tokens:
        out.append(Breach("token_budget", "plan", str(config.max_scheduled_tokens), str(fed)))
    truncated = [r for r in batch.extends if r.prefix_tokens + r.input_length < r.prefill_length]
    if len(truncated) > 1 or (truncated and truncated[0] is not batch.extends[-1]):
        out.append(Breach("head_of_line", "plan", "only the last prefill truncated", str(len(truncated))))
    return out
