"""Llama-architecture checkpoints: safetensors and GGUF, whole and broken (section 8)."""

from __future__ import annotations

import json
import re
import shutil

import pytest

torch = pytest.importorskip("torch", reason="the executor needs torch: pip install 'tsviz[executor]'")
safetensors = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
gguf = pytest.importorskip("gguf", reason="gguf is not installed")

from tests.executor.conftest import tsviz
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


def write_gguf(path) -> None:
    """The seeded weights of SHAPE as a GGUF file, rotary rows interleaved."""
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


def test_a_gguf_file_gives_the_same_model(folder, tmp_path) -> None:
    """The same weights, with rotary rows interleaved as GGUF files have them, give the same bits."""
    path = tmp_path / "model.gguf"
    write_gguf(path)
    tokens = [3, 14, 15, 9, 26, 53, 58, 9]
    from_gguf, from_folder = (load_checkpoint(p, torch.float32).model for p in (path, folder))
    ours, theirs = dense_logits(from_gguf, tokens, 0), dense_logits(from_folder, tokens, 0)
    assert (ours - theirs).abs().max() < 1e-5  # eps is a float32 in the file


def _without_a_tensor(folder) -> None:
    tensors = hf_tensors()
    del tensors["model.layers.1.mlp.up_proj.weight"]
    safetensors.save_file(tensors, folder / "model.safetensors")


def _with_a_wrong_shape(folder) -> None:
    tensors = hf_tensors() | {"model.norm.weight": torch.zeros(33)}
    safetensors.save_file(tensors, folder / "model.safetensors")


def _with_no_numbers(folder) -> None:
    tensors = hf_tensors()
    tensors["model.norm.weight"][3] = float("nan")
    safetensors.save_file(tensors, folder / "model.safetensors")


def _with(fields):
    """Break a configuration by giving it other fields."""
    return lambda folder: (folder / "config.json").write_text(json.dumps(CONFIG | fields))


def _cut_short(folder) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


@pytest.mark.parametrize(
    ("breaks", "told"),
    [
        (_without_a_tensor, r"tensor 'model.layers.1.mlp.up_proj.weight' is missing; expected one of shape \[48, 32\]"),
        (_with_a_wrong_shape, r"/model.safetensors: tensor 'model.norm.weight': expected shape \[32\], found \[33\]"),
        (_cut_short, r"model.safetensors: not a whole safetensors file"),
        (lambda f: (f / "model.safetensors").unlink(), r"expected \*.safetensors files, found none"),
        (
            lambda f: (f / "config.json").write_text("{"),
            r"config.json: expected a JSON object, found something else: Exp",
        ),
        (lambda f: (f / "config.json").write_text("{}"), r"config.json: model_type: expected 'llama', found nothing$"),
        (lambda f: (f / "config.json").unlink(), r"config.json: cannot be read: No such file or directory$"),
        (
            lambda f: (f / "config.json").write_text('{"model_type": "mamba"}'),
            r"model_type: expected 'llama', found 'm",
        ),
        (
            lambda f: (f / "config.json").write_text('{"model_type": "llama"}'),
            r"hidden_size: expected a positive whole",
        ),
        (lambda f: shutil.rmtree(f), r"expected a folder with config.json and safetensors"),
        (
            _with({"rope_scaling": {"type": "linear"}}),
            r"rope_type: expected 'default' or 'llama3', found 'linear'",
        ),
        (
            _with({"rope_scaling": {"rope_type": "llama3"}}),
            r"rope_scaling: factor: expected a positive number, found",
        ),
        (_with({"attention_bias": True}), r"attention_bias: expected False, found True"),
        (_with({"rms_norm_eps": "x"}), r"rms_norm_eps: expected a positive number, found 'x'"),
        (_with({"eos_token_id": 1.5}), r"eos_token_id: expected a token or a list of them, found 1.5"),
        (_with({"num_hidden_layers": 10**9}), r"num_hidden_layers: expected at most 4096, found 1000000000"),
        (
            _with_no_numbers,
            r"/model.safetensors: tensor 'model.norm.weight': expected finite numbers, found some that are not",
        ),
    ],
)
def test_a_broken_checkpoint_says_what_is_wrong(folder, breaks, told) -> None:
    """What is missing, of the wrong shape or cut short is told by name before anything runs."""
    breaks(folder)
    with pytest.raises(BadModel, match=told):
        load_checkpoint(folder, torch.float32)


@pytest.mark.parametrize("cut", [4, 8, 400, 2000, 20_000, -4096, -1])
def test_a_gguf_file_that_is_cut_short_is_told(tmp_path, cut) -> None:
    """Wherever a file ends, in its head or in its weights, it says where, how much is missing, and the file."""
    path = tmp_path / "model.gguf"
    write_gguf(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:cut])
    with pytest.raises(BadModel, match=r"model\.gguf: not a whole GGUF file: at byte") as told:
        load_checkpoint(path, torch.float32)
    at, expected, found = (int(n.replace(",", "")) for n in re.findall(r"\d[\d,]*(?= bytes|:|$)", str(told.value))[-3:])
    assert at + found == len(whole[:cut])
    assert expected > found


@pytest.mark.parametrize("begins", [b"", b"GG", b"GGML\0\0\0\0"])
def test_a_file_that_is_no_gguf_file_says_what_it_begins_with(tmp_path, begins) -> None:
    """Empty, too short, another format."""
    path = tmp_path / "model.gguf"
    path.write_bytes(begins)
    with pytest.raises(BadModel, match=r"at byte 0: expected b'GGUF', found b'") as told:
        load_checkpoint(path, torch.float32)
    assert str(told.value).endswith(repr(begins[:4]))


@pytest.mark.parametrize("breaks", [_without_a_tensor, _with_a_wrong_shape, _cut_short])
def test_a_broken_checkpoint_ends_a_recording_before_it_starts(folder, breaks, tmp_path, capfd) -> None:
    """From the command line it is one line that names the file, exit code 2, and no trace."""
    breaks(folder)
    out = tmp_path / "run"
    words = ("--scheduler", "twin", "--workload", "poisson:requests=2,rate=9", "--out", out)
    assert tsviz("record", "--model", folder, *words) == 2
    error = capfd.readouterr().err
    assert error.startswith(f"error: --model: {folder}")
    assert "Traceback" not in error
    assert not out.exists()


def test_the_tensors_of_a_layer_are_named() -> None:
    """Every tensor that a full-attention layer needs has a name in a checkpoint."""
    assert set(layer_shapes(SHAPE, 0)) == set(HF_NAMES)
