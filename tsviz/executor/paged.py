"""The memory of a paged forward: tables to slots at one mapping point (`executor-rules.md` section 3)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tsviz.executor import numerics
from tsviz.executor.arena import Arena
from tsviz.executor.fast import paged_attention
from tsviz.executor.inputs import ForwardInputs
from tsviz.executor.layout import GroupLayout
from tsviz.executor.model import Model
from tsviz.executor.options import Fault
from tsviz.executor.shape import KINDS
from tsviz.executor.states import Scratch, StatePages
from tsviz.executor.upload import upload


class PagedMemory(StatePages):
    """Implements `Memory` over the arena for one forward. `positions` `[flat rows]` and `begins` `[rows]` are on the
    device; everything else the host knows. Counts live rows that would have landed on the dummy page. `first_layer` is
    the number of the model's first layer among all fields: not 0 for a draft model.
    """

    def __init__(
        self, inputs: ForwardInputs, model: Model, arena: Arena, prefix_granularity: int, positions: Tensor,
        begins: Tensor, faults: frozenset[Fault] = frozenset(), first_layer: int = 0,
    ) -> None:  # fmt: skip
        self._inputs, self._shape, self._arena, self._fast = inputs, model.shape, arena, model.fast
        self._prefix, self._faults, self._first_layer = prefix_granularity, faults, first_layer
        self._positions, self._begins = positions, begins
        device = positions.device
        self.tables = {name: upload(t, device) for name, t in inputs.tables.items()}
        padded = inputs.flat_rows if model.fast else numerics.padded_rows(inputs.flat_rows)
        row_of = np.zeros(padded, np.int64)
        low, high = np.zeros(padded, np.int64), np.full(padded, -1, np.int64)
        replay_start = np.zeros(padded, np.int64)
        settled = np.ones(inputs.flat_rows, bool)
        for i, row in enumerate(inputs.rows):
            begin, end = inputs.offsets[i], inputs.offsets[i + 1]
            row_of[begin:end] = i
            steps = np.arange(end - begin)
            low[begin:end], high[begin:end] = row.bounds.low + steps, row.bounds.high + steps
            if row.replay:
                replay_start[begin : begin + row.replay] = row.begin
                settled[begin : begin + row.replay] = False
        self._row_of = upload(row_of, device)
        self._low, self._high = low, high
        self._replay_start = upload(replay_start, device)
        self._settled = upload(np.flatnonzero(settled), device)
        self._all = torch.arange(inputs.flat_rows, device=device)
        missing = padded - inputs.flat_rows
        self._seen_to = torch.cat([positions, positions.new_full((missing,), -1)])
        self.scratch: dict[int, Scratch] = {}
        self.dummy_rows = torch.zeros((), dtype=torch.long, device=device)

    def page_of(self, group: GroupLayout, rows: Tensor, positions: Tensor) -> Tensor:
        """Return the page of positions in the tables of batch rows; 0 where there is none."""
        table = self.tables[group.name]
        column = torch.div(positions, group.granularity, rounding_mode="floor")
        inside = (column >= 0) & (column < table.shape[1])
        page = table[rows, column.clamp(0, table.shape[1] - 1)]
        return torch.where(inside, page, 0).clamp_min(0)

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Write the rows that may be written, then attend over pages."""
        letter = self._shape.pattern[layer]
        group = self._arena.layout.group(KINDS[letter])
        keys, values = (self._arena.view(group.name, self._first_layer + layer, name) for name in "kv")
        g = group.granularity
        written = self._all if letter == "R" or Fault.REPLAY_WRITES in self._faults else self._settled
        at = self._positions[written]
        page = self.page_of(group, self._row_of[written], at)
        live = (page > 0)[:, None, None]
        self.dummy_rows += (page == 0).sum()
        keys[page, at % g] = torch.where(live, k[written], 0.0)
        values[page, at % g] = torch.where(live, v[written], 0.0)
        window = {"F": 1 << 30, "S": self._shape.window, "R": self._shape.replay_window}[letter]
        low = (self._seen_to - window + 1).clamp_min(0)
        if letter == "R" and Fault.REPLAY_SEES not in self._faults:
            low = torch.maximum(low, self._replay_start)
        if self._fast:
            inputs = self._inputs
            whole = [row.begin == row.replay == 0 and row.length <= window for row in inputs.rows[: inputs.num_extends]]
            return paged_attention(
                q, keys, values, self.tables[group.name], low, self._seen_to, inputs.offsets, whole, inputs.width
            )
        first, last = self._tiles(window)
        return numerics.attention(q, self._reader(layer), numerics.Visible(low, self._seen_to), first, last)

    def _reader(self, layer: int) -> numerics.KeyReader:
        """Return what reads a layer's keys and values of rows at positions."""
        group = self._arena.layout.group(KINDS[self._shape.pattern[layer]])
        keys, values = (self._arena.view(group.name, self._first_layer + layer, name) for name in "kv")

        def read(index: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
            pages = self.page_of(group, self._row_of[index][:, None], positions[None, :].expand(len(index), -1))
            offsets = (positions % group.granularity)[None, :]
            return keys[pages, offsets], values[pages, offsets]

        return read

    def _tiles(self, window: int) -> tuple[list[int], list[int]]:
        first, last = [], []
        for begin in range(0, len(self._low), numerics.ROW_TILE):
            part = slice(begin, min(begin + numerics.ROW_TILE, self._inputs.flat_rows))
            first.append(max(0, int(self._low[part].min()) - window + 1) // numerics.KEY_TILE)
            last.append(int(self._high[part].max()) // numerics.KEY_TILE + 1)
        return first, last
