"""E3: the executor's `fast` mode on a GPU against what the device can move and multiply; on a CPU a tiny shape runs.

Decode: a step of 64 rows against the time in which the bytes it must read could be copied. Prefill: its products a
second against those of one large matrix product. SmolLM2's shape: how many kernels a step launches, and the cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .e3_steps import (
    LARGE,
    SMOLLM2,
    Case,
    decode_seconds,
    decode_step,
    engine_seconds,
    prefill_seconds,
    random_model,
    seconds,
    wait,
)  # fmt: skip
from .measure import Line


def figures() -> Iterator[Line]:
    """Yield the figures of the GPU, or without one those of a tiny shape, which have no budget."""
    try:
        import torch
    except ImportError:
        yield Line("E3", "torch is not installed", float("nan"), "")
        return
    if torch.cuda.is_available():
        case = Case("cuda", torch.bfloat16, LARGE, 64, 256, 2, 2048, 8192, 4 << 30, 50, 128, 128)
        yield from _figures(case, torch.cuda.get_device_name(), 2.0, 0.5)
        yield from _launches("cuda", torch.bfloat16, SMOLLM2, 64)
    else:
        torch.set_num_threads(1)
        tiny = {"pattern": "FF", "hidden": 64, "heads": 4, "kv_heads": 2, "head_dim": 16, "intermediate": 128}
        case = Case("cpu", torch.float32, tiny, 64, 32, 2, 64, 256, 1 << 24, 3, 8, 4)
        yield from _figures(case, "tiny, on a CPU: shows that it runs", None, None)
        yield from _launches("cpu", torch.float32, tiny, 3)


def _figures(case: Case, where: str, decode_budget: float | None, prefill_budget: float | None) -> Iterator[Line]:
    model = random_model(case.shape, case.dtype, case.device)
    weights = sum(t.numel() for layer in model.weights.layers for t in layer.values() if t.dim() == 2)
    head = model.weights.head.numel()
    size = case.dtype.itemsize
    bandwidth = _bandwidth(case)
    yield Line("E3", "bytes copied a second, both ways counted", bandwidth / 1e9, "GB/s", note=where)
    shape = model.shape
    kept = 2 * shape.kv_heads * shape.head_dim * len(shape.pattern) * size
    moved = (weights + head) * size + case.batch * (case.context + 1) * kept
    step = decode_seconds(model, case)
    floor = moved / bandwidth
    note = f"{step * 1e3:.3f} ms a step, floor {floor * 1e3:.3f} ms, {case.batch / step:,.0f} tokens/s"
    yield Line(
        "E3", f"decode, {case.batch} rows of {case.context} tokens", step / floor, "x bytes floor", decode_budget,
        note=f"{(weights + head) / 1e9:.2f}e9 parameters; {note}",
    )  # fmt: skip
    ceiling = _matmul_flops(case)
    yield Line("E3", f"matrix product of {case.side}", ceiling / 1e12, "Tflop/s", note=where)
    took = prefill_seconds(model, case)
    tokens = case.prompts * case.prompt_tokens
    attended = 2 * shape.heads * shape.head_dim * len(shape.pattern) * case.prompts * case.prompt_tokens**2
    flops = 2 * weights * tokens + attended + 2 * head * case.prompts
    yield Line(
        "E3", f"prefill, {case.prompts} prompts of {case.prompt_tokens}", flops / took / ceiling, "of the product",
        prefill_budget, True, f"{tokens / took:,.0f} tokens/s, {flops / took / 1e12:.2f} Tflop/s",
    )  # fmt: skip
    took = engine_seconds(model, case)
    says = case.batch * case.new_tokens
    yield Line(
        "E3", f"an engine, {case.batch} requests of {case.new_prompt} tokens", says / took, "tokens/s",
        note=f"{case.new_tokens} tokens each, prompts and scheduler included; {where}",
    )  # fmt: skip


def _launches(device: str, dtype: Any, sizes: dict[str, Any], repeats: int) -> Iterator[Line]:
    """Yield how many kernels a decode of one row launches, and its time beside that of as many empty launches."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    model = random_model(sizes, dtype, device)
    kind = ProfilerActivity.CUDA if device == "cuda" else ProfilerActivity.CPU
    one = Case(device, dtype, sizes, 1, 32, 1, 32, 64, 1 << 20, repeats, 0, 0)
    run = decode_step(model, one, graphs=False)
    run()
    with profile(activities=[kind]) as profiled:
        run()
        wait(device)
    kernels = sum(
        event.count for event in profiled.key_averages() if device == "cuda" or event.key.startswith("aten::")
    )
    word = torch.zeros(1, device=device)

    def launch() -> None:
        for _ in range(kernels):
            word.add_(1.0)

    floor, eager = seconds(launch, repeats, device), seconds(run, repeats, device)
    replayed = decode_seconds(model, one) if device == "cuda" else float("nan")
    what = "kernels" if device == "cuda" else "operators"
    yield Line(
        "E3", f"a decode of {len(model.shape.pattern)} layers, batch 1", float(kernels), f"{what} a step",
        note=f"launched one by one {eager * 1e3:.3f} ms, as graphs {replayed * 1e3:.3f} ms, as many empty launches"
        f" {floor * 1e3:.3f} ms",
    )  # fmt: skip


def _bandwidth(case: Case) -> float:
    import torch

    source = torch.zeros(case.copied, dtype=torch.uint8, device=case.device)
    target = torch.empty_like(source)
    return 2 * case.copied / seconds(lambda: target.copy_(source), 10, case.device)


def _matmul_flops(case: Case) -> float:
    import torch

    a, b = (torch.ones(case.side, case.side, dtype=case.dtype, device=case.device) for _ in range(2))
    out = torch.empty_like(a)
    return 2.0 * case.side**3 / seconds(lambda: torch.mm(a, b, out=out), 10, case.device)
