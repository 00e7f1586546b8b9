"""Models by name: the seeded ones, SmolLM2, and checkpoints on disk."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import torch

from tsviz.executor.identity import weights_digest
from tsviz.executor.model import Model
from tsviz.executor.shape import LARGER, PRESETS, BadModel
from tsviz.executor.weights import DTYPES, seeded_weights

SMOLLM2 = "smollm2"


class Tokenizer(Protocol):
    """Text to tokens and back."""

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt."""

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens."""


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that can run; `tokenizer` is None for a seeded one. `told` goes into a trace's metadata.

    `weights` is the digest of what it holds (`identity`), "" until it is known.
    """

    model: Model
    tokenizer: Tokenizer | None = None
    stop_tokens: frozenset[int] = frozenset()
    told: dict[str, str | int] = field(default_factory=dict)
    weights: str = ""


def use_threads(threads: int) -> None:
    """Let the CPU kernels use so many threads; both sides of a comparison must use as many."""
    torch.set_num_threads(threads)


def names() -> tuple[str, ...]:
    """Return the names that are known; anything else is a path."""
    return (*PRESETS, *LARGER, SMOLLM2)


def load_draft(name: str, target: Model, *, seed: int, dtype: str, fast: bool, device: str = "cpu") -> LoadedModel:
    """Return a draft model: `first:N` is the target's first N layers, else a model by name. Raises BadModel."""
    from tsviz.executor.drafting import first_layers

    kind, colon, layers = name.partition(":")
    if kind != "first" or not colon:
        return load_model(name, seed=seed, dtype=dtype, fast=fast, device=device, what="draft: expected first:N,")
    if not (layers.isascii() and layers.isdecimal()):
        raise BadModel(f"draft: expected first:N with a number of the model's layers, found {name!r}")
    draft = first_layers(target, int(layers[:6]))
    return LoadedModel(draft, weights=weights_digest(draft.weights))


def load_model(
    name: str, *, seed: int, dtype: str, fast: bool, device: str = "cpu", what: str = "model: expected"
) -> LoadedModel:
    """Return a model by name, or from a folder (safetensors) or file (GGUF).

    Raises BadModel, saying what is wrong; `what` begins the words of one that is not there.
    """
    from tsviz.executor.fast import fast_model

    number = DTYPES[dtype]
    if (shape := (PRESETS | LARGER).get(name)) is not None:
        loaded = LoadedModel(Model(shape, seeded_weights(shape, seed, number)), told={"seed": seed})
    elif name == SMOLLM2:
        from tsviz.executor.smollm2 import load_smollm2

        loaded = load_smollm2(number)
    elif Path(name).exists():
        from tsviz.executor.checkpoint import load_checkpoint

        loaded = load_checkpoint(Path(name), number)
    else:
        raise BadModel(f"{what} one of {', '.join(names())}, or a path that is there; found {name!r}")
    weights = weights_digest(loaded.model.weights)
    model = loaded.model if device == "cpu" else replace(loaded.model, weights=loaded.model.weights.to(device))
    return replace(loaded, model=fast_model(model) if fast else model, weights=weights)
