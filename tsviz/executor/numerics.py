"""Arithmetic whose bits do not depend on who else is in the batch (`executor-rules.md` section 8, *Numerics*).

Three rules: matrix products run on fixed tiles of `ROW_TILE` rows; attention is an online softmax over tiles of
`KEY_TILE` keys that are aligned to absolute positions; gates are written out as 1/(1+exp(-x)). A tile that a row may
not see at all changes nothing, so how many tiles are visited is a matter of speed only.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

ROW_TILE = 16
KEY_TILE = 32
_LOWEST = -1e30
"""Where a running maximum starts: finite, so that a tile without visible keys leaves exp(0) = 1 behind."""

KeyReader = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
"""Keys and values, `[rows, KEY_TILE, kv_heads, head_dim]` each, of rows at positions of the same shape less the last
two: given the index of each row `[rows]` and key positions `[KEY_TILE]`."""


class Visible(NamedTuple):
    """What each row sees: keys at positions `low .. high`, both included, `[rows]` each."""

    low: Tensor
    high: Tensor


def padded_rows(rows: int) -> int:
    """Return the number of rows once padded to whole tiles."""
    return -(-rows // ROW_TILE) * ROW_TILE


def pad(x: Tensor) -> Tensor:
    """Return `x` with zero rows behind it up to whole tiles."""
    missing = padded_rows(x.shape[0]) - x.shape[0]
    return x if not missing else torch.cat([x, x.new_zeros((missing, *x.shape[1:]))])


def linear(x: Tensor, weight: Tensor) -> Tensor:
    """Return `x @ weight.T` for padded rows `[n * ROW_TILE, in]`, a tile at a time; weight is `[out, in]`."""
    out = x.new_empty((x.shape[0], weight.shape[0]))
    transposed = weight.t()
    for begin in range(0, x.shape[0], ROW_TILE):
        torch.mm(x[begin : begin + ROW_TILE], transposed, out=out[begin : begin + ROW_TILE])
    return out


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """Return each row over its root mean square, times the weight."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * weight


def gate(x: Tensor) -> Tensor:
    """Return 1/(1+exp(-x)); not `sigmoid`, whose bits differ between the body and the tail of a vector loop."""
    return 1.0 / (1.0 + torch.exp(-x))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate `[rows, heads, head_dim]` by the angles of its rows `[rows, head_dim/2]`, half-split pairing."""
    half = x.shape[-1] // 2
    a, b = x[..., :half], x[..., half:]
    cos, sin = cos[:, None, :], sin[:, None, :]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


def angles(positions: Tensor, frequencies: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cosines and sines `[rows, head_dim/2]` of positions, worked out in float64."""
    product = positions.to(torch.float64)[:, None] * frequencies[None, :]
    return product.cos().to(dtype), product.sin().to(dtype)


def attention(q: Tensor, read: KeyReader, visible: Visible, first_tile: list[int], last_tile: list[int]) -> Tensor:
    """Return attention of padded rows `[n * ROW_TILE, heads, head_dim]`, each over its own keys.

    `first_tile[i] .. last_tile[i]` (last excluded) are the key tiles that may be visible to any row of row tile i.
    """
    rows, heads, dim = q.shape
    out = q.new_empty(q.shape)
    scale = 1.0 / math.sqrt(dim)
    for tile in range(rows // ROW_TILE):
        part = slice(tile * ROW_TILE, (tile + 1) * ROW_TILE)
        index = torch.arange(part.start, part.stop, device=q.device)
        low, high = visible.low[part, None], visible.high[part, None]
        grouped: Tensor | None = None
        top = q.new_full((ROW_TILE, heads, 1), _LOWEST)
        total = q.new_zeros((ROW_TILE, heads, 1))
        acc = q.new_zeros((ROW_TILE, heads, dim))
        for key_tile in range(first_tile[tile], last_tile[tile]):
            at = torch.arange(key_tile * KEY_TILE, (key_tile + 1) * KEY_TILE, device=q.device)
            seen = (at >= low) & (at <= high)
            k, v = read(index, at)
            kv_heads = k.shape[2]
            hidden = ~seen[:, :, None, None]
            k, v = k.masked_fill(hidden, 0.0), v.masked_fill(hidden, 0.0)
            if grouped is None:
                grouped = (q[part] * scale).view(ROW_TILE, 1, kv_heads, heads // kv_heads, dim)
            scores = (grouped * k[:, :, :, None, :]).sum(-1).reshape(ROW_TILE, KEY_TILE, heads)
            scores = scores.masked_fill(~seen[:, :, None], -math.inf).transpose(1, 2).contiguous()
            new_top = torch.maximum(top, scores.amax(-1, keepdim=True))
            p = torch.exp(scores - new_top)
            decay = torch.exp(top - new_top)
            total = total * decay + p.sum(-1, keepdim=True)
            values = v.repeat_interleave(heads // kv_heads, dim=2).transpose(1, 2)
            acc = acc * decay + (p[..., None] * values).sum(2)
            top = new_top
        out[part] = acc / total.clamp_min(1e-30)
    return out


class Best(NamedTuple):
    """The best token of each row, how far its logit is above the next one, and whether one was not a number."""

    token: Tensor
    margin: Tensor
    broken: Tensor


def best_of(logits: Tensor) -> Best:
    """Return what `[..., vocabulary]` logits say; the lowest of equal ones, the last token where one is NaN."""
    width = logits.shape[-1]
    order = torch.arange(width, device=logits.device, dtype=torch.int32)
    top = logits.amax(-1, keepdim=True)
    token = torch.where(logits == top, order, width).amin(-1, keepdim=True).clamp_max(width - 1).long()
    second = logits.scatter(-1, token, -math.inf).amax(-1)
    return Best(token[..., 0], top[..., 0] - second, torch.isnan(top[..., 0]))
