"""What pages in storage are of: everything that changes a byte of one (`executor-rules.md` section 6, *L3 keys*).

Names say nothing: two folders are called alike, and a file is written anew. A model is known by what its weights hold,
as they are loaded and in the number format that they are used in; beside them stands what computes with them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

import torch

from tsviz.executor import numerics
from tsviz.executor.model import Model
from tsviz.executor.sizing import SizedPool
from tsviz.executor.weights import Weights

EPOCH = 1
"""Goes up when the executor's arithmetic changes: what was stored before is not found any more."""


def weights_digest(weights: Weights) -> str:
    """Return the SHA-256 of all tensors, by name, shape and bytes; about a second for a gigabyte."""
    named = [("embed", weights.embed), ("norm", weights.norm)]
    if weights.head is not weights.embed:
        named.append(("head", weights.head))
    for layer, tensors in enumerate(weights.layers):
        named += ((f"{layer}.{name}", tensors[name]) for name in sorted(tensors))
    digest = hashlib.sha256()
    for name, tensor in named:
        digest.update(f"{name} {tensor.dtype} {list(tensor.shape)}\n".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def page_namespace(
    model: Model, weights: str, sized: SizedPool, *, draft: Model | None = None, draft_weights: str = ""
) -> str:
    """Return, as 64 hexadecimal digits, what the pages of an engine share with those of no other.

    `weights` and `draft_weights` are digests. In it are both models' shapes and weights, mode and tiles, the number
    format, the processor with what it can, threads and library, and how a page is laid out.
    """
    told = {
        "epoch": EPOCH,
        "model": [asdict(model.shape), weights],
        "draft": None if draft is None else [asdict(draft.shape), draft_weights],
        "mode": "fast" if model.fast else "exact",
        "tiles": [numerics.ROW_TILE, numerics.KEY_TILE],
        "backend": _backend(model.weights.embed),
        "prefix_granularity": sized.scheduler.prefix_granularity,
        "layout": sized.layout.signature,
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def _backend(held: torch.Tensor) -> dict[str, Any]:
    device = torch.cuda.get_device_name(held.device) if held.is_cuda else torch.backends.cpu.get_cpu_capability()
    return {
        "dtype": str(held.dtype), "device": device, "threads": torch.get_num_threads(), "library": torch.__version__,
    }  # fmt: skip
