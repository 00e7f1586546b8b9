"""The kernel that attends over pages where they lie: in Triton's interpreter, and compiled for GPUs."""

from __future__ import annotations

import math
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")
pytest.importorskip("triton", reason="the kernel is in Triton's language: pip install triton")

import tsviz.scheduler.compat as twin
from tests.executor.rig import Life, live, request
from tsviz.executor import decode_step
from tsviz.executor.paged_kernel import attend_pages, kernel_for
from tsviz.executor.sizing import PoolOptions

torch.set_num_threads(1)
WHOLE = 1 << 30


def dense(q, keys, values, table, begins, window):
    """What the kernel is to say, one position after the other, in float64."""
    width, out = len(q) // len(table), torch.empty(q.shape, dtype=torch.float64)
    for flat, rows in enumerate(q.double()):
        row, step = divmod(flat, width)
        at = int(begins[row]) + step
        low = max(0, at - window + 1)
        k, v = (t[table[row]].flatten(0, 1)[low : at + 1].double() for t in (keys, values))
        k, v = (t.repeat_interleave(q.shape[1] // t.shape[1], 1) for t in (k, v))
        shares = (torch.einsum("hd,nhd->hn", rows, k) / math.sqrt(q.shape[2])).softmax(-1)
        out[flat] = torch.einsum("hn,nhd->hd", shares, v)
    return out


@pytest.mark.parametrize(
    ("dtype", "width", "heads", "kv", "dim", "columns", "window", "bound"),
    [
        (torch.float64, 1, 4, 2, 8, 6, WHOLE, 1e-14),
        (torch.float32, 3, 2, 2, 12, 8, 10, 1e-5),
        (torch.float32, 2, 9, 3, 16, 40, WHOLE, 1e-5),
        (torch.float16, 1, 3, 1, 16, 20, 100, 2e-3),
    ],
    ids=["one head's group", "window", "in parts", "half"],
)
def test_pages_are_attended_over_where_they_lie(dtype, width, heads, kv, dim, columns, window, bound) -> None:
    """Three requests of different lengths, their pages anywhere; what none of them sees is poison, and nobody minds."""
    generator, g, rows = torch.Generator().manual_seed(1), 8, 3
    size = g * kv * dim
    data = torch.randn((rows * columns + 1, 2 * size + 16), generator=generator, dtype=torch.float64).to(dtype)
    keys, values = (data[:, at : at + size].unflatten(1, (g, kv, dim)) for at in (0, size))
    table = (torch.randperm(rows * columns, generator=generator) + 1).view(rows, columns)
    begins = torch.tensor([0, columns * g // 2 - 1, columns * g - width])
    for row, begin in enumerate(begins.tolist()):
        for at in [*range(begin - window + 1), *range(begin + width, columns * g)]:
            keys[table[row, at // g], at % g] = values[table[row, at // g], at % g] = math.nan
    q = torch.randn((rows * width, heads + 2 * kv, dim), generator=generator, dtype=torch.float64).to(dtype)[:, :heads]
    out = attend_pages(q, keys, values, table, begins, window)
    assert out.dtype == dtype
    assert (out.double() - dense(q, keys, values, table, begins, window)).abs().max() < bound


@pytest.mark.parametrize("model", ["tiny-sliding", "tiny-state"])
def test_a_lifetime_with_the_kernel_says_what_the_reference_says(model, monkeypatch) -> None:
    """In float64 every token of two requests, in windows of two and with a draft, is the dense reference's."""
    monkeypatch.setattr(decode_step, "kernel_for", lambda _: attend_pages)
    requests = tuple(request(f"r{i}", (100, 6), (200 + i, 3 + i), says=4) for i in range(2))
    pool = PoolOptions(decode_input_tokens=2, overlap_schedule_depth=1)
    lived = live(Life(requests, model, pool, fast=True, draft_layers=1), twin)
    assert (lived.equality.wrong, lived.races, lived.guard_is_zero) == (0, [], True)


def test_a_cpu_copies_pages() -> None:
    """The kernel is for GPUs alone."""
    assert kernel_for(torch.zeros(1)) is None


_COMPILE = """
import sys, triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from tsviz.executor.paged_triton import attend_part as kernel
known = {
    "WIDTH": 2, "GROUP": 2, "KV": 2, "DIM": 16, "G": 8, "WINDOW": 1 << 30, "QUERIES": 16, "KEYS": 64, "DIMS": 16,
    "DOUBLE": False,
}
names = kernel.arg_names
signature = dict.fromkeys(names, "i32") | dict.fromkeys(known, "constexpr")
signature |= dict.fromkeys(("table", "begins"), "*i64") | dict.fromkeys(("out", "tops", "totals"), "*fp32")
for capability, number in ((80, "bf16"), (90, "fp32")):
    signature |= dict.fromkeys(("q", "keys", "values"), f"*{number}")
    source = ASTSource(kernel, signature, {(names.index(name),): value for name, value in known.items()})
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32))
    print(capability, len(made.asm["cubin"]) > 0, "mma" in made.asm["ptx"])
"""


def test_it_compiles_for_gpus_that_are_not_here(tmp_path) -> None:
    """Down to the machine code of two generations, with products on their tensor units in bfloat16."""
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    made = subprocess.run(
        [sys.executable, "-c", _COMPILE], env=environment, capture_output=True, text=True, check=True, timeout=300
    )
    assert made.stdout.splitlines() == ["80 True True", "90 True False"]
