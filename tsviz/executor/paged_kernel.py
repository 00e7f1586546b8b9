"""Attention of decodes over pages where they lie, a Triton kernel for GPUs: nothing is copied first.

It needs the package `triton`, which comes with torch for CUDA; `kernel_for` says whether it is used. What the programs
of `paged_triton` make of the parts of a request is put together here.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib import import_module

import torch
from torch import Tensor

PagedAttention = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, int], Tensor]
_KEYS = 64
"""Keys a program looks at in one go."""
_PROGRAMS = 512
"""A request's positions are cut into parts where there are fewer programs than this."""


def kernel_for(tensor: Tensor) -> PagedAttention | None:
    """Return what attends over pages of such tensors; None where they are copied: on a CPU, or without `triton`."""
    usable = tensor.device.type == "cuda" and importlib.util.find_spec("triton") is not None
    return attend_pages if usable else None


def attend_pages(q: Tensor, keys: Tensor, values: Tensor, table: Tensor, begins: Tensor, window: int) -> Tensor:
    """Attend `[rows * width, heads, head_dim]`, the positions `begins .. begins + width - 1` of each row.

    `keys` and `values` are `[blocks, g, kv_heads, head_dim]` in blocks that may lie apart, `table` `[rows, columns]`; a
    position sees itself and at most `window - 1` before it. All that is launched depends on shapes alone.
    """
    (rows, columns), (_, g, kv, dim) = table.shape, keys.shape
    width, heads = len(q) // rows, q.shape[1]
    positions = columns * g
    parts = max(1, min(-(-positions // (2 * _KEYS)), _PROGRAMS // (rows * kv)))
    part = -(-positions // (parts * _KEYS)) * _KEYS
    sums = torch.float64 if q.dtype == torch.float64 else torch.float32
    group = heads // kv
    least = max(16, 1 << (group * width - 1).bit_length())
    out = torch.empty((parts, rows * width, heads, dim), dtype=sums, device=q.device)
    tops, totals = torch.empty((2, parts, rows * width, heads), dtype=sums, device=q.device).unbind()
    kernel = import_module("tsviz.executor.paged_triton").attend_part
    kernel[rows, kv, parts](
        q, keys, values, table, begins, out, tops, totals, q.stride(0), keys.stride(0), columns,
        rows * width, part, WIDTH=width, GROUP=group, KV=kv, DIM=dim, G=g, WINDOW=min(window, 1 << 30), QUERIES=least,
        KEYS=_KEYS, DIMS=max(16, 1 << (dim - 1).bit_length()), DOUBLE=sums == torch.float64,
    )  # fmt: skip
    if parts == 1:
        return (out[0] / totals[0, :, :, None]).to(q.dtype)
    weights = torch.exp(tops - tops.amax(0))
    return ((out * weights[..., None]).sum(0) / (totals * weights).sum(0)[..., None]).to(q.dtype)
