"""E3: the executor's `fast` mode on a GPU against what the device can move and multiply; on a CPU a tiny shape runs.

Decode: a step of 64 rows against the time in which the bytes it must read could be copied. Prefill: its products a
second against those of one large matrix product. SmolLM2's shape: how many kernels a step launches, and the cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .measure import Line

SMOLLM2 = {
    "pattern": "F" * 30, "hidden": 576, "heads": 9, "kv_heads": 3, "head_dim": 64, "intermediate": 1536,
    "vocabulary": 49152, "rope_theta": 100_000.0,
}  # fmt: skip
_LARGE = {
    "pattern": "F" * 28, "hidden": 3072, "heads": 24, "kv_heads": 8, "head_dim": 128, "intermediate": 8192,
    "vocabulary": 128_256, "rope_theta": 500_000.0, "max_positions": 131_072,
}  # fmt: skip
"""A Llama of 3.2 billion parameters."""
_PAGE_TOKENS = 16


@dataclass(frozen=True)
class _Case:
    """What is run where; `flops` is the side of the matrix product that is the ceiling, `copied` its copy in bytes."""

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


def figures() -> Iterator[Line]:
    """Yield the figures of the GPU, or without one those of a tiny shape, which have no budget."""
    try:
        import torch
    except ImportError:
        yield Line("E3", "torch is not installed", float("nan"), "")
        return
    if torch.cuda.is_available():
        case = _Case("cuda", torch.bfloat16, _LARGE, 64, 256, 2, 2048, 8192, 4 << 30, 50)
        yield from _figures(case, torch.cuda.get_device_name(), 2.0, 0.5)
        yield from _launches("cuda", torch.bfloat16, SMOLLM2, 64)
    else:
        torch.set_num_threads(1)
        tiny = {"pattern": "FF", "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 128}
        case = _Case("cpu", torch.float32, tiny, 64, 32, 2, 64, 256, 1 << 24, 3)
        yield from _figures(case, "tiny, on a CPU: shows that it runs", None, None)
        yield from _launches("cpu", torch.float32, tiny, 3)


def _figures(case: _Case, where: str, decode_budget: float | None, prefill_budget: float | None) -> Iterator[Line]:
    import torch

    model = random_model(case.shape, case.dtype, case.device)
    weights = sum(t.numel() for layer in model.weights.layers for t in layer.values() if t.dim() == 2)
    head = model.weights.head.numel()
    size = case.dtype.itemsize
    bandwidth = _bandwidth(case)
    yield Line("E3", "bytes copied a second, both ways counted", bandwidth / 1e9, "GB/s", note=where)
    shape = model.shape
    kept = 2 * shape.kv_heads * shape.head_dim * len(shape.pattern) * size
    moved = (weights + head) * size + case.batch * (case.context + 1) * kept
    step = _decode_seconds(model, case)
    floor = moved / bandwidth
    note = f"{step * 1e3:.3f} ms a step, floor {floor * 1e3:.3f} ms, {case.batch / step:,.0f} tokens/s"
    yield Line(
        "E3", f"decode, {case.batch} rows of {case.context} tokens", step / floor, "x bytes floor", decode_budget,
        note=f"{(weights + head) / 1e9:.2f}e9 parameters; {note}",
    )  # fmt: skip
    ceiling = _matmul_flops(case)
    yield Line("E3", f"matrix product of {case.side}", ceiling / 1e12, "Tflop/s", note=where)
    seconds = _prefill_seconds(model, case)
    tokens = case.prompts * case.prompt_tokens
    attended = 2 * shape.heads * shape.head_dim * len(shape.pattern) * case.prompts * case.prompt_tokens**2
    flops = 2 * weights * tokens + attended + 2 * head * case.prompts
    yield Line(
        "E3", f"prefill, {case.prompts} prompts of {case.prompt_tokens}", flops / seconds / ceiling, "of the product",
        prefill_budget, True, f"{tokens / seconds:,.0f} tokens/s, {flops / seconds / 1e12:.2f} Tflop/s",
    )  # fmt: skip
    torch.cuda.empty_cache()


def _launches(device: str, dtype: Any, sizes: dict[str, Any], repeats: int) -> Iterator[Line]:
    """Yield how many kernels a decode of one row launches, and its time beside that of as many empty launches."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    model = random_model(sizes, dtype, device)
    kind = ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU
    one = _Case(device, dtype, sizes, 1, 32, 1, 32, 64, 1 << 20, repeats)
    run = _decode_step(model, one, graphs=False)
    run()
    with profile(activities=[kind]) as profiled:
        run()
        _wait(device)
    kernels = sum(
        event.count for event in profiled.key_averages() if device == "cuda" or event.key.startswith("aten::")
    )
    word = torch.zeros(1, device=device)

    def launch() -> None:
        for _ in range(kernels):
            word.add_(1.0)

    floor, eager = _seconds(launch, repeats, device), _seconds(run, repeats, device)
    replayed = _decode_seconds(model, one) if device == "cuda" else float("nan")
    what = "kernels" if device == "cuda" else "operators"
    yield Line(
        "E3", f"a decode of {len(model.shape.pattern)} layers, batch 1", float(kernels), f"{what} a step",
        note=f"launched one by one {eager * 1e3:.3f} ms, as graphs {replayed * 1e3:.3f} ms, as many empty launches"
        f" {floor * 1e3:.3f} ms",
    )  # fmt: skip


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


def _pools(model: Any, case: _Case, rows: int, tokens: int) -> tuple[Any, Any, Any, int]:
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


def _decode_step(model: Any, case: _Case, *, graphs: bool) -> Callable[[], None]:
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


def _decode_seconds(model: Any, case: _Case) -> float:
    import torch

    run = _decode_step(model, case, graphs=case.device == "cuda")
    if case.device == "cpu":
        return _seconds(run, case.repeats, case.device)
    with torch.cuda.stream(torch.cuda.Stream()):  # a graph is captured on a stream that is not the default one
        return _seconds(run, case.repeats, case.device)


def _prefill_seconds(model: Any, case: _Case) -> float:
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

    return _seconds(run, max(3, case.repeats // 10), case.device)


def _bandwidth(case: _Case) -> float:
    import torch

    source = torch.zeros(case.copied, dtype=torch.uint8, device=case.device)
    target = torch.empty_like(source)
    return 2 * case.copied / _seconds(lambda: target.copy_(source), 10, case.device)


def _matmul_flops(case: _Case) -> float:
    import torch

    a, b = (torch.ones(case.side, case.side, dtype=case.dtype, device=case.device) for _ in range(2))
    out = torch.empty_like(a)
    return 2.0 * case.side**3 / _seconds(lambda: torch.mm(a, b, out=out), 10, case.device)


def _seconds(work: Callable[[], object], repeats: int, device: str) -> float:
    """Return the seconds of one run, of so many behind each other; three runs before do not count."""
    for _ in range(3):
        work()
    _wait(device)
    began = time.perf_counter()
    for _ in range(repeats):
        work()
    _wait(device)
    return (time.perf_counter() - began) / repeats


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()
