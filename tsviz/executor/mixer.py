"""What a layer's mixer asks of everything that came before the rows of a forward (`executor-rules.md` section 8)."""

from __future__ import annotations

from typing import Protocol

from torch import Tensor


class Memory(Protocol):
    """What came before; `attend`, `previous` and `scan` also take note of the rows themselves."""

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor, /) -> Tensor:
        """Remember keys and values `[rows, kv_heads, head_dim]`; return `[rows, heads, head_dim]`."""

    def previous(self, layer: int, rows: Tensor, /) -> Tensor:
        """Return the normalised row before each row `[rows, hidden]`; zeros before the first token."""

    def scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rows: Tensor, /) -> Tensor:
        """Run the recurrence over `[rows, heads, head_dim]` with `decay` `[rows, heads]`; return its output."""
