"""A bundle that was not closed, or whose hot files were cut or damaged, as a sound one: back to a commit that holds.

The source is not touched. A commit holds when its line and every committed byte of every table have their CRC; what
lies behind the last that does is lost, which the new bundle says. A part whose `part.json` is gone cannot be read.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from . import layout
from .catalogue import PLANS, TABLES
from .cold import ColdTables
from .endings import REPAIRED, why_not_closed
from .errors import CannotRecord, Damaged, TraceError
from .hot import HotTables
from .lock import ALIVE, recorder_of
from .reader import Part
from .segments import parse_commit
from .tables import RECORDED
from .whole import WholePart, last_call, write_whole

SPARE = frozenset(
    ("forwards", "forward_rows", "device_ops", "device_ranges", "page_crcs", "kv_events", "gaps", "keyframes")
)
"""Tables that a part is readable without; of the decided ones all are."""
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Repaired:
    """What became of one part: its last round now, and what was lost, in words (empty: nothing)."""

    part: str
    last_round: int
    lost: tuple[str, ...]


def repair(path: Path, out: Path) -> list[Repaired]:
    """Write what can be read of the bundle at `path` as a closed one at `out`; return what became of each part.

    Raises CannotRecord when the path is taken or the bundle is being recorded, `TraceError` when nothing can be read,
    OSError.
    """
    if recorder_of(path) == ALIVE:
        raise CannotRecord(f"{path}: it is being recorded; follow it, or repair it once its process has ended")
    layout.require_utf8(path)
    layout.directory(path)
    description, lost = _description(path)
    closed = (path / layout.END_FILE).exists()
    parts, repaired = [], []
    for directory in sorted((path / layout.PARTS).iterdir()):
        try:
            part, missing = _part(directory, closed)
        except TraceError as error:
            lost.append(str(error))
            continue
        parts.append(part)
        repaired.append(Repaired(f"{part.meta['node']}/{part.meta['rank']}", part.last_round, tuple(missing)))
    if not parts:
        raise Damaged(path, "parts", "one that can be read", "; ".join(lost)[:400] or "none")
    end = _end(path)
    if not closed:
        lost.append(why_not_closed(path))
    whole = [*lost, *(f"{each.part}: {words}" for each in repaired for words in each.lost)]
    words = "; ".join(whole)[:2000]
    end = {**end, "error": f"repaired: {words}"} if whole else end
    end = end if closed else {**end, "reason": REPAIRED}
    write_whole(out, description, parts, end)
    return [Repaired(each.part, each.last_round, (*lost, *each.lost)) for each in repaired]


def _description(path: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        return layout.read_bundle_file(path), []
    except TraceError as error:
        tokens = {Part(directory).token_mode for directory in _readable(path)}
        if len(tokens) != 1:
            raise
        description = {
            "format": layout.FORMAT, "schema": layout.schema_version(), "tokens": tokens.pop(),
            "clock_anchor": {"wall_ns": 0, "monotonic_ns": 0}, "meta": {},
        }  # fmt: skip
        return description, [f"{layout.BUNDLE_FILE} ({error}): who recorded it, and when"]


def _readable(path: Path) -> list[Path]:
    found = []
    for directory in layout.directory(path / layout.PARTS).iterdir():
        try:
            Part(directory)
        except TraceError:
            continue
        found.append(directory)
    return found


def _end(path: Path) -> dict[str, Any]:
    try:
        return layout.read_json(path / layout.END_FILE)
    except TraceError:
        return {"parts": {}, "error": None}


def _part(directory: Path, closed: bool) -> tuple[WholePart, list[str]]:
    """Return what can be read of a part. Raises `TraceError` when that is nothing."""
    part = Part(directory)
    cold = directory / layout.COLD
    if (cold / layout.MANIFEST_FILE).exists() or not (directory / layout.HOT).exists():
        return _cold(part, ColdTables(cold))
    store, lost = sound_tables(directory / layout.HOT, closed=closed)
    if store is None:
        return nothing_of(part.meta), lost
    tables = {name: _read(store, name) for name in TABLES}
    return WholePart(part.meta, tables, store.last_round, last_call(tables["calls"])), lost


def nothing_of(meta: Mapping[str, Any]) -> WholePart:
    """Return a part of which no round is left."""
    return WholePart(meta, {name: table.schema.empty_table() for name, table in TABLES.items()}, 0, -1)


def sound_tables(directory: Path, *, closed: bool = False) -> tuple[HotTables | None, list[str]]:
    """Return hot tables as their last commit that holds says, and what is lost behind it, in words.

    `closed`: they were, so that a last commit is missing where none says so. None where not even the first one holds.
    Raises `Damaged` where there is no file of commits.
    """
    commits = directory / layout.COMMITS_FILE
    records, lost = _commits(commits)
    kept, torn = _sound(directory, records)
    if kept is None:
        said = f"every round: {commits}: expected a commit whose tables have their CRC, found {torn or 'none'}"
        return None, [*lost, said]
    if torn:
        lost.append(torn)
    last = records[-1]
    if kept is not last:
        calls = last["last_seq"] - kept["last_seq"]
        lost.append(f"rounds {kept['last_round'] + 1:,} to {last['last_round']:,}, {calls:,} calls")
    elif closed and not last["final"]:
        lost.append("the commit that closed it")
    return _At(directory, kept), lost


def _read(store: HotTables | ColdTables, name: str) -> pa.Table:
    table = TABLES[name]
    return pa.Table.from_batches(list(store.batches(table)), table.schema).unify_dictionaries()


def _cold(part: Part, store: ColdTables) -> tuple[WholePart, list[str]]:
    """Return a compacted part without those of its spare tables that are damaged. Raises `TraceError` for others."""
    tables: dict[str, pa.Table] = {}
    lost, decided = [], part.level
    for name, table in TABLES.items():
        try:
            tables[name] = _read(store, name)
        except TraceError as error:
            if name not in SPARE and name in RECORDED:
                raise
            lost.append(f"table {name} ({error.place})")
            tables[name] = table.schema.empty_table()
            decided = decided if name in RECORDED else PLANS
    if decided != part.level:
        for name, table in TABLES.items():
            if name not in RECORDED:
                tables[name] = table.schema.empty_table()
        lost.append("its decisions, which `tsviz index` derives again")
    return WholePart({**part.meta, "level": decided}, tables, store.last_round, store.last_seq), lost


class _At(HotTables):
    """Hot tables as one of their commits says."""

    def __init__(self, directory: Path, record: Mapping[str, Any]) -> None:
        self._directory, self._tables = directory, dict(record["tables"])
        self.last_round, self.last_seq = record["last_round"], record["last_seq"]
        self.final, self.torn = bool(record["final"]), None


def _commits(path: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the records of the commits up to the first line that is none, and what lies behind, in words."""
    layout.regular_file(path)
    records: list[dict[str, Any]] = []
    data = path.read_bytes()
    at = 0
    for line in data.split(b"\n"):
        if not line and at + 1 >= len(data):
            break
        record = parse_commit(line)
        if record is None or not _whole(record, len(records)):
            return records, [f"{len(data) - at:,} bytes of {path.name} behind commit {len(records) - 1}"]
        records.append(record)
        at += len(line) + 1
    return records, []


def _whole(record: dict[str, Any], number: int) -> bool:
    counts = [record.get("commit"), record.get("last_round"), record.get("last_seq")]
    tables = record.get("tables")
    return (
        all(type(count) is int for count in counts)
        and record["commit"] == number
        and isinstance(record.get("final"), bool)
        and isinstance(tables, dict)
        and all(
            isinstance(entry, list) and len(entry) == 3 and all(type(v) is int and v >= 0 for v in entry)
            for entry in tables.values()
        )
    )


def _sound(directory: Path, records: list[dict[str, Any]]) -> tuple[dict[str, Any] | None, str]:
    """Return the last record all of whose bytes have their CRC, and why a later one has not, in words."""
    good, why = len(records), ""
    for name in TABLES:
        lengths = [record["tables"][name][:2] if name in record["tables"] else None for record in records]
        count, words = _sound_prefix(directory / f"{name}.arrows", lengths)
        if count < good:
            good, why = count, words
    return (records[good - 1], why) if good else (None, why)


def _sound_prefix(path: Path, lengths: list[list[int] | None]) -> tuple[int, str]:
    """Return how many commits have their CRC in one file, and what is wrong behind them."""
    wanted = [entry for entry in lengths if entry is not None]
    if not wanted:
        return len(lengths), ""
    missing = len(lengths) - len(wanted)
    try:
        layout.regular_file(path)
    except Damaged as error:
        return missing, f"{path.name}: {error.found}"
    crc = at = 0
    with path.open("rb") as file:
        for index, (length, expected) in enumerate(wanted):
            while at < length and (block := file.read(min(_BLOCK_BYTES, length - at))):
                crc, at = zlib.crc32(block, crc), at + len(block)
            if at != length:
                return missing + index, f"{path.name}: {at:,} of {length:,} bytes"
            if crc != expected:
                return missing + index, f"{path.name}: CRC {expected:08x} expected, {crc:08x} found at {length:,} bytes"
    return len(lengths), ""
