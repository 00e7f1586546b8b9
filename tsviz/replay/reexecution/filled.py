"""A trace of level `calls` with its plans: made again from the calls, proven round by round, kept in the user's cache.

Such a trace holds of every plan its row in `rounds`, with the digests, and not what the plan said. `fill` re-executes
it once, for the plan tables and for the decisions behind them, and writes a trace of level `plans` beside the indexes;
every command but those that ask what was recorded then reads that one. It ends in front of the first round in which
the twin leaves the recording: nothing is derived for a round that was not verified (architecture.md, section 2).
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

from tsviz.replay.rows.lifetimes import column
from tsviz.trace import compact, layout
from tsviz.trace.catalogue import CALLS, PLAN_TABLES, PLANS
from tsviz.trace.errors import TraceError
from tsviz.trace.reader import Bundle, Part, open_bundle
from tsviz.trace.segments import HotSegments
from tsviz.trace.tables import RECORDED

from .derive import derive
from .index import Index, build_index, cache_directory, content_key, index_draft, keep_index
from .plans import PlanRows, carried

Progress = Callable[[str, int, int], None]
"""Told the part, rounds made again, and of how many."""
_PREFIX = "plans-"


def needs_plans(bundle: Bundle) -> bool:
    """Return whether a bundle has a part of which only the calls were recorded."""
    return any(part.level == CALLS for part in bundle.parts)


def filled(bundle: Bundle) -> Bundle:
    """Return a bundle with the plans that were made again, if they are in the cache; else as it is.

    Raises `TraceError` for a recording that cannot be read; what is damaged in the cache is removed.
    """
    if not needs_plans(bundle):
        return bundle
    place = _place(bundle)
    try:
        return open_bundle(place) if place.exists() else bundle
    except TraceError:
        shutil.rmtree(place.parent, ignore_errors=True)
        return bundle


def open_filled(path: str | Path) -> Bundle:
    """Open the bundle at a path, as `filled` returns it. Raises `TraceError`."""
    return filled(open_bundle(path))


def fill(bundle: Bundle, *, progress: Progress | None = None) -> tuple[Bundle, list[Index]]:
    """Return a bundle with its plans, made again if they are not in the cache, and the indexes of all its parts.

    Of a bundle that has its plans the indexes are built as they are missing. Raises `TraceError`, OSError.
    """
    found = filled(bundle)
    if needs_plans(found):
        found = _fill(bundle, progress)
    return found, [build_index(part, progress=_of(part, progress)) for part in found.parts]


def _of(part: Part, progress: Progress | None) -> Callable[[int, int], None] | None:
    return None if progress is None else lambda done, of: progress(f"{part.node}/{part.rank}", done, of)


def _place(bundle: Bundle) -> Path:
    """Return where a bundle with its plans lies in the cache: under its name, since that is shown."""
    hasher = hashlib.blake2b(digest_size=16)
    for part in bundle.parts:
        hasher.update(f"{part.node}/{part.rank} {content_key(part)}\n".encode())
    return cache_directory() / f"{_PREFIX}{hasher.hexdigest()}" / bundle.name


def _fill(bundle: Bundle, progress: Progress | None) -> Bundle:
    place = _place(bundle)
    with index_draft() as directory:
        out = directory / bundle.name
        derived = []
        for part in bundle.parts:
            index = directory / f"index-{part.node}-{part.rank}"
            index.mkdir()
            derived.append((index, _fill_part(part, out, index, _of(part, progress))))
        layout.write_json(out / layout.BUNDLE_FILE, bundle.description)
        if bundle.end is not None:
            layout.write_json(out / layout.END_FILE, bundle.end)
        made = open_bundle(out)
        for part, (index, derivation) in zip(made.parts, derived, strict=True):
            keep_index(index, derivation, part)
        shutil.rmtree(place.parent, ignore_errors=True)
        place.parent.mkdir()
        out.replace(place)
    return open_bundle(place)


def _fill_part(part: Part, out: Path, index: Path, progress: Callable[[int, int], None] | None) -> Any:
    """Write a part with its plans into the bundle at `out` and its decisions into `index`; return how far they are."""
    directory = layout.part_directory(out, part.node, part.rank)
    if part.level != CALLS:
        shutil.copytree(part.directory, directory, symlinks=True)
        return derive(part, index, progress=progress)
    segments = HotSegments(directory / layout.HOT)
    for name in PLAN_TABLES:
        for batch in carried(part, name).to_batches():
            segments.append(RECORDED[name], batch)
    plans = PlanRows(segments.append)
    derivation = derive(part, index, progress=progress, plans=plans.add)
    plans.flush()
    last, last_seq = part.last_round if derivation.divergence is None else plans.last_round, -1
    for name, table in RECORDED.items():
        if name in PLAN_TABLES:
            continue
        for batch in part.batches(name):
            rows = batch if derivation.divergence is None else _until(batch, last)
            if rows.num_rows:
                segments.append(table, rows)
                last_seq = rows["seq"][-1].as_py() if name == "calls" else last_seq
    segments.commit(last, last_seq)
    segments.finish()
    segments.close()
    layout.write_json(directory / layout.PART_FILE, {**part.meta, "level": PLANS, layout.RECORDED_LEVEL: part.level})
    compact.compact_part(directory)
    return derivation


def _until(batch: pa.RecordBatch, last_round: int) -> pa.RecordBatch:
    return batch.filter(pa.array(column(batch, "round") <= last_round))
