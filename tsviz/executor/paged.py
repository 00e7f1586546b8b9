"""The memory of a paged forward: tables to slots at one mapping point (`executor-rules.md` section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from tsviz.executor import numerics
from tsviz.executor.arena import Arena
from tsviz.executor.fast import paged_attention
from tsviz.executor.inputs import ForwardInputs
from tsviz.executor.layout import GroupLayout
from tsviz.executor.model import Model, scan_states
from tsviz.executor.options import Fault
from tsviz.executor.shape import KINDS
from tsviz.executor.upload import upload


@dataclass(slots=True)
class Scratch:
    """A state layer's candidates for the final state, one a fed token, until it is known how many stay."""

    states: dict[int, list[Tensor]] = field(default_factory=dict)
    rows: dict[int, Tensor] = field(default_factory=dict)


class PagedMemory:
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

    def previous(self, layer: int, rows: Tensor) -> Tensor:
        """Shift by one within each request; its first row follows the one that the state remembers."""
        shifted = torch.cat([torch.zeros_like(rows[:1]), rows[:-1]])
        kept = self._arena.view("state", layer, "shift")
        starts = upload(self._inputs.offsets[:-1], rows.device)
        shifted[starts] = kept[self._input_pages()] * (self._begins > 0)[:, None]
        return shifted

    def scan(self, layer: int, q: Tensor, k: Tensor, v: Tensor, decay: Tensor, rows: Tensor) -> Tensor:
        """Run each request from its input state; write an extend's checkpoint and final state, keep a decode's."""
        inputs, out = self._inputs, torch.zeros_like(q)
        states, shifts = (self._arena.view("state", layer, name) for name in ("state", "shift"))
        start = states[self._input_pages()] * (self._begins > 0)[:, None, None, None]
        scratch = self.scratch.setdefault(layer, Scratch())
        grain = self._prefix
        if Fault.CHECKPOINT_GRAIN in self._faults:
            grain = self._arena.layout.group("state").granularity
        for i, row in enumerate(inputs.rows):
            part = slice(inputs.offsets[i], inputs.offsets[i + 1])
            ends = state_ends(row.begin, row.length, grain) if row.is_extend else range(1, row.length + 1)
            out[part], kept = scan_states(start[i], q[part], k[part], v[part], decay[part], ends)
            if not row.is_extend:
                scratch.states[i], scratch.rows[i] = kept, rows[part]
                continue
            for end, state in zip(ends, kept, strict=True):
                page = self._state_page(i, row.begin + end)
                states[page], shifts[page] = state[None], rows[part.start + end - 1][None]
        return out

    def commit_states(self, counts: Tensor) -> None:
        """Write, for every decode row, the state after as many tokens as stay, `[rows]`, of its window."""
        for layer, scratch in self.scratch.items():
            group = self._arena.layout.group("state")
            states, shifts = (self._arena.view("state", layer, name) for name in ("state", "shift"))
            for i, kept in scratch.states.items():
                taken = counts[i : i + 1] - 1
                if Fault.REJECTED_STATE in self._faults:
                    taken = torch.full_like(taken, len(kept) - 1)
                row = torch.full_like(taken, i)
                at = self._begins[i : i + 1] + counts[i : i + 1] - 1
                if Fault.STATE_IN_PLACE in self._faults:
                    at = self._begins[i : i + 1] - 1
                page = self.page_of(group, row, at)
                self.dummy_rows += (page == 0).sum()
                live = (page > 0)[:, None]
                states[page] = torch.where(live[..., None, None], torch.stack(kept)[taken], 0.0)
                shifts[page] = torch.where(live, scratch.rows[i][taken], 0.0)

    def _reader(self, layer: int) -> numerics.KeyReader:
        """Return what reads a layer's keys and values of rows at positions."""
        group = self._arena.layout.group(KINDS[self._shape.pattern[layer]])
        keys, values = (self._arena.view(group.name, self._first_layer + layer, name) for name in "kv")

        def read(index: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
            pages = self.page_of(group, self._row_of[index][:, None], positions[None, :].expand(len(index), -1))
            offsets = (positions % group.granularity)[None, :]
            return keys[pages, offsets], values[pages, offsets]

        return read

    def _input_pages(self) -> Tensor:
        group = self._arena.layout.group("state")
        rows = torch.arange(len(self._inputs.rows), device=self._begins.device)
        return torch.where(self._begins > 0, self.page_of(group, rows, self._begins - 1), 0)

    def _state_page(self, row: int, after: int) -> Tensor:
        group = self._arena.layout.group("state")
        at = upload([after - 1], self._begins.device)
        page = self.page_of(group, torch.full_like(at, row), at)
        self.dummy_rows += (page == 0).sum()
        return page

    def _tiles(self, window: int) -> tuple[list[int], list[int]]:
        first, last = [], []
        for begin in range(0, len(self._low), numerics.ROW_TILE):
            part = slice(begin, min(begin + numerics.ROW_TILE, self._inputs.flat_rows))
            first.append(max(0, int(self._low[part].min()) - window + 1) // numerics.KEY_TILE)
            last.append(int(self._high[part].max()) // numerics.KEY_TILE + 1)
        return first, last


def state_ends(begin: int, length: int, prefix_granularity: int) -> list[int]:
    """Return after how many rows of a chunk its state is kept: at its last checkpoint inside, and at its end."""
    after = begin + length
    checkpoint = after // prefix_granularity * prefix_granularity
    return [checkpoint - begin, length] if begin < checkpoint < after else [length]
