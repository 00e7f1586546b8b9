"""R2: bytes on disk a scheduled row, of a closed bundle: steady decode of 64 rows, and a production sample."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tsviz.engine.configs import SchedulerOptions
from tsviz.engine.workloads.model import Workload
from tsviz.trace.tokens import FULL, IDENTITY

from .measure import Line
from .runs import mooncake, run_recorded, scratch
from .steady import HYBRID, ONE_GROUP, steady_options, steady_workload

_ROWS, _OUTPUT_TOKENS = 64, 3200
_MOONCAKE_ROWS = 300


def figures() -> Iterator[Line]:
    """Yield the size per kind of groups and token mode, then its split by table; then a pool in full turnover."""
    for name, groups, budget in (("one group", ONE_GROUP, 5.0), ("hybrid", HYBRID, 8.0)):
        case = steady_options(_ROWS, _OUTPUT_TOKENS, groups), steady_workload(_ROWS, _OUTPUT_TOKENS)
        for tokens in (IDENTITY, FULL):
            yield from _lines(f"{name}, {tokens}", case, tokens, budget if tokens == IDENTITY else None)
    sample = mooncake(_MOONCAKE_ROWS)
    if sample is None:
        yield Line("R2", "mooncake: the sample is not at hand", float("nan"), "")
        return
    for tokens in (IDENTITY, FULL):
        yield from _lines(f"mooncake without prompts, {tokens}", sample, tokens, None)


def _lines(name: str, case: tuple[SchedulerOptions, Workload], tokens: str, budget: float | None) -> Iterator[Line]:
    with scratch() as directory:
        path = directory / "bundle"
        ran = run_recorded(*case, path, tokens, compacted=True)
        sizes = table_bytes(path)
        rows = ran.summary.scheduled_rows
        total = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        if "without prompts" in name:
            total -= sum(sizes.pop(table, 0) for table in ("submissions", "prefix_pages"))
        note = f"{ran.summary.rounds} rounds, {rows} rows, {total} bytes"
        yield Line("R2", name, total / rows, "bytes a row", budget, note=note)
        for table, size in sorted(sizes.items(), key=lambda item: -item[1]):
            if size / rows >= 0.005:
                yield Line("R2", f"  {table}", size / rows, "bytes a row")


def table_bytes(path: Path) -> dict[str, int]:
    """Return the bytes of each table of a closed bundle."""
    sizes: dict[str, int] = {}
    for manifest in path.rglob("cold/manifest.json"):
        for table, entry in json.loads(manifest.read_text())["tables"].items():
            sizes[table] = sizes.get(table, 0) + entry["bytes"]
    return sizes
