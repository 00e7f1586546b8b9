"""`fast` mode: decodes as one step over all layers, by itself and as a graph on a fake device."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tests.executor.fake_cuda import FakeCuda
from tests.executor.rig import Life, live, request, with_device
from tsviz.engine.clock import VirtualClock
from tsviz.executor import decode, decode_step, drafting, forward, upload
from tsviz.executor.arena import Arena
from tsviz.executor.cuda import CudaStreams
from tsviz.executor.decode import how_decoded
from tsviz.executor.fast import fast_model
from tsviz.executor.graphs import DecodeGraphs, columns_of, rows_of
from tsviz.executor.inputs import Bounds, ForwardInputs, Row
from tsviz.executor.launch import Launcher
from tsviz.executor.model import Model
from tsviz.executor.opqueue import OpQueue
from tsviz.executor.options import DeviceOptions, Edge
from tsviz.executor.shape import PRESETS
from tsviz.executor.sizing import PoolOptions, size_pool
from tsviz.executor.slots import Drafter, SlotState
from tsviz.executor.streams import InlineStreams
from tsviz.executor.weights import seeded_weights
from tsviz.trace.order.checker import check_ops, merged
from tsviz.trace.order.ops import Kind, Stream

torch.set_num_threads(1)
SHARED = tuple(request(f"r{i}", (100, 20), (200 + i, 3 + 5 * i), says=8 + i, at_ms=i) for i in range(3))
LONGER = tuple(request(f"r{i}", (100, 20), (200 + i, 3 + 5 * i), says=24 + i, at_ms=i) for i in range(3))
LIVES = [
    Life(SHARED, "tiny", PoolOptions(mixed=True, overlap_schedule_depth=1), 12, 60, fast=True),
    Life(SHARED, "tiny", PoolOptions(decode_input_tokens=3, overlap_schedule_depth=1), fast=True),
    Life(SHARED, "tiny-sliding", PoolOptions(mixed=True), fast=True),
    Life(SHARED, "tiny-narrow", PoolOptions(decode_input_tokens=2, max_scheduled_tokens=40), fast=True),
    Life(SHARED, "tiny-replay-2", PoolOptions(overlap_schedule_depth=1, max_scheduled_tokens=40), fast=True),
    Life(SHARED, "tiny-state", PoolOptions(mixed=True, overlap_schedule_depth=1), fast=True),
    Life(SHARED, "tiny-state-2", PoolOptions(decode_input_tokens=3, overlap_schedule_depth=1), fast=True),
    Life(LONGER, "tiny", PoolOptions(decode_input_tokens=3, mixed=True), draft_layers=2, fast=True),
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


@pytest.mark.parametrize("life", [LIVES[0], LIVES[6]], ids=["overlap", "wide-state"])
def test_the_ordering_table_holds_where_graphs_are_replayed(life) -> None:
    """A step writes the bytes that its layers write: without its waits the checker names it, with them it does not."""
    _, life = on_fake(life)
    ops = live(life, twin).ops
    assert check_ops(ops) == []
    for op in ops:
        op.waits, op.seen = (), ()
    steps = {op.number for op in ops if op.kind is Kind.LAYER and op.layer is None}
    assert {race.edge for race in check_ops(ops) if race.second.number in steps} >= {"zero -> layer"}


@pytest.mark.parametrize("life", [LIVES[1], LIVES[6], LIVES[8]], ids=["wide", "wide-state", "draft-state"])
def test_nothing_is_allocated_on_the_host_or_awaited_while_a_graph_is_captured(life, monkeypatch) -> None:
    """No upload, no download, no number read back and no event between the begin of a capture and its end."""
    library, life = on_fake(life)

    def guarded(function):
        def call(*arguments, **named):
            assert library.capturing is None
            return function(*arguments, **named)

        return call

    ways = [(module, "upload") for module in (decode, decode_step, drafting, upload)] + [(forward, "download")]
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


def test_every_batch_without_prompts_is_one_step() -> None:
    """In `fast` mode, with state layers, windows and a draft model too; exact mode runs layer by layer."""
    for life in LIVES:
        ops = live(life, twin).ops
        prompts = {op.round for op in ops if op.kind is Kind.LAYER and op.layer is not None}
        rounds = [op.round for op in ops if op.kind is Kind.PROLOGUE]
        steps = [op.round for op in ops if op.kind is Kind.LAYER and op.layer is None]
        assert sorted(rounds) == sorted([*prompts, *steps])
        assert len(prompts) <= 3 * len(life.requests)  # at most three chunks a prompt
    model = Model(PRESETS["tiny-state"], seeded_weights(PRESETS["tiny-state"], 1))
    assert how_decoded(model) == "layer by layer: exact mode"
    assert how_decoded(fast_model(model)) == "one step, no graphs: there is no CUDA device here"


@pytest.mark.parametrize(("omitted", "named"), [((), []), ((Edge.LOAD_FORWARD,), ["load -> layer"] * 2)])
def test_a_step_waits_once_for_all_loads_of_its_round(omitted, named) -> None:
    """Loads of either layer come before the one operation that reads both; without the edge the checker names them."""
    shape = PRESETS["tiny"]
    model = fast_model(Model(shape, seeded_weights(shape, 1)))
    sized = size_pool(shape, PoolOptions(), parents=4, host_parents=0, element_bytes=4)
    arena, clock = Arena(sized.layout, 4, torch.float32), VirtualClock()
    queue = OpQueue(InlineStreams(clock.now_ns), clock, None)
    options = DeviceOptions(omitted=frozenset(omitted))
    slots = SlotState(2, 1, 64, Drafter.NONE, shape.vocabulary)
    slots.valid[1] = 5
    launcher = Launcher(model, None, arena, slots, queue, options, sized.scheduler.prefix_granularity, None)
    zero = queue.submit(Stream.DEFAULT, Kind.ZERO, lambda: None)
    group = sized.layout.group("full")
    loads = [
        queue.submit(Stream.LOAD, Kind.LOAD, lambda: None, writes=merged(group.device_ranges(1, layer)), layer=layer)
        for layer in range(2)
    ]
    row = Row("a", 1, 1, Bounds(5, 5), False)
    inputs = ForwardInputs((row,), 0, 1, np.zeros(0, np.int64), {"full": np.array([[1]])}, (0, 1))
    (step,) = launcher.launch(inputs, zero, {i: [op.number] for i, op in enumerate(loads)}).layers
    assert step.layer is None
    assert step.waits == (() if omitted else tuple(op.number for op in loads))
    assert [race.edge for race in queue.checker.races] == named


@pytest.mark.parametrize("model", ["tiny-state-2", "tiny"])
def test_checksums_tell_of_a_step_what_they_tell_layer_by_layer(model) -> None:
    """The candidate states of windows, and pages as found and left, are summed up for steps too; nothing races."""
    life = Life(SHARED, model, PoolOptions(decode_input_tokens=2), fast=True)
    watcher = Summed()
    lived = live(with_device(life, page_crcs=True), twin, watcher=watcher)
    assert (lived.equality.wrong, lived.races) == (0, [])
    steps = [number for number, op in watcher.told.items() if op.kind is Kind.LAYER and op.layer is None]
    assert all(watcher.spaces[number] == {"device"} for number in steps)
    epilogues = [n for n, op in watcher.told.items() if op.kind is Kind.EPILOGUE and op.round in watcher.step_rounds()]
    expected = {"device", "scratch"} if "state" in model else set()
    assert all(watcher.spaces.get(number, set()) == expected for number in epilogues)


class Summed:
    """Keeps which spaces the checksums of an operation were of."""

    def __init__(self) -> None:
        self.told, self.spaces = {}, {}

    def ops(self, ops) -> None:
        self.told |= {op.number: op for op in ops}

    def crcs(self, op, crcs) -> None:
        self.spaces[op.number] = {crc.space for crc in crcs}

    def forward(self, round_, start_ns, end_ns, rows) -> None:
        pass

    def step_rounds(self) -> set[int]:
        return {op.round for op in self.told.values() if op.kind is Kind.LAYER and op.layer is None}
