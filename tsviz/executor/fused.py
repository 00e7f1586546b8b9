"""A layer of `fast` mode: the same block as `model`'s with fewer and larger kernels (`executor-rules.md` section 8).

The matrices that are applied to the same rows are one; the rotation is done in place on queries and keys together. Its
bits are not those of the exact layer.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional

from tsviz.executor.mixer import Memory
from tsviz.executor.shape import ModelShape
from tsviz.executor.weights import Weights


@dataclass(frozen=True, slots=True)
class FusedLayer:
    """`qkv` is `[(heads + 2 * kv_heads) * head_dim, hidden]`, `gate_up` `[2 * intermediate, hidden]`.

    `o` and `down` are transposed views, the norms' weights are scaled for `_norm`. A state layer has `mix` `[hidden]`,
    and `heads` rows more in `qkv`, of its decays; its `kv_heads` are its heads.
    """

    qkv: Tensor
    o: Tensor
    gate_up: Tensor
    down: Tensor
    norm_1: Tensor
    norm_2: Tensor
    mix: Tensor | None


@dataclass(frozen=True, slots=True)
class Fused:
    """The layers that have been fused, and on a CPU the head as `[hidden, vocabulary]`."""

    layers: tuple[FusedLayer, ...]
    norm: Tensor
    head: Tensor | None
    least: Tensor | None
    """What the root of a row's squares is at least, for `_norm`; None where the library has a kernel."""
    eps: float

    def layer(self, shape: ModelShape, layer: int, x: Tensor, cos: Tensor, sin: Tensor, memory: Memory) -> Tensor:
        """Run one layer over rows; angles as `angles` gives them."""
        w = self.layers[layer]
        rows = self._norm(x, w.norm_1)
        if w.mix is not None:
            y = _scanned(shape, layer, w.qkv, rows, torch.lerp(rows, memory.previous(layer, rows), w.mix), memory)
        else:
            y = _attended(shape, layer, w.qkv, rows, cos, sin, memory)
        x = torch.addmm(x, y.reshape(x.shape[0], -1), w.o)
        gate, up = functional.linear(self._norm(x, w.norm_2), w.gate_up).chunk(2, -1)
        return torch.addmm(x, functional.silu(gate).mul_(up), w.down)

    def logits(self, x: Tensor, head: Tensor) -> Tensor:
        """Return `[rows, vocabulary]` of hidden rows; `head` is the model's."""
        rows = self._norm(x, self.norm)
        return functional.linear(rows, head) if self.head is None else rows @ self.head

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        """RMSNorm: x / sqrt(mean(x^2) + eps) * w is x / hypot(|x|, sqrt(n eps)) * w sqrt(n), in fewer kernels."""
        if self.least is None:
            return functional.rms_norm(x, weight.shape, weight, self.eps)
        return x.div(torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self.least)).mul_(weight)


def _attended(
    shape: ModelShape, layer: int, weight: Tensor, rows: Tensor, cos: Tensor, sin: Tensor, memory: Memory
) -> Tensor:
    heads, turned, half = shape.heads, shape.heads + shape.kv_heads, shape.head_dim // 2
    qkv = functional.linear(rows, weight).view(rows.shape[0], -1, shape.head_dim)
    qk = qkv[:, :turned]
    swapped = qk.roll(half, -1)
    qk.mul_(cos).addcmul_(swapped, sin)
    return memory.attend(layer, qkv[:, :heads], qkv[:, heads:turned], qkv[:, turned:])


def _scanned(shape: ModelShape, layer: int, weight: Tensor, rows: Tensor, mixed: Tensor, memory: Memory) -> Tensor:
    heads = shape.heads
    product = functional.linear(mixed, weight)
    q, k, v = product[:, :-heads].view(rows.shape[0], 3, heads, -1).unbind(1)
    return memory.scan(layer, q, k, v, torch.sigmoid(product[:, -heads:]), rows)


def angles(cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor]:
    """Return cosines and sines `[rows, head_dim/2]` as a fused layer wants them, `[rows, 1, head_dim]`, signs in."""
    return torch.cat([cos, cos], -1)[:, None], torch.cat([-sin, sin], -1)[:, None]


def fuse(shape: ModelShape, weights: Weights) -> tuple[Weights, Fused]:
    """Return the weights, now parts of larger matrices, and the layers over those: nothing is held twice.

    But for the head on a CPU, whose products with few rows are several times slower the other way round.
    """
    wide = not weights.embed.is_cuda and weights.embed.dtype != torch.bfloat16
    scale = shape.hidden**0.5 if wide else 1.0
    layers: list[dict[str, Tensor]] = []
    fused: list[FusedLayer] = []
    for letter, given in zip(shape.pattern, weights.layers, strict=True):
        layers.append(layer := dict(given))
        joined = []
        for names in (("q", "k", "v", "decay") if letter == "M" else ("q", "k", "v"), ("gate", "up")):
            joined.append(whole := torch.cat([layer[name] for name in names]))
            layer |= zip(names, whole.split([layer[name].shape[0] for name in names]), strict=True)
        qkv, gate_up = joined
        norm_1, norm_2 = (layer[name] * scale for name in ("norm_1", "norm_2"))
        fused.append(FusedLayer(qkv, layer["o"].t(), gate_up, layer["down"].t(), norm_1, norm_2, layer.get("mix")))
    head = None if weights.head.is_cuda else weights.head.t().contiguous()
    least = weights.norm.new_tensor((shape.hidden * shape.eps) ** 0.5) if wide else None
    return replace(weights, layers=tuple(layers)), Fused(tuple(fused), weights.norm * scale, head, least, shape.eps)
