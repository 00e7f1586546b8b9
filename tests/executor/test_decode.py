"""`fast` mode: decodes as one step over all layers, by itself and as a graph on a fake device."""

from __future__ import annotations

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.fake_cuda import FakeCuda
from tests.executor.rig import Life, live, request
from tsviz.executor import decode, decode_step, forward, upload
from tsviz.executor.cuda import CudaStreams
from tsviz.executor.decode import how_decoded
from tsviz.executor.fast import fast_model
from tsviz.executor.graphs import DecodeGraphs, columns_of, rows_of
from tsviz.executor.model import Model
from tsviz.executor.ops import Kind
from tsviz.executor.order import check_ops
from tsviz.executor.shape import PRESETS
from tsviz.executor.sizing import PoolOptions
from tsviz.executor.weights import seeded_weights

torch.set_num_threads(1)
SHARED = tuple(request(f"r{i}", (100, 20), (200 + i, 3 + 5 * i), says=8 + i, at_ms=i) for i in range(3))
LIVES = [
    Life(SHARED, "tiny", PoolOptions(mixed=True, overlap_schedule_depth=1), 12, 60, fast=True),
    Life(SHARED, "tiny", PoolOptions(decode_input_tokens=3, overlap_schedule_depth=1), fast=True),
    Life(SHARED, "tiny-sliding", PoolOptions(mixed=True), fast=True),
    Life(SHARED, "tiny-narrow", PoolOptions(decode_input_tokens=2, max_scheduled_tokens=40), fast=True),
    Life(SHARED, "tiny-replay-2", PoolOptions(overlap_schedule_depth=1, max_scheduled_tokens=40), fast=True),
    Life(SHARED, "tiny-state", PoolOptions(mixed=True, overlap_schedule_depth=1), fast=True),
    Life(SHARED, "tiny-state-2", PoolOptions(decode_input_tokens=3, overlap_schedule_depth=1), fast=True),
    Life(SHARED, "tiny", PoolOptions(decode_input_tokens=3, mixed=True), draft_layers=2, fast=True),
    Life(SHARED, "tiny-state", PoolOptions(decode_input_tokens=3, overlap_schedule_depth=1), draft_layers=1, fast=True),
]
NAMES = ["overlap", "wide", "sliding", "narrowed", "replay", "state", "wide-state", "draft", "draft-state"]


def on_fake(life: Life) -> tuple[FakeCuda, Life]:
    """The same lifetime on the fake device, its decodes captured."""
    library = FakeCuda()
    streams = lambda now_ns: CudaStreams(now_ns, library)  # noqa: E731
    return library, replace(life, streams=streams, graphs=DecodeGraphs(library))


@pytest.mark.parametrize("life", LIVES, ids=NAMES)
def test_one_step_says_what_the_reference_says(life) -> None:
    """In float64 every token is the dense reference's, whose margins are far above rounding; nothing races."""
    lived = live(life, twin)
    assert (lived.equality.wrong, lived.races, lived.guard_is_zero) == (0, [], True)
    assert any(op.kind is Kind.LAYER and op.layer is None for op in lived.ops)


@pytest.mark.parametrize("life", LIVES, ids=NAMES)
def test_a_replayed_graph_says_what_the_step_says(life) -> None:
    """What is captured once a shape and replayed gives the reference's tokens, logits like those of the plain step."""
    library, life = on_fake(life)
    lived = live(life, twin)
    assert (lived.equality.wrong, lived.races, lived.guard_is_zero) == (0, [], True)
    names = [call[0] for call in library.calls]
    steps = sum(op.kind is Kind.LAYER and op.layer is None for op in lived.ops)
    shapes = names.count("capture")
    assert shapes > 0
    assert names.count("replay") > shapes
    assert names.count("replay") <= 2 * steps  # one graph for the layers, one for the epilogue


def test_the_ordering_table_holds_where_graphs_are_replayed() -> None:
    """A step writes the bytes that its layers write: without its waits the checker names it, with them it does not."""
    _, life = on_fake(LIVES[0])
    ops = live(life, twin).ops
    assert check_ops(ops) == []
    for op in ops:
        op.waits, op.seen = (), ()
    steps = {op.number for op in ops if op.kind is Kind.LAYER and op.layer is None}
    assert {race.edge for race in check_ops(ops) if race.second.number in steps} >= {"zero -> layer"}


def test_nothing_is_allocated_on_the_host_or_awaited_while_a_graph_is_captured(monkeypatch) -> None:
    """No upload, no download, no number read back and no event between the begin of a capture and its end."""
    library, life = on_fake(LIVES[1])

    def guarded(function):
        def call(*arguments, **named):
            assert library.capturing is None
            return function(*arguments, **named)

        return call

    ways = [(module, "upload") for module in (decode, decode_step, upload)] + [(forward, "download")]
    ways += [(torch.Tensor, name) for name in ("item", "tolist", "cpu", "pin_memory")] + [(torch, "from_numpy")]
    for module, name in ways:
        monkeypatch.setattr(module, name, guarded(getattr(module, name)))
    live(life, twin)
    begun = [i for i, call in enumerate(library.calls) if call[0] == "capture"]
    assert begun
    assert all(library.calls[i + 1][0] == "replay" for i in begun)


def test_graphs_are_captured_for_a_few_sizes() -> None:
    """A batch of 5 rows runs in the graph of 8; tables of 17 columns in that of 20, a step of 32 / 8 behind 16."""
    assert [rows_of(rows) for rows in (1, 2, 3, 5, 8, 33)] == [1, 2, 4, 8, 8, 64]
    assert [columns_of(columns) for columns in (1, 4, 5, 16, 17, 33, 100)] == [4, 4, 8, 16, 20, 40, 112]


def test_what_is_not_one_step_says_why() -> None:
    """Exact mode and state layers are run layer by layer, for a reason."""
    model = Model(PRESETS["tiny-state"], seeded_weights(PRESETS["tiny-state"], 1))
    assert how_decoded(model, None) == "layer by layer: exact mode"
    assert how_decoded(fast_model(model), None) == "layer by layer: state layers"
    plain = fast_model(Model(PRESETS["tiny"], seeded_weights(PRESETS["tiny"], 1)))
    assert how_decoded(plain, plain) == "layer by layer: a draft model"
    assert how_decoded(plain, None) == "one step, no graphs: there is no CUDA device here"
    lived = live(Life(SHARED[:1], "tiny-state", fast=True), twin)
    assert lived.equality.wrong == 0
    assert not any(op.kind is Kind.LAYER and op.layer is None for op in lived.ops)
