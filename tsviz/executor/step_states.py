"""The state layers of a decode step: all rows a token at a time (`executor-rules.md` section 3, *Snapshot-state rows*).

The layers read input states; which of a window's states stays is known behind them, and written then.
"""

from __future__ import annotations

import torch
from torch import Tensor

from tsviz.executor.arena import Arena
from tsviz.executor.step_rows import StepRows, page_at


class StepStates:
    """What `StepMemory` does for state layers. `kept` holds, of each, the states `[rows, width, heads, dim, dim]` and
    the rows `[rows, width, hidden]` behind every token of the windows, until it is known how many stay.
    """

    def __init__(self, arena: Arena, rows: StepRows) -> None:
        self.kept: dict[int, tuple[Tensor, Tensor]] = {}
        self._arena, self._rows = arena, rows
        self._input = self._page((rows.begins - 1).clamp_min(0)) * (rows.begins > 0)

    def previous(self, layer: int, rows: Tensor) -> Tensor:
        """Shift by one within each request; its first row follows the one that the state remembers."""
        before = self._arena.view("state", layer, "shift").index_select(0, self._input)
        if self._rows.width == 1:
            return before
        windows = rows.view(len(before), -1, rows.shape[1])
        return torch.cat([before[:, None], windows[:, :-1]], 1).view_as(rows)

    def scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rows: Tensor) -> Tensor:
        """Run every request from its input state; keep what is behind each token."""
        width = self._rows.width
        windows = (len(self._input), width, *q.shape[1:])
        q, k, v = (t.reshape(windows) for t in (q, k, v))
        decays = decay.reshape(*windows[:3], 1, 1)
        state = self._arena.view("state", layer, "state").index_select(0, self._input)
        states, out = [], []
        for t in range(width):
            state = torch.addcmul(decays[:, t] * state, k[:, t, :, :, None], v[:, t, :, None, :])
            out.append((q[:, t, :, None, :] @ state)[:, :, 0])
            states.append(state)
        self.kept[layer] = torch.stack(states, 1), rows.view(len(self._input), width, -1)
        return torch.stack(out, 1).view(len(rows), *windows[2:])

    def commit(self, counts: Tensor) -> Tensor:
        """Write the states behind as many tokens as stay, `[rows]`; return the pages they went to."""
        page, taken = self._page(self._rows.begins + counts - 1), counts - 1
        which = torch.arange(len(taken), device=taken.device)
        for layer, kept in self.kept.items():
            for name, of_windows in zip(("state", "shift"), kept, strict=True):
                self._arena.view("state", layer, name).index_put_((page,), of_windows[which, taken])
        return page

    def _page(self, positions: Tensor) -> Tensor:
        """Return the pages of the states behind the tokens at positions, `[rows]`."""
        table, group = self._rows.tables["state"], self._arena.layout.group("state")
        return page_at(table, group.granularity, positions[:, None])[:, 0]
