"""Llama-architecture checkpoints: safetensors and GGUF, whole and broken (section 8)."""

from __future__ import annotations

import json
import shutil

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
gguf = pytest.importorskip("gguf", reason="gguf is not installed")

from tsviz.executor.checkpoint import HF_NAMES, load_checkpoint
from tsviz.executor.reference import dense_logits
from tsviz.executor.shape import BadModel, ModelShape
from tsviz.executor.weights import layer_shapes, seeded_weights

torch.set_num_threads(1)
SHAPE = ModelShape("FF", hidden=32, heads=4, kv_heads=2, head_dim=8, intermediate=48, vocabulary=64, tied=False)
CONFIG = {
    "model_type": "llama", "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "intermediate_size": 48, "vocab_size": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    "tie_word_embeddings": False, "max_position_embeddings": 256, "eos_token_id": 2, "hidden_act": "silu",
    "architectures": ["LlamaForCausalLM"],
}  # fmt: skip


def hf_tensors() -> dict[str, torch.Tensor]:
    """The seeded weights of SHAPE by their names in a Hugging Face checkpoint."""
    weights = seeded_weights(SHAPE, 5)
    named = {
        "model.embed_tokens.weight": weights.embed,
        "model.norm.weight": weights.norm,
        "lm_head.weight": weights.head,
    }
    for layer, tensors in enumerate(weights.layers):
        named |= {f"model.layers.{layer}.{HF_NAMES[name]}.weight": tensor for name, tensor in tensors.items()}
    return named


@pytest.fixture
def folder(tmp_path):
    """A random checkpoint in the Hugging Face layout."""
    safetensors.save_file(hf_tensors(), tmp_path / "model.safetensors", {"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_a_safetensors_checkpoint_says_what_transformers_says(folder) -> None:
    """Logits of a random checkpoint are those of the transformers library to 1e-4, the largest is the same one."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    tokens = [3, 14, 15, 9, 26, 53, 58, 9, 7, 9, 32, 38]
    ours = dense_logits(load_checkpoint(folder, torch.float32).model, tokens, 0)
    with torch.no_grad():
        theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)(torch.tensor([tokens])).logits[0]
    assert torch.equal(ours.argmax(-1), theirs.argmax(-1))
    assert (ours - theirs).abs().max() < 1e-4


def test_a_gguf_file_gives_the_same_model(folder, tmp_path) -> None:
    """The same weights, with rotary rows interleaved as GGUF files have them, give the same bits."""
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(2)
    writer.add_context_length(256)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(48)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_vocab_size(64)
    weights = seeded_weights(SHAPE, 5)
    names = {
        "norm_1": "attn_norm", "norm_2": "ffn_norm", "q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output",
        "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down",
    }  # fmt: skip
    tensors = {"token_embd": weights.embed, "output_norm": weights.norm, "output": weights.head}
    for layer, held in enumerate(weights.layers):
        for name, tensor in held.items():
            if name in ("q", "k"):
                heads = {"q": 4, "k": 2}[name]
                tensor = tensor.reshape(heads, 2, 4, 32).swapaxes(1, 2).reshape(tensor.shape)
            tensors[f"blk.{layer}.{names[name]}"] = tensor
    for name, tensor in tensors.items():
        writer.add_tensor(f"{name}.weight", tensor.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    tokens = [3, 14, 15, 9, 26, 53, 58, 9]
    from_gguf, from_folder = (load_checkpoint(p, torch.float32).model for p in (path, folder))
    ours, theirs = dense_logits(from_gguf, tokens, 0), dense_logits(from_folder, tokens, 0)
    assert (ours - theirs).abs().max() < 1e-5  # eps is a float32 in the file
    path.write_bytes(path.read_bytes()[:-4096])
    with pytest.raises(BadModel, match=r"model\.gguf: not a whole GGUF file"):
        load_checkpoint(path, torch.float32)


def _without_a_tensor(folder) -> None:
    tensors = hf_tensors()
    del tensors["model.layers.1.mlp.up_proj.weight"]
    safetensors.save_file(tensors, folder / "model.safetensors")


def _with_a_wrong_shape(folder) -> None:
    tensors = hf_tensors() | {"model.norm.weight": torch.zeros(33)}
    safetensors.save_file(tensors, folder / "model.safetensors")


def _cut_short(folder) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("breaks", "told"),
    [
        (_without_a_tensor, r"tensor 'model.layers.1.mlp.up_proj.weight' is missing; expected one of shape \[48, 32\]"),
        (_with_a_wrong_shape, r"tensor 'model.norm.weight': expected shape \[32\], found \[33\]"),
        (_cut_short, r"model.safetensors: not a whole safetensors file"),
        (lambda f: (f / "model.safetensors").unlink(), r"expected \*.safetensors files, found none"),
        (lambda f: (f / "config.json").write_text("{"), r"config.json: cannot be read"),
        (
            lambda f: (f / "config.json").write_text('{"model_type": "mamba"}'),
            r"model_type: expected 'llama', found 'm",
        ),
        (
            lambda f: (f / "config.json").write_text('{"model_type": "llama"}'),
            r"hidden_size: expected a positive whole",
        ),
        (lambda f: shutil.rmtree(f), r"expected a folder with config.json and safetensors"),
    ],
)
def test_a_broken_checkpoint_says_what_is_wrong(folder, breaks, told) -> None:
    """What is missing, of the wrong shape or cut short is told by name before anything runs."""
    breaks(folder)
    with pytest.raises(BadModel, match=told):
        load_checkpoint(folder, torch.float32)


def test_the_tensors_of_a_layer_are_named() -> None:
    """Every tensor that a full-attention layer needs has a name in a checkpoint."""
    assert set(layer_shapes(SHAPE, 0)) == set(HF_NAMES)
