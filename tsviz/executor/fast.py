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
    """Return the model with fused layers, without padding to tiles, and SDPA over its pages."""
    weights, fused = fuse(model.shape, model.weights)
    return replace(model, weights=weights, fused=fused)


def paged_attention(
    q: Tensor, keys: Tensor, values: Tensor, table: Tensor, low: Tensor, high: Tensor, offsets: Sequence[int],
    whole: Sequence[bool], width: int,
) -> Tensor:  # fmt: skip
    """Attend flat rows `[rows, heads, head_dim]` over pages: extends one by one, all decodes in one call.

    `keys` and `values` are `[blocks, g, kv_heads, head_dim]`, `table` `[batch rows, columns]`; a flat row sees
    positions `low .. high`. `whole` says of each extend whether every row of it sees all that is before it, from the
    prompt's first token on: that takes no mask, and a library's fastest kernel.
    """
    out, num_extends = torch.empty_like(q), len(whole)
    for i in range(num_extends):
        part = slice(offsets[i], offsets[i + 1])
        if whole[i]:
            out[part] = _attend_whole(q[part], keys, values, table[i])
            continue
        out[part] = _attend(q[None, part], keys, values, table[i : i + 1], low[None, part], high[None, part])[0]
    if num_extends < table.shape[0]:
        part = slice(offsets[num_extends], None)
        decodes = table.shape[0] - num_extends
        seen = (t[part].view(decodes, width) for t in (low, high))
        rows = q[part].view(decodes, width, *q.shape[1:])
        out[part] = _attend(rows, keys, values, table[num_extends:], *seen).reshape(-1, *q.shape[1:])
    return out


def _attend_whole(q: Tensor, keys: Tensor, values: Tensor, pages: Tensor) -> Tensor:
    """Attend `[rows, heads, head_dim]` over as many positions of the pages, each row over itself and those before."""
    rows, used = q.shape[0], pages[: -(-q.shape[0] // keys.shape[1])].clamp_min(0)
    k, v = (t.index_select(0, used).flatten(0, 1)[:rows].transpose(0, 1)[None] for t in (keys, values))
    grouped = q.shape[1] != k.shape[1]
    out = functional.scaled_dot_product_attention(q.transpose(0, 1)[None], k, v, is_causal=True, enable_gqa=grouped)
    return out[0].transpose(0, 1)


def _attend(q: Tensor, keys: Tensor, values: Tensor, table: Tensor, low: Tensor, high: Tensor) -> Tensor:
    """Attend `[batch, rows, heads, head_dim]` over the batch rows' pages."""
    pages = table.clamp_min(0)
    k, v = (t[pages].flatten(1, 2) for t in (keys, values))
    at = torch.arange(k.shape[1], device=q.device)
    seen = (at >= low[..., None]) & (at <= high[..., None])
    hidden = ~seen.any(1)[..., None, None]
    k, v = (t.masked_fill(hidden, 0.0).transpose(1, 2) for t in (k, v))
    grouped = q.shape[2] != k.shape[1]
    if grouped and q.is_cuda:  # with a mask, only what knows no groups is fused there
        k, v = (t.repeat_interleave(q.shape[2] // t.shape[1], 1) for t in (k, v))
    out = functional.scaled_dot_product_attention(
        q.transpose(1, 2), k, v, attn_mask=seen[:, None], enable_gqa=grouped and not q.is_cuda
    )
    return out.transpose(1, 2)
