"""`fast` mode: the library's own kernels, whose bits may depend on who else is in the batch (`executor-rules.md` 8)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from tsviz.executor.fused import fuse
from tsviz.executor.model import Model


def fast_model(model: Model) -> Model:
    """Return the model with plain matrix products, without padding to tiles, fused layers and SDPA over its pages."""
    weights, fused = fuse(model.shape, model.weights)
    return replace(model, weights=weights, linear=functional.linear, fast=True, fused=fused)


def paged_attention(
    q: Tensor, keys: Tensor, values: Tensor, table: Tensor, low: Tensor, high: Tensor, offsets: Sequence[int],
    num_extends: int, width: int,
) -> Tensor:  # fmt: skip
    """Attend flat rows `[rows, heads, head_dim]` over pages: extends one by one, all decodes in one call.

    `keys` and `values` are `[blocks, g, kv_heads, head_dim]`, `table` `[batch rows, columns]`; a flat row sees
    positions `low .. high`.
    """
    out = torch.empty_like(q)
    for i in range(num_extends):
        part = slice(offsets[i], offsets[i + 1])
        out[part] = _attend(q[None, part], keys, values, table[i : i + 1], low[None, part], high[None, part])[0]
    if num_extends < table.shape[0]:
        part = slice(offsets[num_extends], None)
        decodes = table.shape[0] - num_extends
        seen = (t[part].view(decodes, width) for t in (low, high))
        rows = q[part].view(decodes, width, *q.shape[1:])
        out[part] = _attend(rows, keys, values, table[num_extends:], *seen).reshape(-1, *q.shape[1:])
    return out


def _attend(q: Tensor, keys: Tensor, values: Tensor, table: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Attend `[batch, rows, heads, head_dim]` over the batch rows' pages."""
    pages = table.clamp_min(0)
    k, v = (t[pages].flatten(1, 2) for t in (keys, values))
    at = torch.arange(k.shape[1], device=q.device)
    seen = (at >= low[..., None]) & (at <= high[..., None])
    hidden = ~seen.any(1)[..., None, None]
    k, v = (t.masked_fill(hidden, 0.0).transpose(1, 2) for t in (k, v))
    out = functional.scaled_dot_product_attention(
        q.transpose(1, 2), k, v, attn_mask=seen[:, None], enable_gqa=q.shape[2] != k.shape[1]
    )
    return out.transpose(1, 2)
