"""What the layers of a decode step remember: pages by block tables (`executor-rules.md` section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from tsviz.executor.arena import Arena
from tsviz.executor.model import Model
from tsviz.executor.paged_kernel import PagedAttention
from tsviz.executor.shape import KINDS
from tsviz.executor.step_rows import StepRows, attend, fetched, mask_of, page_at
from tsviz.executor.step_states import StepStates


@dataclass(frozen=True, slots=True)
class _Copied:
    """What is looked at of pages that are copied: the pages, flat, and who sees what of them (`mask_of`).

    `hidden` `[rows, positions]` only where poison must not be multiplied.
    """

    pages: Tensor
    mask: Tensor
    hidden: Tensor | None


@dataclass(frozen=True, slots=True)
class _Place:
    """Of one kind of layer: in which pages the rows' keys go and where there, `[rows * width]` each, and what is seen.

    `copied` is None where a kernel looks at the pages themselves.
    """

    group: str
    page: Tensor
    offset: Tensor
    window: int
    copied: _Copied | None


class StepMemory:
    """Implements `Memory` for one model; `first_layer` is the number of its first layer among all fields.

    `dummy_rows` counts the live rows that would have landed on the dummy page.
    """

    def __init__(
        self, model: Model, arena: Arena, rows: StepRows, kernel: PagedAttention | None, first_layer: int = 0
    ) -> None:
        self._shape, self._arena, self._rows, self._first_layer = model.shape, arena, rows, first_layer
        self._kernel = kernel
        self.dummy_rows = torch.zeros((), dtype=torch.long, device=rows.slots.device)
        letters = set(model.shape.pattern)
        self._places = {letter: self._place(letter) for letter in sorted(letters - {"M"})}
        self.states = StepStates(arena, rows) if "M" in letters else None

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write every row's keys and values, then attend over the pages of its request."""
        rows, place = self._rows, self._places[self._shape.pattern[layer]]
        keys, values = (self._arena.view(place.group, self._first_layer + layer, name) for name in "kv")
        keys.index_put_((place.page, place.offset), k)
        values.index_put_((place.page, place.offset), v)
        if (copied := place.copied) is None:
            assert self._kernel is not None, "what is not copied is looked at by a kernel"
            return self._kernel(q, keys, values, rows.tables[place.group], rows.begins, place.window)
        old_keys, old_values = (fetched(f, copied.pages, len(rows.slots), copied.hidden) for f in (keys, values))
        return attend(q, old_keys, old_values, copied.mask)

    def previous(self, layer: int, rows: Tensor) -> Tensor:
        """Shift by one within each request."""
        assert self.states is not None, "a model without state layers"
        return self.states.previous(layer, rows)

    def scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rows: Tensor) -> Tensor:
        """Run every request from its input state."""
        assert self.states is not None, "a model without state layers"
        return self.states.scan(layer, q, k, v, decay, rows)

    def commit_states(self, counts: Tensor) -> None:
        """Write, for every row, the state after as many tokens as stay, `[rows]`, of its window."""
        if self.states is not None:
            self.dummy_rows += self._rows.missing(self.states.commit(counts)[:, None])

    def _place(self, letter: str) -> _Place:
        """Return where rows write and look for layers of a letter."""
        shape, rows = self._shape, self._rows
        group = self._arena.layout.group(KINDS[letter])
        table, g, high = rows.tables[group.name], group.granularity, rows.positions
        page = page_at(table, g, high)
        self.dummy_rows += rows.missing(page)
        window = {"F": 1 << 30, "S": shape.window, "R": shape.replay_window}[letter]
        copied = None
        if self._kernel is None:
            at = torch.arange(table.shape[1] * g, device=table.device)
            seen = (at <= high[..., None]) & (at > high[..., None] - window)
            hidden = ~seen.any(1) if rows.poison else None
            copied = _Copied(table.reshape(-1), mask_of(seen, shape, self._arena.data.dtype), hidden)
        return _Place(group.name, page.reshape(-1), (high % g).reshape(-1), window, copied)
