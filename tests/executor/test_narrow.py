"""The decoder narrowed to the prompt's last window (`seed.md`, *bounded replay*)."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live, request
from tests.executor.test_equality import PRESSED, SHARED
from tsviz.executor.shape import PRESETS, BadModel, ModelShape
from tsviz.executor.sizing import PoolOptions
from tsviz.trace.order.ops import Kind

torch.set_num_threads(1)
LONG = (request("a", (1, 70), says=6), request("b", (1, 64), (2, 30), says=6, at_ms=50))
"""Two prompts of three and more chunks; the second one finds 64 tokens of the first and feeds some of them again."""


@pytest.mark.parametrize(
    ("requests", "parents", "host", "width"), [(LONG, 60, 0, 1), (SHARED, 40, 0, 3), (PRESSED, 14, 60, 2)]
)
def test_a_narrowed_decoder_is_bit_equal(requests, parents, host, width) -> None:
    """The dense reference runs every row through every layer, and every logit is equal all the same."""
    pool = PoolOptions(max_scheduled_tokens=24, mixed=True, overlap_schedule_depth=1, decode_input_tokens=width)
    lived = live(Life(requests, "tiny-narrow", pool, parents, host), twin)
    assert lived.equality.is_exact, lived.equality
    assert lived.races == []


def test_a_prompts_earlier_rows_end_below_the_upper_layers() -> None:
    """Of 70 tokens in chunks of 24, 24 and 22 the layers behind the last sliding one write 1, 1 and 7 rows.

    Two layers of window 4 see 2 x 3 + 1 = 7 tokens; a row of keys and values is 2 heads of 8 floats each, 128 bytes.
    """
    lived = live(Life(LONG[:1], "tiny-narrow", PoolOptions(max_scheduled_tokens=24), 60), twin)
    written = [
        [sum(r.end - r.begin for r in op.writes) // 128 for op in lived.ops if op.kind is Kind.LAYER and op.layer == n]
        for n in range(4)
    ]
    assert [rows[:3] for rows in written] == [[24, 24, 22], [24, 24, 22], [1, 1, 7], [1, 1, 7]]


def test_a_window_that_is_too_short_shows(monkeypatch) -> None:
    """Two stacked layers of window 4 that keep 4 rows of a prompt instead of 7 give other logits."""
    monkeypatch.setitem(PRESETS, "short", replace(PRESETS["tiny-narrow"], short_replay=True))
    lived = live(Life(LONG[:1], "short", PoolOptions(max_scheduled_tokens=24), 60), twin)
    assert not lived.equality.is_exact


def test_only_a_model_that_ends_with_replayable_layers_is_narrowed() -> None:
    """A last layer of another kind needs every row below it."""
    with pytest.raises(BadModel, match="a narrowed decoder ends with replayable layers, found 'FRF'"):
        ModelShape("FRF", narrow=True)
