"""A prefill and a decode node with a real byte transfer between them (`executor-rules.md` section 5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

from tests.executor.catalogue import QUERIES, found
from tests.executor.pairs import REQUESTS, Pair, run_pair
from tests.executor.rig import request
from tsviz.engine.faults import ClientAbort
from tsviz.engine.summary import EndReason
from tsviz.executor.sizing import PoolOptions
from tsviz.trace.order.ops import Kind
from tsviz.trace.reader import open_bundle

torch.set_num_threads(1)


@pytest.mark.parametrize("layerwise", [False, True], ids=["whole", "layerwise"])
@pytest.mark.parametrize(
    ("model", "width", "depth"), [("tiny", 3, 1), ("tiny-state", 2, 0), ("tiny-replay", 1, 1), ("tiny-narrow", 1, 0)]
)
def test_a_pair_says_what_one_engine_says(model, width, depth, layerwise) -> None:
    """Prompts computed on one node and decoded on the other are bit-equal to the dense reference."""
    pool = PoolOptions(decode_input_tokens=width, overlap_schedule_depth=depth, max_scheduled_tokens=24)
    paired = run_pair(Pair(model, pool=pool, layerwise=layerwise))
    assert paired.on_d.reason is EndReason.DRAINED, paired.on_d
    assert (paired.on_d.finished, paired.on_p.finished) == (5, 5)
    equality = paired.equality
    assert equality.is_exact, equality
    assert equality.tokens >= 40
    assert paired.p.device.counts["hand-over"] == 5
    assert (paired.p.device.counts["block sent ahead"] > 0) is layerwise
    assert paired.races == set()


def test_a_drafts_pages_are_handed_over() -> None:
    """A model that drafts for itself is never rejected on a decode node that computed none of the prompts."""
    pool = PoolOptions(decode_input_tokens=3, max_scheduled_tokens=24)
    for layerwise in (False, True):
        paired = run_pair(Pair(pool=pool, layerwise=layerwise, draft_layers=2))
        assert paired.equality.is_exact, paired.equality
        assert paired.d.device.counts["all candidates accepted"] > 5
        assert paired.d.device.counts["candidate rejected"] == 0


def test_pages_that_the_decode_node_has_do_not_travel() -> None:
    """A prompt of 37 tokens whose first 32 D has cached sends its last block of 8 alone: 1 of 5, and 4 before it.

    Layer by layer it is the same: a block of 8 rows, keys and values, 2 heads of 8 floats, 2 layers is 2,048 bytes.
    """
    later = replace(request("b", (7, 32), (8, 5), says=4), arrival_ns=None, after="a")
    for layerwise in (False, True):
        paired = run_pair(Pair(requests=(request("a", (7, 32), says=4), later), layerwise=layerwise))
        assert paired.on_d.finished == 2
        assert paired.d.device.counts["landing behind a prefix"] == 1
        assert paired.p.device.counts["hand-over"] == 2
        sides = (paired.d.loop._remote, paired.p.loop._remote)
        assert [side.moved_bytes for side in sides] == [5 * 2048, 5 * 2048]


def test_pages_go_ahead_while_the_prompt_is_computed(tmp_path) -> None:
    """Of a prompt of 40 tokens in chunks of 16 two blocks of 8 go with each chunk, and one with the last, per layer."""
    pool = PoolOptions(max_scheduled_tokens=16)
    paired = run_pair(Pair(requests=(request("a", (1, 40), says=2),), pool=pool, layerwise=True), tmp_path)
    assert paired.p.device.counts["block sent ahead"] == 5
    ops = open_bundle(tmp_path / "P").part("P", 0).table("device_ops").to_pylist()
    layers = {op["op"]: op["layer"] for op in ops if op["kind"] == "layer"}
    sends = [op for op in ops if op["kind"] == Kind.SEND.value]
    assert [(op["layer"], op["moved_bytes"]) for op in sends] == [
        (0, 2048), (1, 2048), (0, 2048), (1, 2048), (0, 1024), (1, 1024),
    ]  # fmt: skip
    assert all([layers[n] for n in op["waits"]] == [op["layer"]] for op in sends)


def test_a_client_that_gives_up_frees_both_nodes() -> None:
    """An abort on D in the middle of everything ends the request on both nodes, and the others go on."""
    aborts = tuple(ClientAbort(r.request_id, 1_000_000 * (1 + i)) for i, r in enumerate(REQUESTS[:3]))
    for layerwise in (False, True):
        paired = run_pair(Pair("tiny-state", aborts=aborts, layerwise=layerwise))
        assert paired.on_d.live == paired.on_p.live == 0
        assert paired.on_d.finished + paired.on_d.aborted + paired.on_d.failed == 5
        for engine in (paired.d, paired.p):
            assert engine.port.sizes()[:4] == (0, 0, 0, 0)
        assert paired.equality.is_exact


@pytest.mark.parametrize(("own", "exact"), [(3, True), (2, False)])
def test_a_hit_within_the_replay_window_truncates_it(own, exact, tmp_path) -> None:
    """A3 of docs/failures.md: with a window of 4 and a hit at 16 a decode at 18 looks for position 15 in vain.

    The query of entry 11 finds that it does.
    """
    first, later = request("a", (1, 16), says=4), request("b", (1, 16), (2, own), says=6)
    paired = run_pair(Pair("tiny-replay", (first, replace(later, arrival_ns=None, after="a"))), tmp_path)
    assert paired.d.device.counts["landing behind a prefix"] == 1
    assert paired.equality.is_exact is exact
    assert (found(QUERIES[11], tmp_path) == {}) is exact
