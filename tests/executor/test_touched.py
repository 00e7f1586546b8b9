"""The bytes of many forwards are worked out at once, and are those of each alone."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live, request
from tsviz.executor.ranges import LaterRanges, What
from tsviz.executor.sizing import PoolOptions


class _Ops:
    """Keeps what the device tells."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def ops(self, ops: Any) -> None:
        self.told += ops

    def crcs(self, op: Any, crcs: Any) -> None:
        """Not asked for."""

    def forward(self, *told: Any) -> None:
        """Its rows are not looked at."""


@pytest.mark.parametrize(
    ("model", "width", "draft", "fast"),
    [("tiny-sliding", 1, 0, True), ("tiny-state", 2, 0, False), ("tiny-replay", 1, 0, False), ("tiny", 2, 1, False),
     ("tiny-narrow", 1, 0, False)],
)  # fmt: skip
def test_ranges_of_many_forwards_are_those_of_each(model: str, width: int, draft: int, fast: bool) -> None:
    """Prompts in chunks, decodes of several lengths, drafts and states: every list of ranges is the same either way."""
    requests = tuple(request(f"r{i}", (i, 9 + 8 * i), says=6, at_ms=i) for i in range(3))
    pool = PoolOptions(prefix_granularity=8, max_scheduled_tokens=24, max_batch_size=3, decode_input_tokens=width)
    kept = _Ops()
    live(Life(requests, model, pool, parents=40, draft_layers=draft, fast=fast), twin, watcher=kept)
    sides = [side for op in kept.told for side in (op.reads, op.writes) if isinstance(side, LaterRanges)]
    wanted = What.DRAFTED if draft else What.COMMITTED if model == "tiny-state" else What.WRITES
    assert wanted in {side.what for side in sides}
    many = LaterRanges.together(sides)
    for start, count, side in zip(many.starts, many.counts, sides, strict=True):
        begins, ends = side.columns()
        assert many.begins[start : start + count].tolist() == begins.tolist()
        assert many.ends[start : start + count].tolist() == ends.tolist()
    assert len(many.begins) == many.counts.sum() > len(sides)
