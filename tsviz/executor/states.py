"""The pages of state layers in a paged forward: input, checkpoint and final state (`executor-rules.md` section 3)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from tsviz.executor.arena import Arena
from tsviz.executor.inputs import ForwardInputs
from tsviz.executor.layout import GroupLayout
from tsviz.executor.model import scan_states
from tsviz.executor.options import Fault
from tsviz.executor.upload import upload


@dataclass(slots=True)
class Scratch:
    """A state layer's candidates for the final state, one a fed token, until it is known how many stay."""

    states: dict[int, list[Tensor]] = field(default_factory=dict)
    rows: dict[int, Tensor] = field(default_factory=dict)


class StatePages:
    """What a paged memory does for state layers; it finds the pages, `begins` is on the device."""

    _inputs: ForwardInputs
    _arena: Arena
    _prefix: int
    _faults: frozenset[Fault]
    _begins: Tensor
    scratch: dict[int, Scratch]
    dummy_rows: Tensor

    def page_of(self, group: GroupLayout, rows: Tensor, positions: Tensor) -> Tensor:
        """Return the page of positions in the tables of batch rows; 0 where there is none."""
        raise NotImplementedError

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


def state_ends(begin: int, length: int, prefix_granularity: int) -> list[int]:
    """Return after how many rows of a chunk its state is kept: at its last checkpoint inside, and at its end."""
    after = begin + length
    checkpoint = after // prefix_granularity * prefix_granularity
    return [checkpoint - begin, length] if begin < checkpoint < after else [length]
