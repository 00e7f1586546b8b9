"""Several bundles as one: nodes of a pair, ranks in processes of their own, runs of a process that was restarted."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from . import layout
from .catalogue import TABLES
from .endings import reason_of
from .errors import CannotRecord, Damaged
from .reader import Bundle, Part
from .whole import WholePart, last_call, write_whole

RANKS, RESTARTS = "ranks", "restarts"
TIMES = {
    "calls": ("time_ns",), "rounds": ("start_ns",), "forwards": ("start_ns", "end_ns"), "submissions": ("arrival_ns",),
    "device_ops": ("submit_ns", "start_ns", "end_ns"),
}  # fmt: skip
"""Columns that hold a point in time; the others hold how long something took."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where a part of one of the bundles went: its bundle, what it was called there, and what it is called now."""

    bundle: str
    before: str
    part: str


def merge_bundles(bundles: Sequence[Bundle], out: Path, *, same: str = RANKS) -> list[Placed]:
    """Write the parts of several bundles as one bundle at `out`, on the clock of the first one.

    A part whose node and rank are taken gets the next free rank of its node (`same` ranks), or is a later run of that
    node: `F-2` (restarts). Raises CannotRecord when the path is taken, the bundles do not go together or hold the same
    rounds of one recording, `TraceError`, OSError.
    """
    paths = [bundle.path.resolve() for bundle in bundles]
    if twice := next((path for index, path in enumerate(paths) if path in paths[:index]), None):
        raise CannotRecord(f"{out}: expected every trace once, found {twice} twice")
    parts = [(bundle, part) for bundle in bundles for part in bundle.parts]
    _require_apart(parts, out)
    for what, found in (
        ("one token mode", {part.token_mode for _, part in parts}),
        ("one kind of clock", {part.clock for _, part in parts}),
    ):
        if len(found) > 1:
            raise CannotRecord(f"{out}: expected {what} in all traces, found {' and '.join(sorted(found))}")
    virtual = parts[0][1].clock == "virtual"
    axis = 0 if virtual else clock_offset_ns(bundles[0])
    taken: set[tuple[str, int]] = set()
    placed, written = [], []
    for bundle, part in parts:
        node, rank = _free(part.node, part.rank, taken, same)
        taken.add((node, rank))
        placed.append(Placed(bundle.name, f"{part.node}/{part.rank}", f"{node}/{rank}"))
        shift = 0 if virtual else clock_offset_ns(bundle) - axis
        tables = {name: shifted(name, part.table(name), shift) for name in TABLES}
        written.append(WholePart({**part.meta, "node": node, "rank": rank}, tables, part.last_round, _last(part)))
    first = bundles[0].description
    merged = [{"name": bundle.name, "meta": bundle.meta} for bundle in bundles]
    write_whole(out, {**first, "schema": layout.schema_version(), "meta": {**bundles[0].meta, "merged": merged}},
                written, _end(bundles, placed))  # fmt: skip
    return placed


def _require_apart(parts: Sequence[tuple[Bundle, Part]], out: Path) -> None:
    """Raise CannotRecord where two parts hold the same rounds of one recording, as dumps of a ring may."""
    seen: dict[str, list[tuple[Bundle, Part, int]]] = {}
    for bundle, part in parts:
        anchor = bundle.description.get("clock_anchor")
        if not isinstance(anchor, dict) or not anchor.get("wall_ns"):  # repaired, its start is not known
            continue
        meta = {name: value for name, value in part.meta.items() if name not in ("starts_at", "crc")}
        first = int(part.meta.get("starts_at", 1))
        same = seen.setdefault(json.dumps([anchor, meta], sort_keys=True), [])
        for other, its, begin in same:
            both = max(first, begin), min(part.last_round, its.last_round)
            if both[0] <= both[1]:
                raise CannotRecord(
                    f"{out}: expected parts of different recordings, found rounds {both[0]:,} to {both[1]:,} of"
                    f" {part.node}/{part.rank} in both {other.path} and {bundle.path}: they are of one process"
                )
        same.append((bundle, part, first))


def _last(part: Part) -> int:
    return last_call(part.table("calls"))


def _free(node: str, rank: int, taken: set[tuple[str, int]], same: str) -> tuple[str, int]:
    if same == RANKS:
        while (node, rank) in taken:
            rank += 1
        return node, rank
    run, name = 1, node
    while (name, rank) in taken:
        run += 1
        name = f"{node}-{run}"
    return name, rank


def clock_offset_ns(bundle: Bundle) -> int:
    """Return what to add to a time of this bundle for nanoseconds since 1970. Raises `Damaged` without an anchor."""
    anchor = bundle.description.get("clock_anchor")
    values = [anchor.get(name) for name in ("wall_ns", "monotonic_ns")] if isinstance(anchor, dict) else []
    wall, monotonic = values if len(values) == 2 else (None, None)
    if not isinstance(wall, int) or not isinstance(monotonic, int):
        raise Damaged(bundle.path, "clock_anchor", "wall_ns and monotonic_ns", repr(anchor)[:60])
    return wall - monotonic


def shifted(name: str, rows: pa.Table, shift_ns: int) -> pa.Table:
    """Return the rows of a table with all its points in time moved."""
    for column in TIMES.get(name, ()) if shift_ns else ():
        at = rows.schema.get_field_index(column)
        rows = rows.set_column(at, rows.schema.field(at), pc.add(rows[column], pa.scalar(shift_ns, pa.int64())))
    return rows


def first_ns(parts: Iterable[tuple[str, pa.Table]]) -> int | None:
    """Return the earliest point in time in tables, which are given with their names; None where there is none."""
    found = [pc.min(rows[column]).as_py() for name, rows in parts for column in TIMES.get(name, ())]
    return min((time for time in found if time is not None), default=None)


def _end(bundles: Sequence[Bundle], placed: Sequence[Placed]) -> dict[str, Any] | None:
    """Return how all of it ended; None when one of the recordings was not closed."""
    if any(bundle.end is None for bundle in bundles):
        return None
    told: dict[str, Any] = {}
    ends = [bundle.end or {} for bundle in bundles for _ in bundle.parts]
    for end, place in zip(ends, placed, strict=True):
        parts = end.get("parts")
        counts = parts.get(place.before) if isinstance(parts, dict) else None
        told[place.part] = {**(counts if isinstance(counts, dict) else {}), "reason": reason_of(end, place.before)}
    errors = [str(bundle.end["error"]) for bundle in bundles if bundle.end and bundle.end.get("error")]
    return {"parts": told, "error": "; ".join(errors) or None}
