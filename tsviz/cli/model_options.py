"""Options of `tsviz record --model`: a real model instead of a simulated device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from .model_peer import address_of
from .params import OutputPath

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--model", metavar="NAME|PATH",
        help="Run a model instead of a simulated device: tiny and other seeded ones, smollm2, or a checkpoint (a folder"
        " of safetensors, a .gguf file). The cache groups are the model's.",
    ),
    click.option("--prompt", "prompts", multiple=True, metavar="TEXT", help="With --model: ask it this; may repeat."),
    click.option(
        "--max-tokens", type=click.IntRange(1, 1 << 20), default=64, show_default=True, help="Most tokens of an answer."
    ),
    click.option(
        "--mode", type=click.Choice(("exact", "fast")), default="fast", show_default=True,
        help="exact: the same bits whatever else is in the batch; fast: the library's kernels.",
    ),
    click.option(
        "--dtype", type=click.Choice(("float32", "float64", "bfloat16")), default="float32", show_default=True,
        help="Number format of weights and pages.",
    ),
    click.option(
        "--memory", "memory_mib", type=click.IntRange(1, 1 << 24), metavar="MIB",
        help="Device memory for pages, instead of --pages.",
    ),
    click.option(
        "--streams", type=click.Choice(("inline", "threads", "cuda")), default="inline", show_default=True,
        help="inline: every operation where it is queued; threads: a worker a stream; cuda: a GPU.",
    ),
    click.option(
        "--draft", metavar="first:N|NAME|PATH",
        help="With --width: the model's first N layers, or another model of the same vocabulary, say the candidates;"
        " without it they are what followed the last two tokens before.",
    ),
    click.option("--store", type=OutputPath(file_okay=False), help="With --storage: folder of the files of pages."),
    click.option(
        "--node", type=click.Choice(("P", "D")),
        help="One node of a pair: P prefills and listens, D decodes and connects. Give both the same options.",
    ),
    click.option("--peer", metavar="HOST:PORT", help="With --node: where P listens and D connects."),
    click.option(
        "--layerwise", is_flag=True,
        help="With --node P: send each layer's pages as soon as a chunk has computed them, not whole prompts.",
    ),
    click.option(
        "--page-crcs", is_flag=True,
        help="For debugging: checksums of the pages of every operation as it finds and leaves them (table"
        " page_crcs).",
    ),
    click.option("--threads", type=click.IntRange(1, 1024), default=1, show_default=True, help="Of the CPU kernels."),
)  # fmt: skip


def model_options(function: F) -> F:
    """Add the options to a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


MODEL_NAMES = (
    "model", "prompts", "max_tokens", "mode", "dtype", "memory_mib", "streams", "draft", "store", "threads", "node",
    "peer", "layerwise", "page_crcs",
)  # fmt: skip
"""The parameters that these options fill."""
_LEAST_WIDTH = 2
_SIMULATED = (
    "groups", "round_ms", "token_us", "page_us", "ack_ms", "lost_acks", "failed_loads", "acceptance", "stored",
    "vanish", "pd", "ranks", "perturb", "abort_ms", "replay_tokens", "kv_events",
)  # fmt: skip
"""Parameters of `record` that a real model does not follow."""


def check_model_options(context: click.Context, model: Mapping[str, Any], workload: str | None, tokens: str) -> None:
    """Raise a usage error for options that do not go together, and where there is nothing to run."""

    def given(name: str) -> bool:
        return context.get_parameter_source(name) is not ParameterSource.DEFAULT

    if model["model"] is None:
        if lonely := [name for name in MODEL_NAMES if given(name)]:
            raise click.UsageError(f"{_option(context, lonely[0])} needs --model: a simulated device has no use for it")
        if workload is None:
            raise click.MissingParameter(ctx=context, param_hint="'--workload'", param_type="option")
        return
    if (workload is None) == (not model["prompts"]):
        found = "neither" if workload is None else "both"
        raise click.UsageError(f"--model needs either --workload or --prompt, found {found}")
    if model["draft"] is not None and context.params["width"] < _LEAST_WIDTH:
        raise click.UsageError(
            f"--draft needs --width {_LEAST_WIDTH} or more: it says what a wide decode step verifies, found"
            f" {context.params['width']}"
        )
    if given("store") != given("storage"):
        raise click.UsageError("--store and --storage go together: a model's storage tier is a folder of files")
    if (model["node"] is None) != (model["peer"] is None):
        raise click.UsageError("--node and --peer go together: a node needs its peer")
    if model["peer"] is not None:
        address_of(model["peer"])
    if model["layerwise"] and model["node"] != "P":
        raise click.UsageError("--layerwise needs --node P: it is the prefill node that sends")
    if model["page_crcs"] and tokens == "identity":
        raise click.UsageError("--page-crcs needs --tokens full: a checksum of keys and values tells a guessed prompt")
    if ignored := [name for name in _SIMULATED if given(name)]:
        raise click.UsageError(f"{_option(context, ignored[0])} does not go with --model")


def _option(context: click.Context, name: str) -> str:
    return next(p.opts[0] for p in context.command.params if p.name == name)
