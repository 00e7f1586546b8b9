"""R2: bytes on disk a scheduled row, of a closed bundle, at steady decode of 64 rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from tsviz.trace.tokens import FULL, IDENTITY

from .measure import Line
from .runs import run_recorded, scratch
from .steady import HYBRID, ONE_GROUP, steady_options, steady_workload

_ROWS, _OUTPUT_TOKENS = 64, 3200


def figures() -> Iterator[Line]:
    """Yield the size per kind of groups and token mode, then its split by table."""
    for name, groups, budget in (("one group", ONE_GROUP, 5.0), ("hybrid", HYBRID, 8.0)):
        for tokens in (IDENTITY, FULL):
            with scratch() as directory:
                path = directory / "bundle"
                options = steady_options(_ROWS, _OUTPUT_TOKENS, groups)
                ran = run_recorded(options, steady_workload(_ROWS, _OUTPUT_TOKENS), path, tokens, compacted=True)
                rows = ran.summary.scheduled_rows
                total = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
                note = f"{ran.summary.rounds} rounds, {rows} rows, {total} bytes"
                limit = budget if tokens == IDENTITY else None
                yield Line("R2", f"{name}, {tokens}", total / rows, "bytes a row", limit, note=note)
                for table, size in sorted(table_bytes(path).items(), key=lambda item: -item[1]):
                    if size / rows >= 0.005:
                        yield Line("R2", f"  {table}", size / rows, "bytes a row")


def table_bytes(path: Path) -> Mapping[str, int]:
    """Return the bytes of each table of a closed bundle."""
    sizes: dict[str, int] = {}
    for manifest in path.rglob("cold/manifest.json"):
        for table, entry in json.loads(manifest.read_text())["tables"].items():
            sizes[table] = sizes.get(table, 0) + entry["bytes"]
    return sizes
