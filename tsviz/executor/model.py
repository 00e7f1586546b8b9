"""The decoder, a layer at a time over flat rows; what a layer remembers is somebody else's (`executor-rules.md` 8).

A block is RMSNorm, mixer, residual, RMSNorm, SwiGLU, residual. The mixer asks a `Memory` for everything that came
before: paged in the executor, dense in the reference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor

from tsviz.executor import fused, numerics
from tsviz.executor.mixer import Memory
from tsviz.executor.shape import ModelShape
from tsviz.executor.weights import Weights


@dataclass(frozen=True, slots=True)
class Model:
    """A shape with its weights. In `fast` mode it has `fused` layers, and attention is SDPA."""

    shape: ModelShape
    weights: Weights
    fused: fused.Fused | None = None

    @property
    def fast(self) -> bool:
        """Whether its bits may depend on who else is in the batch."""
        return self.fused is not None

    def pad(self, x: Tensor) -> Tensor:
        """Return rows padded to whole tiles; as they are in `fast` mode."""
        return x if self.fast else numerics.pad(x)

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the rows of tokens, `[rows, hidden]`."""
        return self.weights.embed[tokens]

    def angles(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `rotate` needs for rows at these positions."""
        frequencies = _frequencies_on(self.shape, positions.device)
        cos, sin = numerics.angles(positions, frequencies, self.weights.embed.dtype)
        return fused.angles(cos, sin) if self.fast else (cos, sin)

    def layer(self, layer: int, x: Tensor, cos: Tensor, sin: Tensor, memory: Memory) -> Tensor:
        """Run one layer over padded rows."""
        shape, w, linear = self.shape, self.weights.layers[layer], numerics.linear
        if self.fused is not None:
            return self.fused.layer(shape, layer, x, cos, sin, memory)
        rows = numerics.rms_norm(x, w["norm_1"], shape.eps)
        if shape.pattern[layer] == "M":
            mixed = rows + w["mix"] * (memory.previous(layer, rows) - rows)
            q, k, v = (_split(linear(mixed, w[name]), shape.heads) for name in "qkv")
            decay = numerics.gate(linear(mixed, w["decay"]))
            y = memory.scan(layer, q, k, v, decay, rows)
        else:
            q = numerics.rotate(_split(linear(rows, w["q"]), shape.heads), cos, sin)
            k = numerics.rotate(_split(linear(rows, w["k"]), shape.kv_heads), cos, sin)
            y = memory.attend(layer, q, k, _split(linear(rows, w["v"]), shape.kv_heads))
        x = x + linear(y.reshape(x.shape[0], -1), w["o"])
        rows = numerics.rms_norm(x, w["norm_2"], shape.eps)
        gated = linear(rows, w["gate"])
        return x + linear(gated * numerics.gate(gated) * linear(rows, w["up"]), w["down"])

    def logits(self, x: Tensor) -> Tensor:
        """Return `[rows, vocabulary]` of hidden rows, padded inside."""
        if self.fused is not None:
            return self.fused.logits(x, self.weights.head)
        rows = numerics.rms_norm(self.pad(x), self.weights.norm, self.shape.eps)
        return numerics.linear(rows, self.weights.head)[: x.shape[0]]


def step_state(state: Tensor, q: Tensor, k: Tensor, v: Tensor, decay: Tensor) -> tuple[Tensor, Tensor]:
    """Return the state `[heads, dim, dim]` after one token, and the token's output `[heads, dim]`."""
    state = decay[:, None, None] * state + k[:, :, None] * v[:, None, :]
    return state, (q[:, :, None] * state).sum(1)


def scan_states(
    state: Tensor, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, keep: Sequence[int]
) -> tuple[Tensor, list[Tensor]]:
    """Run the recurrence over one request's rows; return all outputs and the states after each of `keep` rows."""
    out, kept = torch.empty_like(q), []
    for t in range(q.shape[0]):
        state, out[t] = step_state(state, q[t], k[t], v[t], decay[t])
        if t + 1 in keep:
            kept.append(state)
    return out, kept


@cache
def _frequencies_on(shape: ModelShape, device: torch.device) -> Tensor:
    """Return the same on a device: copied there once, since that copy makes the host wait."""
    return rope_frequencies(shape).to(device)


def rope_frequencies(shape: ModelShape) -> Tensor:
    """Return the angle a position adds, `[head_dim/2]` in float64; with llama3 scaling where the shape has factors."""
    exponents = torch.arange(0, shape.head_dim, 2, dtype=torch.float64) / shape.head_dim
    frequencies = 1.0 / shape.rope_theta**exponents
    if shape.rope_factor is None:
        return frequencies
    factor, low, high, original = shape.rope_factor
    lengths = 2 * math.pi / frequencies
    smooth = (original / lengths - low) / (high - low)
    blended = (1 - smooth) * frequencies / factor + smooth * frequencies
    scaled = torch.where(lengths > original / low, frequencies / factor, frequencies)
    between = (lengths <= original / low) & (lengths >= original / high)
    return torch.where(between, blended, scaled)


def _split(x: Tensor, heads: int) -> Tensor:
    return x.view(x.shape[0], heads, -1)
