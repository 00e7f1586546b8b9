"""What a draft model says behind the tokens that it was fed, a step after the other, in `fast` mode.

Its rows stand beside the pages: where what it attends over is a copy of those, they are written into the copy.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from tsviz.executor import numerics
from tsviz.executor.arena import Arena
from tsviz.executor.model import Model
from tsviz.executor.step_rows import attend, fetched, mask_of


def say_chain(
    draft: Model, arena: Arena, table: Tensor, last: Tensor, last_at: Tensor, ahead: int, *, poison: bool
) -> Tensor:
    """Return `[rows, ahead]` candidates for what follows the tokens `last` at positions `last_at`, `[rows]` each.

    `table` `[rows, columns]` has the pages of everything before; nothing is written to one.
    """
    memory = _Chain(draft, arena, table, last_at, ahead, poison=poison)
    said: list[Tensor] = []
    for step in range(ahead):
        memory.step_to(last_at + step)
        x = draft.embed(said[-1] if said else last)
        cos, sin = draft.angles(last_at + step)
        for layer in range(len(draft.shape.pattern)):
            x = draft.layer(layer, x, cos, sin, memory)
        said.append(numerics.best_of(draft.logits(x)).token)
    return torch.stack(said, -1)


class _Chain:
    """Implements `Memory` for layers of full attention: a copy of the pages a layer, with room behind for the chain."""

    def __init__(self, draft: Model, arena: Arena, table: Tensor, last_at: Tensor, ahead: int, *, poison: bool) -> None:
        self._shape, self._arena = draft.shape, arena
        granularity = arena.layout.group("full").granularity
        self._pages = functional.pad(table, (0, -(-ahead // granularity)))
        self._at = torch.arange(self._pages.shape[1] * granularity, device=table.device)
        self._hidden = self._at >= last_at[:, None] if poison else None
        self._row = torch.arange(len(table), device=table.device)
        self._copies: dict[int, tuple[Tensor, Tensor]] = {}
        self._position: Tensor
        self._mask: Tensor

    def step_to(self, positions: Tensor) -> None:
        """Go on to the rows at positions `[rows]`."""
        self._position = positions
        seen = self._at <= positions[:, None]
        self._mask = mask_of(seen[:, None], self._shape, self._arena.data.dtype)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write the rows into the copy, attend over it."""
        if layer not in self._copies:
            first, pages = self._arena.layout.draft_from, self._pages.reshape(-1)
            keys, values = (self._arena.view("full", first + layer, name) for name in "kv")
            self._copies[layer] = (
                fetched(keys, pages, len(self._row), self._hidden), fetched(values, pages, len(self._row), self._hidden)
            )  # fmt: skip
        for copy, new in zip(self._copies[layer], (k, v), strict=True):
            copy.transpose(1, 2).index_put_((self._row, self._position), new)
        return attend(q, *self._copies[layer], self._mask)

    def previous(self, layer: int, rows: Tensor) -> Tensor:
        """A draft model has no state layers."""
        raise NotImplementedError

    def scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rows: Tensor) -> Tensor:
        """A draft model has no state layers."""
        raise NotImplementedError
