"""A bundle written in one go, closed and compacted, from tables that are there already."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from . import compact, layout
from .catalogue import TABLES
from .drafts import draft
from .errors import CannotRecord


@dataclass(frozen=True, slots=True)
class WholePart:
    """One part: what `part.json` says, every table that has rows, and where its calls end."""

    meta: Mapping[str, Any]
    tables: Mapping[str, pa.Table]
    last_round: int
    last_seq: int


def write_whole(
    out: Path, description: Mapping[str, Any], parts: Sequence[WholePart], end: Mapping[str, Any] | None
) -> None:
    """Write a bundle at `out`, which must be free; `description` is `bundle.json` but for its parts.

    `end` None: it says, as the recording did, that it was never closed. The bundle appears when it is whole. Raises
    CannotRecord when the path is taken, OSError.
    """
    if out.exists():
        raise CannotRecord(f"{out}: expected a path that is free, found something there")
    out.parent.mkdir(parents=True, exist_ok=True)
    with draft(out.parent, f".{out.name}-") as place:
        inner = place / "bundle"
        for part in parts:
            directory = layout.part_directory(inner, part.meta["node"], part.meta["rank"])
            cold = directory / layout.COLD
            cold.mkdir(parents=True)
            layout.write_json(directory / layout.PART_FILE, dict(part.meta))
            compact.write_tables(
                cold,
                (
                    (table, iter(part.tables[name].to_batches()), compact.group_rows(table))
                    for name, table in TABLES.items()
                    if name in part.tables and part.tables[name].num_rows
                ),
                part.last_round,
                part.last_seq,
            )
        names = [{"node": part.meta["node"], "rank": part.meta["rank"]} for part in parts]
        layout.write_json(inner / layout.BUNDLE_FILE, {**description, "parts": names})
        if end is not None:
            layout.write_json(inner / layout.END_FILE, dict(end))
        inner.rename(out)


def last_call(calls: pa.Table) -> int:
    """Return the number of the last call; -1 for none."""
    return int(calls["seq"][-1].as_py()) if calls.num_rows else -1
