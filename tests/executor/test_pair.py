"""A prefill and a decode node with a real byte transfer between them (`executor-rules.md` section 5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.rig import request
from tsviz.engine.arrivals import Arrivals
from tsviz.engine.configs import Role
from tsviz.engine.drive import drive
from tsviz.engine.faults import ClientAbort
from tsviz.engine.summary import EndReason
from tsviz.engine.workloads.model import Workload
from tsviz.executor.clock import MonotonicClock
from tsviz.executor.engine import Engine, EngineOptions, fit_vocabulary
from tsviz.executor.equality import compare
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions, Edge
from tsviz.executor.peer import PeerSide
from tsviz.executor.shape import PRESETS
from tsviz.executor.sizing import PoolOptions, size_pool, with_role
from tsviz.executor.weights import seeded_weights
from tsviz.executor.wire import wire_pair

torch.set_num_threads(1)
REQUESTS = tuple(request(f"r{i}", (100 + i % 2, 20), (200 + i, 3 + 4 * i), says=8, at_ms=3 * i) for i in range(5))


def pair(model_name, *, width=1, depth=0, requests=REQUESTS, aborts=(), omitted=(), parents=60):
    """Run both nodes in this process; return engines and summaries, D first."""
    shape = PRESETS[model_name]
    model = Model(shape, seeded_weights(shape, 3))
    workload = fit_vocabulary(Workload(requests, {}), shape.vocabulary)
    pool = PoolOptions(decode_input_tokens=width, overlap_schedule_depth=depth)
    sized = size_pool(shape, pool, parents=parents, host_parents=0, element_bytes=4)
    clock, engines = MonotonicClock(), []
    arrivals = {Role.D: Arrivals(workload.requests), Role.P: Arrivals(workload.requests, follows_only=True)}
    arrivals[Role.P].follow(arrivals[Role.D])
    for role, wire in zip((Role.D, Role.P), wire_pair(), strict=True):
        device = DeviceOptions(keep_logits=True, omitted=frozenset(omitted))
        engines.append(
            Engine(
                twin, model, with_role(sized, role), arrivals[role], clock, EngineOptions(device=device),
                remote=lambda e, role=role, wire=wire: PeerSide(role, wire, e.device, e.arena, shape, clock),
                aborts=aborts if role is Role.D else (),
            )
        )  # fmt: skip
    ending = drive([engine.loop for engine in engines], clock)
    summaries = [engine.loop.summary(*ending) for engine in engines]
    return model, workload, engines, summaries


@pytest.mark.parametrize(
    ("model", "width", "depth"), [("tiny", 1, 0), ("tiny", 3, 1), ("tiny-state", 2, 0), ("tiny-replay", 1, 1)]
)
def test_a_pair_says_what_one_engine_says(model, width, depth) -> None:
    """Prompts computed on one node and decoded on the other are bit-equal to the dense reference."""
    built, workload, (d, p), (on_d, on_p) = pair(model, width=width, depth=depth)
    assert on_d.reason is EndReason.DRAINED, on_d
    assert (on_d.finished, on_p.finished) == (5, 5)
    equality = compare(built, workload.requests, d.device.said)
    assert equality.is_exact, equality
    assert equality.tokens >= 40
    assert p.device.counts["hand-over"] == 5
    assert d.device.checker.races == p.device.checker.races == []


def test_pages_that_the_decode_node_has_do_not_travel() -> None:
    """A prompt whose first 16 tokens D has cached lands behind them, and fewer bytes move."""
    later = replace(request("b", (7, 32), (8, 5), says=4), arrival_ns=None, after="a")
    requests = (request("a", (7, 32), says=4), later)
    _, _, (d, p), (on_d, _) = pair("tiny", requests=requests)
    assert on_d.finished == 2
    assert d.device.counts["landing behind a prefix"] == 1
    assert p.device.counts["hand-over"] == 2


def test_a_client_that_gives_up_frees_both_nodes() -> None:
    """An abort on D in the middle of everything ends the request on both nodes, and the others go on."""
    aborts = tuple(ClientAbort(r.request_id, 1_000_000 * (1 + i)) for i, r in enumerate(REQUESTS[:3]))
    built, workload, (d, p), (on_d, on_p) = pair("tiny-state", aborts=aborts)
    assert on_d.live == on_p.live == 0
    assert on_d.finished + on_d.aborted + on_d.failed == 5
    for engine in (d, p):
        assert engine.port.sizes()[:4] == (0, 0, 0, 0)
    assert compare(built, workload.requests, d.device.said).is_exact


def test_a_manifest_before_zeroing_is_named() -> None:
    """D that does not wait for its zeroing before it asks for pages has a race between the two."""
    _, _, (d, _), _ = pair("tiny", omitted=(Edge.ZERO_REMOTE,))
    assert "zero -> receive" in {race.edge for race in d.device.checker.races}
