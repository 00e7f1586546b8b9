"""The rows of a decode step, and attention of rows over pages: all of it tensors (`executor-rules.md` section 3).

Nothing here asks the host for a number, so that it can be captured (`graphs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from tsviz.executor.shape import ModelShape


@dataclass(frozen=True, slots=True)
class StepRows:
    """The rows: slots `[rows]`, tables of pages `[rows, columns]`, how many tokens are valid before each `[rows]`.

    Rows of slot 0 stand for nobody: their tables hold no pages. `poison`: what is hidden may not be a number.
    """

    slots: Tensor
    tables: Mapping[str, Tensor]
    begins: Tensor
    width: int
    poison: bool

    @property
    def positions(self) -> Tensor:
        """Return where each token that is fed stands, `[rows, width]`."""
        return self.begins[:, None] + torch.arange(self.width, device=self.begins.device)

    def missing(self, pages: Tensor) -> Tensor:
        """Return how many of the rows' pages `[rows, n]` are the dummy page."""
        return ((pages == 0) & (self.slots > 0)[:, None]).sum()


def page_at(table: Tensor, granularity: int, positions: Tensor) -> Tensor:
    """Return the pages of positions `[rows, n]`; 0 where there is none."""
    column = positions // granularity
    return table.gather(1, column.clamp_max(table.shape[1] - 1)) * (column < table.shape[1])


def fetched(field: Tensor, pages: Tensor, rows: int, hidden: Tensor | None) -> Tensor:
    """Return a copy of a field on pages, `[rows, kv_heads, positions, head_dim]`; what is hidden as zeros.

    `field` is `[blocks, g, kv_heads, head_dim]`, `pages` flat, `hidden` `[rows, positions]`.
    """
    copied = field.index_select(0, pages).view(rows, -1, *field.shape[2:]).transpose(1, 2)
    return copied if hidden is None else copied.masked_fill(hidden[:, None, :, None], 0.0)


def mask_of(seen: Tensor, shape: ModelShape, dtype: torch.dtype) -> Tensor:
    """Return what `attend` adds to scores, `[rows, 1, 1 or heads of a group * width, positions]`.

    `seen` says `[rows, width, positions]` what each row sees.
    """
    rows, width, positions = seen.shape
    mask = torch.zeros(seen.shape, dtype=dtype, device=seen.device).masked_fill(~seen, -torch.inf)
    group = shape.heads // shape.kv_heads
    return mask[:, None].expand(-1, group, -1, -1).reshape(rows, 1, group * width, positions)


def attend(q: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """Attend `[rows * width, heads, head_dim]` over keys `[rows, kv_heads, positions, head_dim]`; mask: `mask_of`."""
    rows, kv, _, dim = keys.shape
    width = len(q) // rows
    grouped = q.view(rows, width, kv, -1, dim).permute(0, 2, 3, 1, 4).reshape(rows, kv, -1, dim)
    out = functional.scaled_dot_product_attention(grouped, keys, values, attn_mask=mask)
    return out.view(rows, kv, -1, width, dim).permute(0, 3, 1, 2, 4).reshape(q.shape)
