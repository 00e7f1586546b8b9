"""Llama-architecture checkpoints: a folder of safetensors with its `config.json`, or a GGUF file (section 8).

Everything is looked at before anything runs: what is missing, has another shape than the configuration says, or ends
before its end is told by name.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tsviz.executor.hf_config import read_config, shape_of_config, stop_tokens
from tsviz.executor.model import Model
from tsviz.executor.models import LoadedModel, Tokenizer
from tsviz.executor.shape import BadModel, ModelShape
from tsviz.executor.weights import Weights, layer_shapes

HF_NAMES = {
    "norm_1": "input_layernorm", "norm_2": "post_attention_layernorm", "q": "self_attn.q_proj", "k": "self_attn.k_proj",
    "v": "self_attn.v_proj", "o": "self_attn.o_proj", "gate": "mlp.gate_proj", "up": "mlp.up_proj",
    "down": "mlp.down_proj",
}  # fmt: skip
"""Our name of a layer's tensor, and that of the checkpoint."""


class Fetched(NamedTuple):
    """A tensor of a checkpoint, and the file that it lies in."""

    tensor: Tensor
    file: Path


Fetch = Callable[[str], Fetched | None]
"""Returns a tensor by its name in the file, None when it is not there."""


def load_checkpoint(path: Path, dtype: torch.dtype) -> LoadedModel:
    """Return the model that lies at a path. Raises BadModel."""
    if path.is_file() and path.suffix == ".gguf":
        from tsviz.executor.ggufs import load_gguf

        return load_gguf(path, dtype)
    if not path.is_dir():
        raise BadModel(f"{path}: expected a folder with config.json and safetensors, or a .gguf file")
    config = read_config(path / "config.json")
    shape, stops = shape_of_config(config), stop_tokens(config)
    weights = build_weights(shape, _safetensors(path), _hf_name, dtype, path)
    return LoadedModel(Model(shape, weights), _tokenizer(path), stops, {"checkpoint": path.name})


def build_weights(
    shape: ModelShape, fetch: Fetch, name_of: Callable[[int | None, str], str], dtype: torch.dtype, path: Path
) -> Weights:
    """Fetch every tensor that a shape needs. Raises BadModel naming the first that is wrong and its file.

    `path` is named where one is missing.
    """

    def get(layer: int | None, name: str, expected: tuple[int, ...]) -> Tensor:
        full = name_of(layer, name)
        fetched = fetch(full)
        if fetched is None:
            raise BadModel(f"{path}: tensor {full!r} is missing; expected one of shape {list(expected)}")
        found, where = fetched.tensor, f"{fetched.file}: tensor {full!r}"
        if tuple(found.shape) != expected:
            raise BadModel(f"{where}: expected shape {list(expected)}, found {list(found.shape)}")
        if not found.is_floating_point():
            raise BadModel(f"{where}: expected floating-point numbers, found {found.dtype}")
        weight = found.to(dtype).contiguous()
        if not bool(torch.isfinite(weight).all()):
            raise BadModel(f"{where}: expected finite numbers, found some that are not")
        return weight

    embed = get(None, "embed", (shape.vocabulary, shape.hidden))
    layers = tuple(
        {name: get(layer, name, size) for name, size in layer_shapes(shape, layer).items()}
        for layer in range(len(shape.pattern))
    )
    head = embed if shape.tied else get(None, "head", (shape.vocabulary, shape.hidden))
    return Weights(embed, layers, get(None, "norm", (shape.hidden,)), head)


def _hf_name(layer: int | None, name: str) -> str:
    if layer is None:
        return {"embed": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight"}[name]
    return f"model.layers.{layer}.{HF_NAMES[name]}.weight"


def _safetensors(folder: Path) -> Fetch:
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError as error:
        raise BadModel("safetensors is not installed: pip install 'tsviz[executor]'") from error
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise BadModel(f"{folder}: expected *.safetensors files, found none")
    where: dict[str, tuple[Any, Path]] = {}
    for file in files:
        try:
            opened: Any = safe_open(file, framework="pt")
        except (SafetensorError, OSError) as error:
            raise BadModel(f"{file}: not a whole safetensors file: {error}") from error
        where |= dict.fromkeys(opened.keys(), (opened, file))

    def fetch(name: str) -> Fetched | None:
        if name not in where:
            return None
        opened, file = where[name]
        return Fetched(opened.get_tensor(name), file)

    return fetch


def _tokenizer(folder: Path) -> Tokenizer | None:
    file = folder / "tokenizer.json"
    if not file.exists():
        return None
    from tsviz.executor.words import tokenizer_of_file

    return tokenizer_of_file(file)
