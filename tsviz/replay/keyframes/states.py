"""One snapshot of the twin as builtin values and arrays, and back (scheduler/snapshot.py; no pickle).

What comes back is checked field by field against the config: sizes, ranges, kinds. That the state is one that the
twin can be in is checked behind it, by the invariants (`keyframes.py`).
"""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt

from tsviz.scheduler.cache.geometry import groups_of
from tsviz.scheduler.cache.index import Entry
from tsviz.scheduler.cache.kv_events import Boundary
from tsviz.scheduler.cache.transfers import LoadOp, LoadPair, StoreOp, Transfer
from tsviz.scheduler.config import Config
from tsviz.scheduler.rules import RuleSet
from tsviz.scheduler.snapshot import KvState, Snapshot, TierState

from .checks import INT32, INT64, flag, items, member, numbers, text, whole, wholes
from .collector import Collector
from .differences import held
from .packed import Arrays, Malformed
from .requests import request_state, request_values
from .shared import Shared

_SMALL_PACKING = 62
"""Up to here the mask of a parent's holes is a number of 64 bits."""
_COUNTS = ("rounds", "submitted", "retraction_epoch", "clock", "next_op")


def state_values(snapshot: Snapshot, shared: Collector) -> tuple[dict[str, Any], Arrays]:
    """Return a snapshot between two calls as JSON-able values and arrays; what states share goes into `shared`."""
    arrays: Arrays = {"slots": np.array(snapshot.free_slots, np.int32)}
    values: dict[str, Any] = {name: getattr(snapshot, name) for name in _COUNTS}
    values["rules"] = list(astuple(snapshot.rules))
    values["requests"] = [request_values(request, shared) for request in snapshot.requests]
    values["finished"] = list(snapshot.finished)
    values["device"] = _tier_values("device", snapshot.device, arrays, shared)
    values["host"] = None if snapshot.host is None else _tier_values("host", snapshot.host, arrays, shared)
    values["shadow"] = None if snapshot.shadow is None else True
    for name, keys in (("shadow", snapshot.shadow or ()), ("pending", snapshot.pending_stores)):
        arrays[f"{name}_keys"] = np.array([v for g, d, o in keys for v in (g, shared.digest(d), o)], np.int64)
    values["kv"] = None if snapshot.kv is None else _kv_values(snapshot.kv, arrays, shared)
    values["stores"] = [_store(op, shared) for op in snapshot.stores]
    values["finish_stores"] = [_store(op, shared) for op in snapshot.finish_stores]
    values["loads"] = [
        [op.op_id, [[*pair[:3], shared.digest(pair.digest), pair.offset, pair.prefetch] for pair in op.pairs]]
        for op in snapshot.loads
    ]
    return values, arrays


def _store(op: StoreOp, shared: Collector) -> list[Any]:
    moved = [[*t[:3], shared.digest(t.digest), t.offset] for t in op.transfers]
    return [op.op_id, moved, op.source_pinned]


def _tier_values(name: str, tier: TierState, arrays: Arrays, shared: Collector) -> dict[str, Any]:
    for field in ("returned", "owner", "occupied", "tabled"):
        arrays[f"{name}_{field}"] = np.array(getattr(tier, field), np.int32)
    wide = max(tier.holes, default=0) >> _SMALL_PACKING
    if not wide:
        arrays[f"{name}_holes"] = np.array(tier.holes, np.int64)
    for group, (refs, entries) in enumerate(zip(tier.refs, tier.entries, strict=True)):
        arrays[f"{name}_refs_{group}"] = np.array(refs, np.int32)
        arrays[f"{name}_entries_{group}"] = np.array(
            [shared.entry(entry, group, page) for page, entry in enumerate(entries)], np.int32
        )
    return {
        "fresh": tier.fresh,
        "registered": tier.registered,
        "holes": [f"{mask:x}" for mask in tier.holes] if wide else None,
    }


def _kv_values(kv: KvState, arrays: Arrays, shared: Collector) -> dict[str, Any]:
    boundaries = []
    for digest, b in kv.boundaries:
        tokens = (shared.listed(b.tokens, len(b.tokens)), len(b.tokens))
        boundaries.append([shared.digest(digest), *tokens, b.own, b.parent, b.depth, b.published])
    for name, pairs in (("entries", kv.entries), ("kept", kv.kept)):
        arrays[f"kv_{name}"] = np.array(
            [v for digest, count in pairs for v in (shared.digest(digest), count)], np.int64
        )
    arrays["kv_touched"] = np.array([shared.digest(digest) for digest in kv.touched], np.int64)
    return {"boundaries": boundaries}


def state(values: Any, arrays: Arrays, shared: Shared, config: Config) -> Snapshot:
    """Return the snapshot of `state_values` again, checked. Raises `Malformed`."""
    counts = {name: whole(member(values, name), name, 0, INT64) for name in _COUNTS}
    requests = items(member(values, "requests"), "requests")
    pages = [(config.num_device_pages - 1) * group.packing for group in groups_of(config)]
    found = tuple([request_state(request, shared, config, pages) for request in requests])
    names = {request.request_id for request in found}
    held = sum(request.token_count + sum(table[1] for table in request.tables) for request in found)
    if held > shared.items:
        raise Malformed("requests", f"{shared.items} tokens and pages at most", str(held))
    if len(names) != len(found):
        raise Malformed("requests", "ids that differ", f"{len(found) - len(names)} again")
    finished = tuple([text(name, "finished") for name in items(member(values, "finished"), "finished")])
    if not names.issuperset(finished):
        raise Malformed("finished", "requests of the state", "another")
    host_pages = config.num_host_pages if config.has_host_cache else 0
    host, kv = member(values, "host"), member(values, "kv")
    for name, there, wanted in (
        ("host", host is not None, bool(host_pages)),
        ("shadow", member(values, "shadow") is not None, config.enable_l3_storage),
        ("kv", kv is not None, config.enable_kv_cache_events),
    ):
        if there != wanted:
            raise Malformed(name, f"{'some' if wanted else 'none'} (as the config says)", "some" if there else "none")
    groups = len(config.cache_groups)
    shadow = _keys(arrays, "shadow_keys", shared, groups)
    slots = numbers(arrays, "slots", 1, config.max_batch_size).tolist()
    return Snapshot(
        config=config,
        rules=_rules(member(values, "rules")),
        free_slots=tuple(slots),
        requests=found,
        finished=finished,
        device=_tier("device", member(values, "device"), arrays, shared, config, config.num_device_pages - 1),
        host=None if host is None else _tier("host", host, arrays, shared, config, host_pages - 1),
        shadow=shadow if config.enable_l3_storage else None,
        kv=None if kv is None else _kv(kv, arrays, shared),
        pending_stores=_keys(arrays, "pending_keys", shared, groups),
        stores=tuple([_store_op(op, shared, groups) for op in items(member(values, "stores"), "stores")]),
        loads=tuple([_load_op(op, shared, groups) for op in items(member(values, "loads"), "loads")]),
        finish_stores=tuple(
            [_store_op(op, shared, groups) for op in items(member(values, "finish_stores"), "finish_stores")]
        ),
        rounds=counts["rounds"],
        submitted=counts["submitted"],
        retraction_epoch=counts["retraction_epoch"],
        clock=counts["clock"],
        next_op=counts["next_op"],
    )


def _rules(values: Any) -> RuleSet:
    name, step, cut = items(values, "rules", 3)
    return RuleSet(text(name, "rules"), whole(step, "rules", 0), flag(cut, "rules"))


def _keys(arrays: Arrays, name: str, shared: Shared, groups: int) -> tuple[tuple[int, bytes, int], ...]:
    flat = numbers(arrays, name, 0, INT64)
    if len(flat) % 3 or any(group >= groups for group in flat[::3].tolist()):
        raise Malformed(f"array {name}", f"triples of a group below {groups}, digest and offset", str(len(flat)))
    rows = flat.reshape(-1, 3).tolist()
    return tuple([(group, shared.digest(digest), offset) for group, digest, offset in rows])


def _store_op(values: Any, shared: Shared, groups: int) -> StoreOp:
    op_id, moved, pinned = items(values, "store", 3)
    transfers = []
    for row in items(moved, "transfers"):
        group, device, host, digest, offset = wholes(row, "transfer", 0, INT64, 5)
        transfers.append(Transfer(_below(group, groups), device, host, shared.digest(digest), offset))
    return StoreOp(whole(op_id, "op id", 0, INT64), tuple(transfers), flag(pinned, "source pinned"))


def _load_op(values: Any, shared: Shared, groups: int) -> LoadOp:
    op_id, moved = items(values, "load", 2)
    pairs = []
    for row in items(moved, "pairs"):
        group, host, device, digest, offset = wholes(items(row, "pair", 6)[:5], "pair", 0, INT64)
        pairs.append(LoadPair(_below(group, groups), host, device, shared.digest(digest), offset, flag(row[5], "pair")))
    return LoadOp(whole(op_id, "op id", 0, INT64), tuple(pairs))


def _below(group: int, groups: int) -> int:
    return whole(group, "group", 0, groups - 1)


def _tier(name: str, values: Any, arrays: Arrays, shared: Shared, config: Config, parents: int) -> TierState:
    fresh = whole(member(values, "fresh"), f"{name} fresh", 1, parents + 1)
    groups = groups_of(config)
    owner = numbers(arrays, f"{name}_owner", -1, len(groups) - 1, fresh)
    returned = numbers(arrays, f"{name}_returned", 1, fresh - 1)
    if not _differ(returned) or (owner[returned] >= 0).any():
        raise Malformed(f"{name} returned", "blocks that are free, each once", f"{len(returned)} blocks")
    refs, entries, owners, cached = [], [], [], []
    for group in groups:
        bound = int((np.flatnonzero(owner[1:] == group.index) + 1).max(initial=0))
        most = (fresh - 1) * group.packing + 1
        counts = numbers(arrays, f"{name}_refs_{group.index}", 0)
        if not bound * group.packing < len(counts) <= most:
            wanted = f"{bound * group.packing + 1} to {most} numbers"
            raise Malformed(f"array {name}_refs_{group.index}", wanted, str(len(counts)))
        present = np.flatnonzero(numbers(arrays, f"{name}_entries_{group.index}", 0, 1, shared.entry_count + 1)[1:])
        pages = shared.entry_pages[present]
        if (most := int(pages.max(initial=0))) >= len(counts) or not _differ(pages):
            wanted = f"one of each page below {len(counts)}"
            raise Malformed(f"{name} entries", wanted, f"{len(pages)}, up to page {most}")
        if int(shared.entry_offsets[present].max(initial=-1)) >= group.per_page:
            raise Malformed(f"{name} entries", f"an offset below {group.per_page}", "another")
        placed: list[Entry | None] = [None] * len(counts)
        for page, entry in zip(pages.tolist(), shared.entries(present), strict=True):
            placed[page] = entry
        refs.append(tuple(counts.tolist()))
        entries.append(tuple(placed))
        owners.append(counts)
        cached.append(np.zeros(len(counts), np.bool_))
        cached[-1][pages] = True
    tabled = numbers(arrays, f"{name}_over", -INT32, INT32, fresh) + held(owners, cached, groups, fresh)
    if not 0 <= int(tabled.min()) <= int(tabled.max()) <= INT32:
        raise Malformed(f"array {name}_over", "references of tables, 0 or more", f"{tabled.min()} to {tabled.max()}")
    return TierState(
        fresh=fresh,
        returned=tuple(returned.tolist()),
        owner=tuple(owner.tolist()),
        occupied=tuple(numbers(arrays, f"{name}_occupied", 0, INT32, fresh).tolist()),
        holes=_holes(name, member(values, "holes"), arrays, fresh, max(group.packing for group in groups)),
        tabled=tuple(tabled.tolist()),
        refs=tuple(refs),
        entries=tuple(entries),
        registered=whole(member(values, "registered"), f"{name} registered", 0, INT64),
    )


def _differ(found: npt.NDArray[np.int64]) -> bool:
    """Whether no two of these numbers, 0 or more, are the same."""
    return int(np.bincount(found, minlength=1).max()) <= 1


def _holes(name: str, wide: Any, arrays: Arrays, fresh: int, packing: int) -> tuple[int, ...]:
    if wide is None:
        return tuple(numbers(arrays, f"{name}_holes", 0, INT64, fresh).tolist())
    try:
        masks = [int(text(mask, f"{name} holes"), 16) for mask in items(wide, f"{name} holes", fresh)]
    except ValueError:
        raise Malformed(f"{name} holes", "hexadecimal numbers", "something else") from None
    if any(mask < 0 or mask >> packing for mask in masks):
        raise Malformed(f"{name} holes", f"masks of {packing} bits", "a wider one")
    return tuple(masks)


def _kv(values: Any, arrays: Arrays, shared: Shared) -> KvState:
    boundaries = []
    for row in items(member(values, "boundaries"), "boundaries"):
        digest, number, length, own, parent, depth, published = items(row, "boundary", 7)
        tokens = shared.listed(whole(number, "tokens"), whole(length, "tokens", 0))[:length]
        known = None if parent is None else whole(parent, "parent", 0, (1 << 64) - 1)
        hashed = whole(own, "hash", 0, (1 << 64) - 1)
        boundary = Boundary(tokens, hashed, known, whole(depth, "depth", 0), flag(published, "published"))
        boundaries.append((shared.digest(whole(digest, "digest", 0, INT64)), boundary))
    pairs = []
    for name in ("entries", "kept"):
        flat = numbers(arrays, f"kv_{name}", 0, INT64)
        if len(flat) % 2:
            raise Malformed(f"array kv_{name}", "pairs", f"{len(flat)} numbers")
        pairs.append(tuple([(shared.digest(digest), count) for digest, count in flat.reshape(-1, 2).tolist()]))
    touched = tuple([shared.digest(number) for number in numbers(arrays, "kv_touched", 0, INT64).tolist()])
    return KvState(tuple(boundaries), pairs[0], touched, pairs[1])
