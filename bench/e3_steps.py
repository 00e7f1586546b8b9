"""What E3 times: a model of random weights, and a decode, a prefill and a whole engine on it, without a recorder."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SMOLLM2 = {
    "pattern": "F" * 30, "hidden": 576, "heads": 9, "kv_heads": 3, "head_dim": 64, "intermediate": 1536,
    "vocabulary": 49152, "rope_theta": 100_000.0,
}  # fmt: skip
LARGE = {
    "pattern": "F" * 28, "hidden": 3072, "heads": 24, "kv_heads": 8, "head_dim": 128, "intermediate": 8192,
    "vocabulary": 128_256, "rope_theta": 500_000.0, "max_positions": 131_072,
}  # fmt: skip
"""A Llama of 3.2 billion parameters."""
_PAGE_TOKENS = 16


@dataclass(frozen=True)
class Case:
    """What is run where.

    A step decodes `batch` rows of `context` tokens, a prefill `prompts` of `prompt_tokens`, an engine `batch` requests
    of `new_prompt` tokens that say `new_tokens`. `side` is that of the matrices whose product is the ceiling, `copied`
    the bytes whose copy is the bandwidth.
    """

    device: str
    dtype: Any
    shape: dict[str, Any]
    batch: int
    context: int
    prompts: int
    prompt_tokens: int
    side: int
    copied: int
    repeats: int
    new_prompt: int
    new_tokens: int


def random_model(sizes: dict[str, Any], dtype: Any, device: str) -> Any:
    """Return a model of random weights, drawn where it runs."""
    import torch

    from tsviz.executor.fast import fast_model
    from tsviz.executor.model import Model
    from tsviz.executor.shape import ModelShape
    from tsviz.executor.weights import Weights, layer_shapes

    shape, generator = ModelShape(**sizes), torch.Generator(device).manual_seed(0)

    def draw(*size: int) -> Any:
        drawn = torch.empty(size, dtype=dtype, device=device)
        return drawn.normal_(0.0, size[-1] ** -0.5, generator=generator) if len(size) > 1 else drawn.fill_(1.0)

    embed = draw(shape.vocabulary, shape.hidden)
    layers = [{n: draw(*s) for n, s in layer_shapes(shape, i).items()} for i in range(len(shape.pattern))]
    return fast_model(Model(shape, Weights(embed, tuple(layers), draw(shape.hidden), embed)))


def _pools(model: Any, case: Case, rows: int, tokens: int) -> tuple[Any, Any, Any, int]:
    """Return an arena for so many rows of so many tokens, slots, device options, and the pages of a row."""
    from tsviz.executor.arena import Arena
    from tsviz.executor.options import DeviceOptions
    from tsviz.executor.sizing import PoolOptions, size_pool
    from tsviz.executor.slots import Drafter, SlotState

    pages = -(-tokens // _PAGE_TOKENS)
    pool = PoolOptions(prefix_granularity=_PAGE_TOKENS, max_scheduled_tokens=rows * tokens, max_batch_size=rows)
    element = case.dtype.itemsize
    sized = size_pool(model.shape, pool, parents=rows * pages, host_parents=0, element_bytes=element)
    arena = Arena(sized.layout, rows * pages, case.dtype, case.device)
    slots = SlotState(rows, 1, tokens, Drafter.NONE, model.shape.vocabulary, case.device)
    return arena, slots, DeviceOptions(poison=False, tracked=False), pages


def decode_step(model: Any, case: Case, *, graphs: bool) -> Callable[[], None]:
    """Return what runs one decode of a full batch, at the same positions every time."""
    import numpy as np
    import torch

    from tsviz.executor.decode import DecodeForward, Decoding
    from tsviz.executor.graphs import DecodeGraphs
    from tsviz.executor.inputs import Bounds, ForwardInputs, Row

    arena, slots, options, pages = _pools(model, case, case.batch, case.context + 1)
    captured = DecodeGraphs(torch.cuda) if graphs else None
    decoding = Decoding(model, arena, slots, options, None, captured)
    bounds = Bounds(case.context, case.context)
    rows = tuple(Row(f"r{i}", i + 1, 1, bounds, False) for i in range(case.batch))
    tables = {"full": np.arange(1, case.batch * pages + 1).reshape(case.batch, pages)}
    inputs = ForwardInputs(rows, 0, 1, np.zeros(0, np.int64), tables, tuple(range(case.batch + 1)))

    def run() -> None:
        slots.valid[1 : case.batch + 1] = case.context
        forward = DecodeForward(inputs, decoding)
        forward.prologue()
        forward.layer(None)
        forward.epilogue()
        forward.copy_out()

    return run


def decode_seconds(model: Any, case: Case) -> float:
    import torch

    run = decode_step(model, case, graphs=case.device == "cuda")
    if case.device == "cpu":
        return seconds(run, case.repeats, case.device)
    with torch.cuda.stream(torch.cuda.Stream()):  # a graph is captured on a stream that is not the default one
        return seconds(run, case.repeats, case.device)


def prefill_seconds(model: Any, case: Case) -> float:
    import numpy as np

    from tsviz.executor.forward import Forward
    from tsviz.executor.inputs import Bounds, ForwardInputs, Row

    length, n = case.prompt_tokens, case.prompts
    arena, slots, options, pages = _pools(model, case, n, length)
    rows = tuple(Row(f"r{i}", i + 1, length, Bounds(0, 0), True, fresh=True) for i in range(n))
    tables = {"full": np.arange(1, n * pages + 1).reshape(n, pages)}
    tokens = np.arange(n * length, dtype=np.int64) % model.shape.vocabulary
    inputs = ForwardInputs(rows, n, 1, tokens, tables, tuple(range(0, (n + 1) * length, length)))

    def run() -> None:
        forward = Forward(inputs, model, arena, slots, _PAGE_TOKENS, options)
        forward.prologue()
        for layer in range(len(model.shape.pattern)):
            forward.layer(layer)
        forward.epilogue()
        forward.copy_out()

    return seconds(run, max(3, case.repeats // 10), case.device)


def engine_seconds(model: Any, case: Case) -> float:
    """Return what an engine takes for a batch of requests that come at once, on the twin's plans, overlapped."""
    import tsviz.scheduler.compat as twin
    from tsviz.engine.arrivals import Arrivals
    from tsviz.engine.workloads.model import Span, WorkRequest, given_tokens
    from tsviz.executor.clock import MonotonicClock
    from tsviz.executor.cuda import cuda_streams, decode_graphs
    from tsviz.executor.engine import Engine, EngineOptions
    from tsviz.executor.options import DeviceOptions
    from tsviz.executor.sizing import PoolOptions, size_pool

    tokens, gpu = case.new_prompt + case.new_tokens, case.device == "cuda"
    pool = PoolOptions(
        prefix_granularity=_PAGE_TOKENS, max_scheduled_tokens=case.batch * case.new_prompt, max_batch_size=case.batch,
        overlap_schedule_depth=1,
    )  # fmt: skip
    parents = case.batch * (tokens // _PAGE_TOKENS + 3)
    sized = size_pool(model.shape, pool, parents=parents, host_parents=0, element_bytes=case.dtype.itemsize)
    says = (Span(0, 0, case.new_tokens),)
    requests = [
        WorkRequest(f"r{i}", (given_tokens(range(i, i + case.new_prompt)),), says, case.new_tokens, arrival_ns=0)
        for i in range(case.batch)
    ]
    clock = MonotonicClock()
    engine = Engine(
        twin, model, sized, Arrivals(requests), clock, EngineOptions(DeviceOptions(poison=False, tracked=False)),
        streams=cuda_streams(clock.now_ns) if gpu else None, graphs=decode_graphs() if gpu else None,
    )  # fmt: skip
    began = time.perf_counter()
    engine.run()
    return time.perf_counter() - began


def seconds(work: Callable[[], object], repeats: int, device: str) -> float:
    """Return the seconds of one run, of so many behind each other; three runs before do not count."""
    for _ in range(3):
        work()
    wait(device)
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    wait(device)
    return (time.perf_counter() - began) / repeats


def wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
