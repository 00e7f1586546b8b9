"""All that a batch of decodes does on the device in `fast` mode, so that it can be captured (`graphs`).

What it is told stands in tensors: slots and block tables. The rest is the device's own: valid lengths, next inputs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from tsviz.executor import numerics
from tsviz.executor.arena import Arena
from tsviz.executor.forward import Outcome
from tsviz.executor.layout import GroupLayout
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.shape import KINDS
from tsviz.executor.slots import SlotState
from tsviz.executor.upload import upload


@dataclass(frozen=True, slots=True)
class _Place:
    """Of one kind of layer: where the rows' keys go, the pages that are looked at, what is seen of them.

    `page` and `offset` are `[rows * width]`, `pages` flat; `mask` `[rows, 1, 1 or repeated, positions]` is added to the
    scores; `hidden` `[rows, 1, positions, 1]` only where poison must not be multiplied.
    """

    group: GroupLayout
    page: Tensor
    offset: Tensor
    pages: Tensor
    mask: Tensor
    hidden: Tensor | None


class DecodeStep:
    """All that a batch of decodes does on the device, reading slots `[rows]` and tables `[rows, columns]` of pages.

    Implements `Memory` as far as layers of keys and values ask it. `padded`: rows of slot 0 stand for nobody; their
    hidden rows are zero from the embedding on, and so is what they write to the dummy page.
    """

    outcome: Outcome

    def __init__(
        self, model: Model, arena: Arena, slots: SlotState, options: DeviceOptions, at: Tensor,
        tables: dict[str, Tensor], *, padded: bool,
    ) -> None:  # fmt: skip
        self._model, self._arena, self._slots, self._options = model, arena, slots, options
        self.at, self.tables, self._padded = at, tables, padded
        self._places: dict[str, _Place] = {}
        self._x: Tensor
        self._begins: Tensor
        self._dummy_rows: Tensor

    def take(self, at: npt.NDArray[np.int64], tables: Mapping[str, npt.NDArray[np.int64]]) -> None:
        """Copy the slots and tables of a batch in, without waiting; what is behind them is nobody."""
        rows = np.zeros(self.at.shape, np.int64)
        rows[: len(at)] = at
        self.at.copy_(upload(rows, self.at.device), non_blocking=True)
        for name, table in tables.items():
            padded = np.zeros(self.tables[name].shape, np.int64)
            padded[: table.shape[0], : table.shape[1]] = table
            self.tables[name].copy_(upload(padded, self.at.device), non_blocking=True)

    def layers(self) -> None:
        """Fetch what is fed, embed it, run all layers."""
        model, slots, width = self._model, self._slots, self._slots.width
        self._begins = slots.valid[self.at]
        positions = (self._begins[:, None] + torch.arange(width, device=self.at.device)).reshape(-1)
        x = model.embed(slots.decode_inputs(self.at).reshape(-1))
        if self._padded:
            x = x * (self.at > 0).repeat_interleave(width)[:, None]
        self._dummy_rows = torch.zeros((), dtype=torch.long, device=self.at.device)
        self._places = {letter: self._place(letter, positions) for letter in sorted(set(model.shape.pattern))}
        cos, sin = model.angles(positions)
        for layer in range(len(model.shape.pattern)):
            x = model.layer(layer, x, cos, sin, self)
        self._x = x

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write every row's keys and values, then attend over the pages of its request."""
        shape, width = self._model.shape, self._slots.width
        place = self._places[shape.pattern[layer]]
        fields = (self._arena.view(place.group.name, layer, name) for name in "kv")
        rows, kv, dim = len(self.at), shape.kv_heads, shape.head_dim
        seen = []
        for field, new in zip(fields, (k, v), strict=True):
            field.index_put_((place.page, place.offset), new)
            old = field.index_select(0, place.pages).view(rows, -1, kv, dim).transpose(1, 2)
            seen.append(old if place.hidden is None else old.masked_fill(place.hidden, 0.0))
        grouped = q.view(rows, width, kv, -1, dim).permute(0, 2, 3, 1, 4).reshape(rows, kv, -1, dim)
        keys, values = seen
        out = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=place.mask)
        return out.view(rows, kv, -1, width, dim).permute(0, 3, 1, 2, 4).reshape(rows * width, shape.heads, dim)

    def previous(self, _layer: int, rows: Tensor) -> Tensor:
        """State layers are not run in one step."""
        raise NotImplementedError

    def scan(self, _layer: int, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rows: Tensor) -> Tensor:
        """State layers are not run in one step."""
        raise NotImplementedError

    def epilogue(self) -> None:
        """Sample, verify, advance the slots, draft."""
        slots, rows = self._slots, len(self.at)
        logits = self._model.logits(self._x).view(rows, slots.width, -1)
        best, margins, broken = numerics.best_of(logits)
        counts = slots.accept(self.at, best)
        slots.valid[self.at] = self._begins + (counts * (self.at > 0) if self._padded else counts)
        following = slots.said(self.at, best, counts)
        self.outcome = Outcome(
            best, counts, self._begins, following, margins.amin(-1), broken.any(-1), self._dummy_rows,
            logits if self._options.keep_logits else None,
        )  # fmt: skip

    def _place(self, letter: str, positions: Tensor) -> _Place:
        """Return where rows at positions write and look for layers of a letter."""
        shape, width, rows = self._model.shape, self._slots.width, len(self.at)
        group = self._arena.layout.group(KINDS[letter])
        table, g = self.tables[group.name], group.granularity
        high = positions.view(rows, width)
        column = high // g
        page = table.gather(1, column.clamp_max(table.shape[1] - 1)) * (column < table.shape[1])
        self._dummy_rows += ((page == 0) & (self.at > 0)[:, None]).sum()
        at = torch.arange(table.shape[1] * g, device=positions.device)
        seen = at <= high[..., None]
        if letter != "F":
            window = shape.window if letter == "S" else shape.replay_window
            seen = seen & (at > high[..., None] - window)
        mask = torch.zeros(seen.shape, dtype=self._arena.data.dtype, device=at.device).masked_fill(~seen, -torch.inf)
        repeated = shape.heads // shape.kv_heads
        mask = mask[:, None, :].expand(-1, repeated, -1, -1).reshape(rows, 1, repeated * width, -1)
        hidden = ~seen.any(1)[:, None, :, None] if self._options.poison else None
        return _Place(group, page.reshape(-1), positions % g, table.reshape(-1), mask, hidden)
