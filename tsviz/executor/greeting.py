"""What the nodes of a pair tell each other first: can one go on with what the other computes? (section 5, step 1)

Pages of another layout cannot land, and of other weights they are nonsense: then neither node starts.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

import torch
from torch import Tensor

from tsviz.engine.configs import Role
from tsviz.engine.intake import Gate, gate_of
from tsviz.executor.model import Model
from tsviz.executor.sizing import SizedPool
from tsviz.executor.wire import Wire

PROTOCOL = 2
_SAMPLED = 1024
"""Elements of a tensor that go into a digest."""
_MATRICES = ("qkv", "o", "gate_up", "down")
"""Of a fused layer, what holds its weights on any device alike."""
_POLL_SECONDS = 0.005

Facts = dict[str, str | int]
"""What must be the same on both nodes, by the name that people are told."""


class OtherPeer(Exception):
    """A peer that this node cannot be paired with; the message says why."""


class Unlike(OtherPeer):
    """A node that is made otherwise; names what differs, here and there."""


def facts_of(sized: SizedPool, model: Model, draft: Model | None = None) -> Facts:
    """Return what a node is made of."""
    return {
        "protocol": PROTOCOL,
        "layers": model.shape.pattern,
        "model": repr(model.shape),
        "weights": digest(model),
        "draft": "none" if draft is None else digest(draft),
        "dtype": str(model.weights.embed.dtype).removeprefix("torch."),
        "mode": "fast" if model.fast else "exact",
        "width": max(1, sized.scheduler.decode_input_tokens),
        "prefix page": sized.scheduler.prefix_granularity,
        "layout": sized.layout.signature,
    }


def digest(model: Model) -> str:
    """Return a checksum of a model's weights: of names, sizes and numbers spread over every tensor."""
    weights, found = model.weights, hashlib.sha256()
    tensors = {"embed": weights.embed, "norm": weights.norm, "head": weights.head}
    tensors |= {f"{i}.{name}": tensor for i, layer in enumerate(weights.layers) for name, tensor in layer.items()}
    if model.fused is not None:
        whole = ((i, name, getattr(layer, name)) for i, layer in enumerate(model.fused.layers) for name in _MATRICES)
        tensors |= {f"{i}.{name}": tensor for i, name, tensor in whole}
    for name, tensor in sorted(tensors.items()):
        found.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode() + _sample(tensor))
    return found.hexdigest()[:16]


def say(wire: Wire, facts: Facts, most_tokens: int) -> None:
    """Tell the peer what this node is, and the most tokens that one request may come to here."""
    wire.send({"kind": "hello", "facts": facts, "most_tokens": most_tokens})


def hear(wire: Wire, facts: Facts, patience_s: float = 30.0) -> int:
    """Wait for what the peer is; return the most tokens that one request may come to there.

    Raises OtherPeer: it is another one, says something else, or nothing.
    """
    until = time.monotonic() + patience_s
    while not wire.frames:
        lost = wire.lost
        if wire.frames:
            break
        if lost is not None:
            raise OtherPeer(f"the peer was gone before it said what it is: {lost}")
        if time.monotonic() > until:
            raise OtherPeer(f"the peer is connected and did not say what it is within {patience_s:g} s")
        time.sleep(_POLL_SECONDS)
    head = wire.frames.popleft().head
    theirs = head.get("facts")
    if head.get("kind") != "hello" or not isinstance(theirs, dict):
        wire.end("expected a hello first")
        raise OtherPeer(f"expected a hello from the peer, found {repr(head.get('kind'))[:60]}")
    if differing := [name for name, value in facts.items() if theirs.get(name) != value]:
        raise Unlike(
            "the peer is another one: " + "; ".join(_difference(n, facts[n], theirs.get(n)) for n in differing)
        )
    most_tokens = head.get("most_tokens")
    if type(most_tokens) is not int or most_tokens < 1:
        wire.end("expected a number of most_tokens")
        raise OtherPeer(f"most_tokens: expected a number from 1 on from the peer, found {repr(most_tokens)[:60]}")
    return most_tokens


def common_gate(role: Role, most_tokens: int, of_peer: int, width: int) -> Gate:
    """Return the gate of either node: what is beyond one bound is refused by both, in the same words.

    Else one node would wait for a request that the other one never had.
    """
    on_d, on_p = (of_peer, most_tokens) if role is Role.P else (most_tokens, of_peer)
    decodes, prefills = gate_of(on_d, prefill_only=False, width=width), gate_of(on_p, prefill_only=True, width=width)
    return lambda request: decodes(request) or prefills(request)


def _difference(name: str, here: str | int, there: Any) -> str:
    there = there if type(there) in (str, int) else "not told"
    if max(len(str(here)), len(str(there))) > 40:
        return f"{name} differs"
    return f"{name} {here} here, {there} there"


def _sample(tensor: Tensor) -> bytes:
    flat = tensor.reshape(-1)
    at = torch.linspace(0, flat.numel() - 1, min(_SAMPLED, flat.numel()), dtype=torch.float64).long()
    return bytes(flat[at.to(flat.device)].cpu().to(torch.float64).numpy().tobytes())
