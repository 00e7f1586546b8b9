"""Weights of a model: seeded ones here, those of checkpoints in `checkpoint` (`executor-rules.md` section 8)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tsviz.executor.shape import ModelShape

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16}
"""Number formats by the name that options use."""


@dataclass(frozen=True, slots=True)
class Weights:
    """`embed` and `head` are `[vocabulary, hidden]` (the same tensor when tied); matrices are `[out, in]`.

    A layer has `norm_1`, `norm_2`, `q`, `k`, `v`, `o`, `gate`, `up`, `down`; a state layer also `mix` `[hidden]` and
    `decay` `[heads, hidden]`.
    """

    embed: Tensor
    layers: tuple[dict[str, Tensor], ...]
    norm: Tensor
    head: Tensor

    def to(self, device: str) -> Weights:
        """Return them on a device; a tied head stays one tensor."""
        embed = self.embed.to(device)
        head = embed if self.head is self.embed else self.head.to(device)
        layers = tuple({name: tensor.to(device) for name, tensor in layer.items()} for layer in self.layers)
        return Weights(embed, layers, self.norm.to(device), head)


def layer_shapes(shape: ModelShape, layer: int) -> dict[str, tuple[int, ...]]:
    """Return the tensors that a layer needs and their shapes."""
    letter = shape.pattern[layer]
    inner, kv = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    if letter == "M":
        kv = inner
    hidden = shape.hidden
    sizes: dict[str, tuple[int, ...]] = {
        "norm_1": (hidden,), "norm_2": (hidden,), "q": (inner, hidden), "k": (kv, hidden), "v": (kv, hidden),
        "o": (hidden, inner), "gate": (shape.intermediate, hidden), "up": (shape.intermediate, hidden),
        "down": (hidden, shape.intermediate),
    }  # fmt: skip
    if letter == "M":
        sizes |= {"mix": (hidden,), "decay": (shape.heads, hidden)}
    return sizes


def seeded_weights(shape: ModelShape, seed: int, dtype: torch.dtype = torch.float32, device: str = "cpu") -> Weights:
    """Draw weights on the CPU in float64 and cast: the same numbers on every machine."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*sizes: int, scale: float) -> Tensor:
        drawn = torch.randn(sizes, generator=generator, dtype=torch.float64) * scale
        return drawn.to(dtype).to(device)

    embed = draw(shape.vocabulary, shape.hidden, scale=1.0)
    layers = []
    for layer in range(len(shape.pattern)):
        tensors = {}
        for name, sizes in layer_shapes(shape, layer).items():
            if name.startswith("norm"):
                tensors[name] = 1.0 + draw(*sizes, scale=0.1)
            elif name == "mix":
                tensors[name] = (torch.rand(sizes, generator=generator, dtype=torch.float64)).to(dtype).to(device)
            else:
                tensors[name] = draw(*sizes, scale=2.0 / sizes[-1] ** 0.5)
        layers.append(tensors)
    norm = 1.0 + draw(shape.hidden, scale=0.1)
    head = embed if shape.tied else draw(shape.vocabulary, shape.hidden, scale=1.0 / shape.hidden**0.5)
    return Weights(embed, tuple(layers), norm, head)
