"""Tokenizers: of a `tokenizer.json`, and of the byte-level BPE tables in a GGUF file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tsviz.executor.shape import BadModel

_CONTROL = 3
"""GGUF's token type of special tokens."""
_DIGITS_APART = frozenset({"smollm"})
"""Pre-tokenizers that split digits one by one before GPT-2's rule."""
CHAT = (
    "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    "<|im_start|>user\n{prompt}<|im_end|>\n<|im_start|>assistant\n"
)
"""How SmolLM2 is asked; its own template with one message gives the same."""


class Words:
    """Implements `Tokenizer`; with a chat template a prompt is put into it."""

    def __init__(self, inner: Any, chat: str = "{prompt}") -> None:
        self._inner, self._chat = inner, chat

    def encode(self, text: str) -> list[int]:
        """Return the tokens of a prompt."""
        ids: list[int] = self._inner.encode(self._chat.replace("{prompt}", text), add_special_tokens=False).ids
        return ids

    def decode(self, tokens: list[int]) -> str:
        """Return the text of tokens, special ones left out."""
        return str(self._inner.decode(tokens, skip_special_tokens=True))


def tokenizer_of_file(path: Path) -> Words:
    """Return the tokenizer of a `tokenizer.json`. Raises BadModel."""
    tokenizers = _package()
    try:
        return Words(tokenizers.Tokenizer.from_file(str(path)))
    except Exception as error:  # the package raises bare exceptions
        raise BadModel(f"{path}: not a tokenizer: {error}") from error


def byte_level_tokenizer(
    tokens: Sequence[str], merges: Sequence[str], types: Sequence[int], kind: str, chat: str
) -> Words:
    """Return a byte-level BPE tokenizer from the tables of a GGUF file."""
    package = _package()
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    inner = package.Tokenizer(package.models.BPE({t: i for i, t in enumerate(tokens)}, pairs))
    steps = [package.pre_tokenizers.ByteLevel(add_prefix_space=False)]
    if kind in _DIGITS_APART:
        steps.insert(0, package.pre_tokenizers.Digits(individual_digits=True))
    inner.pre_tokenizer = package.pre_tokenizers.Sequence(steps)
    inner.decoder = package.decoders.ByteLevel()
    inner.add_special_tokens([token for token, type_ in zip(tokens, types, strict=True) if type_ == _CONTROL])
    return Words(inner, chat)


def _package() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise BadModel("tokenizers is not installed: pip install 'tsviz[executor]'") from error
    return tokenizers
