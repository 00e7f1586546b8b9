"""Tokens and logits of the paged executor against the dense reference (`executor-rules.md` section 8)."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live, request
from tsviz.engine.summary import EndReason
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.slots import Drafter

torch.set_num_threads(1)

SHARED = tuple(request(f"r{i}", (100 + i % 2, 20), (200 + i, 3 + 5 * i), says=14 + i, at_ms=3 * i) for i in range(6))
"""Six requests of two prompt families: 20 shared tokens, then 3 to 28 of their own."""
PRESSED = tuple(request(f"r{i}", (100 + i, 10 + i), says=30, at_ms=i) for i in range(5))
"""Five requests that grow to 40 and more tokens each and share nothing."""


def test_cold_and_chunked_prompts_are_bit_equal() -> None:
    """A prompt of 48 tokens in chunks of 16 gives the logits of one dense forward."""
    lived = live(Life((request("a", (1, 48), says=10),), pool=PoolOptions(max_scheduled_tokens=16)), twin)
    assert lived.counts["chunked"] == 2  # chunks 0-16, 16-32, 32-48; the first one is cold
    assert lived.counts["cold"] == 1
    assert (lived.equality.tokens, lived.equality.bit_equal) == (10, 10)


def test_a_prefix_hit_is_bit_equal() -> None:
    """A prompt whose first 32 tokens are cached computes only its own 9 and says what it would have said alone."""
    first, second = request("a", (1, 32), says=4), request("b", (1, 32), (2, 9), says=8, at_ms=40)
    lived = live(Life((first, second)), twin)
    assert lived.counts["device hit"] == 1
    assert lived.equality.is_exact
    assert lived.equality.tokens == 12


@pytest.mark.parametrize("model", ["tiny", "tiny-sliding", "tiny-state", "tiny-replay-2"])
def test_retraction_to_the_host_and_back_is_bit_equal(model: str) -> None:
    """Pages that a retraction copied out and a readmission copied back hold what they held."""
    pool = PoolOptions(mixed=True, overlap_schedule_depth=1)
    lived = live(Life(PRESSED, model, pool, parents=12, host_parents=60), twin)
    assert lived.summary.reason is EndReason.DRAINED
    assert lived.summary.retractions > 0
    assert lived.counts["retracted, back from host"] > 0
    assert lived.equality.is_exact, lived.equality
    assert lived.races == []
    assert lived.guard_is_zero


def test_recovery_without_a_host_tier_is_bit_equal() -> None:
    """A retracted request that nothing was kept of computes its prompt and its output again."""
    lived = live(Life(PRESSED, parents=12, pool=PoolOptions(mixed=True, prefix_cache=False)), twin)
    assert lived.counts["retracted, from scratch"] > 0
    assert lived.equality.is_exact, lived.equality


@pytest.mark.parametrize("drafter", [Drafter.NGRAM, Drafter.BAD, Drafter.NONE])
def test_speculation_says_what_decoding_one_by_one_says(drafter: Drafter) -> None:
    """Windows of 3 tokens give the reference's tokens, whatever the candidates are worth."""
    pool = PoolOptions(mixed=True, decode_input_tokens=3, overlap_schedule_depth=1)
    lived = live(Life(SHARED, "tiny-state", pool, 40, drafter=drafter), twin)
    assert lived.equality.is_exact, lived.equality
    verified = {what: lived.counts[what] for what in ("all candidates accepted", "candidate rejected", "no candidates")}
    if drafter is Drafter.NONE:
        assert verified["no candidates"] == sum(verified.values()) > 0
    else:
        assert verified["candidate rejected"] > 0


def test_the_depth_of_overlap_changes_no_token() -> None:
    """With one result in flight every request says what it says with none."""
    lives = [Life(SHARED, "tiny-sliding", PoolOptions(mixed=True, overlap_schedule_depth=d), 40) for d in (0, 1)]
    none, one = (live(life, twin) for life in lives)
    assert none.equality.is_exact
    assert one.equality.is_exact
    assert one.counts["depth 1"] > 0


def test_storage_restores_what_another_engine_stored(tmp_path) -> None:
    """A second engine on the same store loads prefixes that it never computed, and is bit-equal."""
    life = Life(SHARED, "tiny-state", PoolOptions(storage=True), 40, host_parents=40)
    first = live(life, twin, tmp_path)
    second = live(life, twin, tmp_path)
    assert first.counts["storage put"] > 0
    assert second.counts["storage restore"] > first.counts["storage restore"]
    assert second.equality.is_exact, second.equality


def test_a_replayable_model_is_exact_only_with_its_declared_window() -> None:
    """Two stacked layers of 6 visible tokens that declare 6 instead of 11 see a truncated history after a hit."""
    short = live(Life(SHARED, "tiny-replay-short", parents=40), twin)
    assert short.counts["replay"] > 0
    assert short.equality.bit_equal < short.equality.tokens
    exact = live(Life(SHARED, "tiny-replay", parents=40), twin)
    assert exact.counts["replay"] > 0
    assert exact.equality.is_exact, exact.equality


@pytest.mark.oracle
@pytest.mark.parametrize("model", ["tiny-state", "tiny-replay"])
def test_plans_of_the_real_scheduler_are_executed_alike(model: str, real_scheduler) -> None:
    """The real package's plans give the same tokens in as many rounds as the twin's."""
    pool = PoolOptions(mixed=True, overlap_schedule_depth=1, decode_input_tokens=2)
    life = Life(SHARED, model, pool, 24, host_parents=40)
    ours, real = live(life, twin), live(life, real_scheduler)
    assert real.equality.is_exact, real.equality
    assert replace(real.summary) == replace(ours.summary)
    assert [(op.kind, op.reads, op.writes) for op in real.ops] == [(op.kind, op.reads, op.writes) for op in ours.ops]
