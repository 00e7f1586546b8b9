"""Pairs on the real package's plans and on the twin's; what the real one's cut landings come to (A1)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.catalogue import anomaly
from tests.executor.pairs import Pair, Paired, drawn_pair, run_pair
from tests.executor.rig import request
from tsviz.api import open_trace
from tsviz.engine.summary import EndReason
from tsviz.executor.landing import CUT
from tsviz.executor.sizing import PoolOptions

torch.set_num_threads(1)
SEEDS = range(5)
PAIR_PATHS = ("hand-over", "landing", "landing behind a prefix", "block sent ahead", "candidate rejected")


def said(paired: Paired) -> dict[str, list[int]]:
    """What each request said on the decode node."""
    return {name: [t for part in parts for t in part.tokens] for name, parts in paired.d.device.said.items()}


def test_drawn_pairs_say_the_same_on_the_real_plans_and_on_the_twins(real_scheduler) -> None:
    """Every request that no cut landing ends says on both what the dense reference says; everything is freed."""
    counts: dict[str, Counter[str]] = {"twin": Counter(), "real": Counter()}
    for seed in SEEDS:
        paired = {
            name: run_pair(drawn_pair(seed, module)) for name, module in (("twin", twin), ("real", real_scheduler))
        }
        tokens = {name: said(run) for name, run in paired.items()}
        for name, run in paired.items():
            counts[name] += run.counts + Counter({"cut landing": run.failures.get(CUT, 0)})
            assert run.on_d.reason is EndReason.DRAINED, (seed, name, run.on_d)
            assert run.equality.is_exact, (seed, name, run.equality)
            assert run.races == set(), (seed, name)
            assert set(run.failures) <= {CUT}, (seed, name)
            assert run.on_d.finished + run.on_d.failed == len(run.requests), (seed, name)
            assert (run.on_d.live, run.on_p.live) == (0, 0), (seed, name)
        assert paired["twin"].on_d.failed == 0
        assert {name: tokens["twin"][name] for name in tokens["real"]} == tokens["real"], seed
    assert counts["real"]["cut landing"] > 0
    print(
        *(f"{counts['twin'][path]:6,} {counts['real'][path]:6,}  {path}" for path in (*PAIR_PATHS, "cut landing")),
        sep="\n",
    )
    for name in counts:
        assert {path: counts[name][path] for path in PAIR_PATHS if counts[name][path] == 0} == {}, name


def cut_pair(model: str, scheduler: Any, declared: int = 0) -> Pair:
    """A prompt that shares 24 tokens, of which the sliding group kept none; one before and one behind it."""
    first = request("a", (1, 24), (5, 24), says=4, declared=declared)
    cut = replace(request("b", (1, 24), (9, 20), says=6, declared=declared), arrival_ns=None, after="a")
    behind = replace(request("c", (3, 30), says=6, declared=declared), arrival_ns=None, after="b")
    return Pair(model, (first, cut, behind), scheduler=scheduler)


@pytest.mark.parametrize("declared", [0, 8], ids=["undeclared", "declared"])
@pytest.mark.parametrize("model", ["tiny-sliding", "tiny-narrow"])
def test_a_cut_landing_fails_alone(model, declared, real_scheduler, tmp_path) -> None:
    """A1: of 44 tokens 24 are granted; that request fails on both nodes, frees everything, and the others are right.

    Undeclared its table ends there; declared it goes on, and the decodes behind it would find no sliding page.
    """
    paired = run_pair(cut_pair(model, real_scheduler, declared), tmp_path)
    assert paired.on_d.reason is EndReason.DRAINED
    assert (paired.on_d.finished, paired.failures) == (2, {CUT: 1})
    assert (paired.on_p.finished, paired.on_p.failed) == (2, 1)
    assert paired.equality.is_exact
    assert {name: len(tokens) for name, tokens in said(paired).items()} == {"a": 4, "c": 6}
    for engine in (paired.d, paired.p):
        assert engine.port.sizes()[:4] == (0, 0, 0, 0)
    rows = open_trace(tmp_path / "D").sql(anomaly("A1")).to_pylist()
    assert [(row["request"], row["landed_tokens"], row["prefill_tokens"]) for row in rows] == [("b", 24, 44)]


def test_the_twin_cuts_no_landing(tmp_path) -> None:
    """On the twin's plans the same three requests finish, and the query of A1 finds nothing."""
    paired = run_pair(cut_pair("tiny-sliding", twin), tmp_path)
    assert (paired.on_d.finished, paired.failures) == (3, {})
    assert open_trace(tmp_path / "D").sql(anomaly("A1")).num_rows == 0


@pytest.mark.parametrize("scheduler", ["twin", "real"])
def test_a_decode_node_that_retracts_says_what_one_engine_says(scheduler, real_scheduler, tmp_path) -> None:
    """A4: behind a recovery of its own the plan's first input is a token old; what the device has is fed instead.

    Eight blocks of 8 hold either request of 44 and 46 tokens to its end, and not both.
    """
    requests = tuple(request(f"p{i}", (401 + i, 14 + 2 * i), says=30) for i in range(2))
    pool = PoolOptions(overlap_schedule_depth=1, max_scheduled_tokens=24)
    module = real_scheduler if scheduler == "real" else twin
    paired = run_pair(Pair("tiny", requests, pool, parents=8, scheduler=module), tmp_path)
    assert (paired.on_d.reason, paired.on_d.finished) == (EndReason.DRAINED, 2)
    assert paired.on_d.retractions == 1
    assert open_trace(tmp_path / "D").sql(anomaly("A4")).num_rows == 1
    assert paired.equality.is_exact
