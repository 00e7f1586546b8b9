"""Llama-architecture models in GGUF files, dequantised when they are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tsviz.executor.checkpoint import Fetched, build_weights
from tsviz.executor.hf_config import MOST_LAYERS
from tsviz.executor.model import Model
from tsviz.executor.models import LoadedModel
from tsviz.executor.shape import BadModel, ModelShape
from tsviz.executor.words import CHAT, byte_level_tokenizer

_MAGIC = b"GGUF"
_NAMES = {
    "norm_1": "attn_norm", "norm_2": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output",
    "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
}  # fmt: skip


def load_gguf(path: Path, dtype: torch.dtype) -> LoadedModel:
    """Return the model and tokenizer of a GGUF file. Raises BadModel."""
    try:
        import gguf
    except ImportError as error:
        raise BadModel("gguf is not installed: pip install 'tsviz[executor]'") from error
    reader = _read(gguf.GGUFReader, path)
    fields = reader.fields

    def value(name: str, default: Any = None) -> Any:
        return fields[name].contents() if name in fields else default

    shape = _shape(value, path, tied=all(t.name != "output.weight" for t in reader.tensors))
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    heads = {"attn_q": shape.heads, "attn_k": shape.kv_heads}

    def fetch(name: str) -> Fetched | None:
        if name not in tensors:
            return None
        tensor = tensors[name]
        try:
            data = torch.from_numpy(gguf.dequantize(tensor.data, tensor.tensor_type).copy())
        except (ValueError, NotImplementedError) as error:
            raise BadModel(f"{path}: tensor {name!r}: {tensor.tensor_type.name} cannot be read: {error}") from error
        kind = name.split(".")[-2]
        return Fetched(_half_split(data, heads[kind]) if kind in heads and data.ndim == 2 else data, path)

    weights = build_weights(shape, fetch, _name, dtype, path)
    stops = frozenset(token for token in (value("tokenizer.ggml.eos_token_id"),) if token is not None)
    words = None
    if value("tokenizer.ggml.model") == "gpt2":
        chat = CHAT if "<|im_start|>" in value("tokenizer.chat_template", "") else "{prompt}"
        words = byte_level_tokenizer(
            value("tokenizer.ggml.tokens"), value("tokenizer.ggml.merges"), value("tokenizer.ggml.token_type"),
            value("tokenizer.ggml.pre", ""), chat,
        )  # fmt: skip
    return LoadedModel(Model(shape, weights), words, stops, {"checkpoint": path.name})


def _read(reader: Any, path: Path) -> Any:
    """Return the file as the package's reader has it. Raises BadModel, saying at which byte something is missing."""

    def get(self: Any, offset: int, dtype: Any, count: int = 1, *order: Any, **named: Any) -> Any:
        size, left = np.dtype(dtype).itemsize * int(count), max(0, len(self.data) - offset)
        if size > left:
            raise BadModel(
                f"{path}: not a whole GGUF file: at byte {offset:,}: expected {size:,} bytes, found {left:,}"
            )
        return reader._get(self, offset, dtype, count, *order, **named)

    try:
        with path.open("rb") as file:
            magic = file.read(len(_MAGIC))
        if magic != _MAGIC:
            raise BadModel(f"{path}: not a whole GGUF file: at byte 0: expected {_MAGIC!r}, found {magic!r}")
        return type("CheckedReader", (reader,), {"_get": get})(path)
    except (ValueError, OSError, IndexError, KeyError) as error:
        if isinstance(error, BadModel):
            raise
        raise BadModel(f"{path}: not a whole GGUF file: {error}") from error


def _shape(value: Any, path: Path, *, tied: bool) -> ModelShape:
    architecture = value("general.architecture")
    if architecture != "llama":
        raise BadModel(f"{path}: general.architecture: expected 'llama', found {architecture!r}")

    def need(name: str) -> Any:
        found = value(f"llama.{name}")
        if found is None:
            raise BadModel(f"{path}: llama.{name} is missing")
        return found

    if not 0 < (layers := need("block_count")) <= MOST_LAYERS:
        raise BadModel(f"{path}: llama.block_count: expected 1 to {MOST_LAYERS}, found {layers}")
    hidden, heads = need("embedding_length"), need("attention.head_count")
    return ModelShape(
        "F" * layers, hidden=hidden, heads=heads, kv_heads=value("llama.attention.head_count_kv", heads),
        head_dim=value("llama.attention.key_length", hidden // heads), intermediate=need("feed_forward_length"),
        vocabulary=value("llama.vocab_size") or len(value("tokenizer.ggml.tokens", ())),
        rope_theta=value("llama.rope.freq_base", 10_000.0), eps=need("attention.layer_norm_rms_epsilon"), tied=tied,
        max_positions=need("context_length"),
    )  # fmt: skip


def _name(layer: int | None, name: str) -> str:
    if layer is None:
        return {"embed": "token_embd.weight", "norm": "output_norm.weight", "head": "output.weight"}[name]
    return f"blk.{layer}.{_NAMES[name]}.weight"


def _half_split(weight: Tensor, heads: int) -> Tensor:
    """Return rows in half-split rotary order; the file has them interleaved, pair by pair."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)
