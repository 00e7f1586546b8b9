"""A small draft model beside n-grams (`executor-rules.md` section 3, *Drafter*)."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live
from tests.executor.test_equality import PRESSED, SHARED
from tsviz.executor.drafting import check_draft, first_layers
from tsviz.executor.layout import plan_layout
from tsviz.executor.model import Model
from tsviz.executor.shape import PRESETS, BadModel, ModelShape
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.weights import seeded_weights

torch.set_num_threads(1)
WIDE = PoolOptions(mixed=True, overlap_schedule_depth=1, decode_input_tokens=3, max_scheduled_tokens=24)


@pytest.mark.parametrize(
    ("requests", "parents", "host", "storage"),
    [(SHARED, 60, 0, False), (PRESSED, 12, 60, False), (PRESSED, 12, 0, False), (SHARED, 40, 40, True)],
    ids=["hits", "host", "scratch", "storage"],
)
def test_a_model_that_drafts_for_itself_is_never_rejected(requests, parents, host, storage, tmp_path) -> None:
    """Its draft pages hold what its own hold, over chunks, hits, retractions, the host tier and storage."""
    life = Life(requests, "tiny", replace(WIDE, storage=storage), parents, host, draft_layers=2)
    for _ in range(1 + storage):
        lived = live(life, twin, tmp_path)
        assert lived.equality.is_exact, lived.equality
        assert lived.counts["all candidates accepted"] > 20
        assert lived.counts["candidate rejected"] == 0
        assert lived.races == []


@pytest.mark.parametrize("model", ["tiny-state", "tiny-replay", "tiny-narrow"])
def test_a_draft_of_the_first_layer_changes_no_token(model) -> None:
    """Candidates of a model's first layer are mostly rejected, rolled back, and no bit of a logit depends on them."""
    lived = live(Life(SHARED, model, WIDE, 60, draft_layers=1), twin)
    assert lived.equality.is_exact, lived.equality
    assert lived.counts["candidate rejected"] > 0
    assert lived.races == []


def test_a_drafts_fields_lie_behind_those_of_full_attention() -> None:
    """A layer more of keys and values of 8 x 2 x 8 floats, 512 bytes each, in the full block and nowhere else."""
    shape, draft = ModelShape("FS"), ModelShape("F")
    (full, sliding), (alone, _) = (plan_layout(shape, {"full": 8, "sliding": 4}, 4, d).groups for d in (draft, None))
    assert full.payload_bytes == alone.payload_bytes + 1024
    assert [(f.layer, f.name) for f in full.fields] == [(0, "k"), (0, "v"), (2, "k"), (2, "v")]
    assert {f.layer for f in sliding.fields} == {1}


@pytest.mark.parametrize(
    ("target", "draft", "width", "told"),
    [
        ("tiny-state", ModelShape("FS"), 3, "expected layers of full attention only, found 'FS'"),
        ("tiny", ModelShape("F", vocabulary=96), 3, "expected the model's vocabulary of 97, found 96"),
        ("tiny", ModelShape("F"), 1, "expected a decode window of at least 2 tokens to draft for, found 1"),
    ],
)
def test_a_draft_that_cannot_draft_is_told(target, draft, width, told) -> None:
    """Layers of another kind, another vocabulary and a window without candidates are told before anything runs."""
    with pytest.raises(BadModel, match=told):
        check_draft(PRESETS[target], draft, width)


def test_a_draft_has_fewer_layers_than_its_model() -> None:
    """Of a model of two layers the first one can draft."""
    model = Model(PRESETS["tiny"], seeded_weights(PRESETS["tiny"], 1))
    assert first_layers(model, 1).shape.pattern == "F"
    with pytest.raises(BadModel, match="expected first:1, of the model's 2 layers, found first:2"):
        first_layers(model, 2)
