"""The dense reference: no cache, no pages, no scheduler (`executor-rules.md` section 8, *Dense reference*).

One teacher-forced forward over prompt and output; the greedy run is right iff the largest logit at every generated
position is the next token. Two runs that did the same arithmetic have equal bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tsviz.executor import numerics
from tsviz.executor.model import Model, scan_states


class DenseMemory:
    """Everything of one sequence, in plain tensors; no window is cut off but the visible one."""

    def __init__(self, model: Model, tokens: int) -> None:
        self._shape = model.shape
        self._tokens = tokens

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend within the sequence."""
        shape = self._shape
        window = {"F": 1 << 30, "S": shape.window, "R": shape.replay_window}[shape.pattern[layer]]
        missing = -k.shape[0] % numerics.KEY_TILE
        k, v = (torch.cat([t, t.new_zeros((missing, *t.shape[1:]))]) for t in (k, v))

        def read(index: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
            size = (len(index), *k[at].shape)
            return k[at].expand(size), v[at].expand(size)

        positions = torch.arange(q.shape[0])
        visible = numerics.Visible((positions - window + 1).clamp_min(0), positions)
        tiles = q.shape[0] // numerics.ROW_TILE
        last = [
            min(-(-(t + 1) * numerics.ROW_TILE // numerics.KEY_TILE), k.shape[0] // numerics.KEY_TILE)
            for t in range(tiles)
        ]
        return numerics.attention(q, read, visible, [0] * tiles, last)

    def previous(self, _layer: int, rows: Tensor) -> Tensor:
        """Shift by one."""
        return torch.cat([torch.zeros_like(rows[:1]), rows[:-1]])

    def scan(self, _layer: int, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, _rows: Tensor) -> Tensor:
        """Run from an empty state."""
        state = q.new_zeros((q.shape[1], q.shape[2], q.shape[2]))
        n = self._tokens
        out = torch.zeros_like(q)
        out[:n], _ = scan_states(state, q[:n], k[:n], v[:n], decay[:n], ())
        return out


def dense_logits(model: Model, tokens: Sequence[int], first: int) -> Tensor:
    """Return the logits behind each of `tokens[first:]`, `[len(tokens) - first, vocabulary]`."""
    ids = torch.tensor(tokens, dtype=torch.long)
    x = numerics.pad(model.embed(ids))
    cos, sin = model.angles(torch.arange(x.shape[0]))
    memory = DenseMemory(model, len(tokens))
    for layer in range(len(model.shape.pattern)):
        x = model.layer(layer, x, cos, sin, memory)
    return model.logits(x[first : len(tokens)])
