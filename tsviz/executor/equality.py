"""Whether an engine said what the dense reference says (`executor-rules.md` section 8)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from tsviz.engine.workloads.model import WorkRequest, expand
from tsviz.executor.model import Model
from tsviz.executor.reference import dense_logits
from tsviz.executor.spoken import Said


@dataclass(frozen=True, slots=True)
class Equality:
    """Of how many generated tokens the logits were equal bit by bit, and where they first were not.

    `wrong` counts tokens that are not the reference's; `worst_margin` is how far the reference has the logit of one
    below its largest, at most, 0 when none is: rounding alone explains small ones only.
    """

    tokens: int = 0
    bit_equal: int = 0
    wrong: int = 0
    first: str = ""
    worst_margin: float = 0.0

    @property
    def is_exact(self) -> bool:
        """Whether every bit was equal."""
        return self.tokens == self.bit_equal and not self.wrong

    def __add__(self, other: Equality) -> Equality:
        """Return both together."""
        return Equality(
            self.tokens + other.tokens, self.bit_equal + other.bit_equal, self.wrong + other.wrong,
            self.first or other.first, max(self.worst_margin, other.worst_margin),
        )  # fmt: skip


def compare(model: Model, requests: Sequence[WorkRequest], said: Mapping[str, Sequence[Said]]) -> Equality:
    """Compare everything that was said with the reference, request by request."""
    total = Equality()
    for request in requests:
        if said.get(request.request_id):
            total += compare_request(model, request, said[request.request_id])
    return total


def compare_request(model: Model, request: WorkRequest, said: Sequence[Said]) -> Equality:
    """Compare one request. Its logits may be missing (a first token that came from a peer): then only the token."""
    prompt = expand(request.prompt).tolist()
    output: list[int] = []
    for part in said:
        if part.position != len(prompt) + len(output):
            where = f"{request.request_id}: expected token {len(prompt) + len(output)}, found {part.position}"
            return Equality(1, 0, 1, where, math.inf)
        output += part.tokens
    reference = dense_logits(model, (prompt + output)[:-1], len(prompt) - 1)
    result, at = Equality(), 0
    for part in said:
        for i, token in enumerate(part.tokens):
            expected = reference[at]
            equal = part.logits is None or bool(torch.equal(part.logits[i], expected))
            wrong = token != int((expected == expected.amax()).nonzero()[0])
            margin = float(expected.amax() - expected[token]) if wrong else 0.0
            where = "" if equal and not wrong else f"{request.request_id}: token {len(prompt) + at}"
            result += Equality(1, int(equal), int(wrong), where, margin)
            at += 1
    return result
