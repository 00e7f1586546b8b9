"""The `config.json` of a Llama-architecture checkpoint as a shape; what cannot be run is told by name."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tsviz.executor.shape import BadModel, ModelShape

MOST_LAYERS = 4096
"""More than any model has: a larger number is a broken file."""
_ROPE_KEYS = ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings")


@dataclass(frozen=True, slots=True)
class HfConfig:
    """What is read from a file of untrusted JSON; `where` names it in errors."""

    values: Mapping[str, Any]
    where: str

    def whole(self, name: str, default: int | None = None) -> int:
        """Return a positive whole number; null is as good as absent. Raises BadModel."""
        value = default if (given := self.values.get(name)) is None else given
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise self.bad(name, "a positive whole number", value)
        return value

    def real(self, name: str, default: float | None = None) -> float:
        """Return a positive number. Raises BadModel."""
        value = default if (given := self.values.get(name)) is None else given
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < math.inf:
            raise self.bad(name, "a positive number", value)
        return float(value)

    def part(self, name: str) -> HfConfig | None:
        """Return an object within; None where there is none. Raises BadModel."""
        value = self.values.get(name)
        if value is not None and not isinstance(value, dict):
            raise self.bad(name, "an object", value)
        return HfConfig(value, f"{self.where}: {name}") if value else None

    def only(self, name: str, *allowed: Any) -> None:
        """Raise BadModel where something is given that the executor does not do."""
        if (value := self.values.get(name)) is not None and value not in allowed:
            raise self.bad(name, " or ".join(map(repr, allowed)), value)

    def bad(self, name: str, expected: str, found: object) -> BadModel:
        """Return the error that names file, field, what was expected and what was found."""
        return BadModel(
            f"{self.where}: {name}: expected {expected}, found {'nothing' if found is None else repr(found)}"
        )


def read_config(path: Path) -> HfConfig:
    """Return what the file holds. Raises BadModel."""
    try:
        read = json.loads(path.read_text())
    except OSError as error:
        raise BadModel(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise BadModel(f"{path}: expected a JSON object, found something else: {error}") from error
    if not isinstance(read, dict):
        raise BadModel(f"{path}: expected a JSON object, found {type(read).__name__}")
    return HfConfig(read, str(path))


def shape_of_config(config: HfConfig) -> ModelShape:
    """Return the shape that a configuration describes. Raises BadModel."""
    if (kind := config.values.get("model_type")) != "llama":
        raise config.bad("model_type", "'llama'", kind)
    config.only("hidden_act", "silu", "swish")
    for name in ("attention_bias", "mlp_bias"):
        config.only(name, False)
    config.only("tie_word_embeddings", True, False)
    hidden, heads = config.whole("hidden_size"), config.whole("num_attention_heads")
    if (layers := config.whole("num_hidden_layers")) > MOST_LAYERS:
        raise config.bad("num_hidden_layers", f"at most {MOST_LAYERS}", layers)
    scaling = config.part("rope_scaling") or config.part("rope_parameters")
    theta = config.values.get("rope_theta")
    return ModelShape(
        "F" * layers, hidden=hidden, heads=heads,
        kv_heads=config.whole("num_key_value_heads", heads), head_dim=config.whole("head_dim", hidden // heads),
        intermediate=config.whole("intermediate_size"), vocabulary=config.whole("vocab_size"),
        rope_theta=(config if theta is not None or scaling is None else scaling).real("rope_theta", 10_000.0),
        eps=config.real("rms_norm_eps", 1e-6), tied=config.values.get("tie_word_embeddings") is True,
        max_positions=config.whole("max_position_embeddings", 2048), rope_factor=_rope_factor(scaling),
    )  # fmt: skip


def stop_tokens(config: HfConfig) -> frozenset[int]:
    """Return the tokens that end an output. Raises BadModel."""
    given = config.values.get("eos_token_id")
    tokens = given if isinstance(given, list) else [] if given is None else [given]
    if not all(isinstance(token, int) for token in tokens):
        raise config.bad("eos_token_id", "a token or a list of them", given)
    return frozenset(tokens)


def _rope_factor(scaling: HfConfig | None) -> tuple[float, float, float, int] | None:
    if scaling is None:
        return None
    kind = scaling.values.get("rope_type", scaling.values.get("type", "default"))
    if kind == "default":
        return None
    if kind != "llama3":
        raise scaling.bad("rope_type", "'default' or 'llama3'", kind)
    factor, low, high = (scaling.real(key) for key in _ROPE_KEYS[:3])
    if low >= high:
        raise scaling.bad("high_freq_factor", f"more than low_freq_factor {low:g}", high)
    return factor, low, high, scaling.whole(_ROPE_KEYS[3])
