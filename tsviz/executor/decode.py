"""A batch of decodes alone, in `fast` mode: one step over all layers, which a GPU replays as a graph.

What a step needs of the host are the rows' slots and block tables; the rest it takes from the device. Its operations
are a prologue that copies those two, all layers as one, and the epilogue. Batches with prompts in them, state layers,
draft models and what is loaded layer by layer take the way of `forward`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional

from tsviz.executor import numerics
from tsviz.executor.arena import Arena
from tsviz.executor.crcs import PLAN, UPLOAD, Copied, unsummed
from tsviz.executor.forward import Outcome, copied_out
from tsviz.executor.graphs import DecodeGraphs, bucket
from tsviz.executor.inputs import ForwardInputs
from tsviz.executor.layout import GroupLayout
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.shape import KINDS
from tsviz.executor.slots import SlotState
from tsviz.executor.upload import download, upload


class Decoding:
    """What the decode steps of one device share, and the steps whose graphs are replayed."""

    def __init__(
        self, model: Model, arena: Arena, slots: SlotState, options: DeviceOptions, draft: Model | None,
        graphs: DecodeGraphs | None,
    ) -> None:  # fmt: skip
        """`graphs` is None where nothing is captured."""
        self.model, self.arena, self.slots, self.options, self.graphs = model, arena, slots, options, graphs
        self._able = not options.faults and why_not(model, draft) is None
        self._steps: dict[tuple[int, int], DecodeStep] = {}

    def takes(self, inputs: ForwardInputs) -> bool:
        """Return whether a batch is run as one step."""
        return self._able and inputs.num_extends == 0

    def step(self, rows: int, columns: int) -> tuple[tuple[int, int], DecodeStep]:
        """Return the step for so many rows and table columns, made once, and its key; padded to powers of two."""
        key = bucket(rows), bucket(columns)
        if key not in self._steps:
            device = self.arena.data.device
            at = torch.zeros(key[0], dtype=torch.long, device=device)
            tables = {g.name: torch.zeros(key, dtype=torch.long, device=device) for g in self.arena.layout.groups}
            self._steps[key] = DecodeStep(self, at, tables, padded=True)
        return key, self._steps[key]


def why_not(model: Model, draft: Model | None = None) -> str | None:
    """Return why decodes of a model are not run as one step; None where they are."""
    if not model.fast:
        return "exact mode"
    if "M" in model.shape.pattern:
        return "state layers"
    return "a draft model" if draft is not None else None


def how_decoded(model: Model, draft: Model | None) -> str:
    """Return in words how decodes are run, for a trace."""
    if (reason := why_not(model, draft)) is not None:
        return f"layer by layer: {reason}"
    return "CUDA graphs" if model.weights.embed.is_cuda else "one step, no graphs: there is no CUDA device here"


class DecodeForward:
    """One batch of decodes; what `Forward` is to others."""

    upper = None

    def __init__(self, inputs: ForwardInputs, decoding: Decoding) -> None:
        self.inputs = inputs
        self.outcome: Outcome | None = None
        self._decoding = decoding
        self._key: tuple[int, int] | None = None
        self._step: DecodeStep

    def prologue(self) -> None:
        """Copy the rows' slots and tables to where the step reads them."""
        inputs, decoding = self.inputs, self._decoding
        device = decoding.arena.data.device
        for row in inputs.rows:
            if row.given >= 0:
                decoding.slots.inputs[row.slot, 0] = row.given
        at = np.array([row.slot for row in inputs.rows], np.int64)
        tables = {group.name: self._needed(group) for group in decoding.arena.layout.groups}
        if decoding.graphs is None:
            on_device = {name: upload(table, device) for name, table in tables.items()}
            self._step = DecodeStep(decoding, upload(at, device), on_device, padded=False)
            return
        self._key, self._step = decoding.step(len(at), max(table.shape[1] for table in tables.values()))
        self._step.take(at, tables)

    def layer(self, _layer: int | None) -> None:
        """Run all layers."""
        self._run("layers", self._step.layers)

    def epilogue(self) -> None:
        """Sample, verify, advance the slots, draft."""
        self._run("epilogue", self._step.epilogue)

    def copy_out(self) -> None:
        """Copy the outcome of the rows that are there to the host."""
        self.outcome = copied_out(self._step.outcome, len(self.inputs.rows))

    def tables_copied(self, planned: Mapping[str, npt.NDArray[np.int64]]) -> Callable[[], Iterator[Copied]]:
        """Return what tells, behind the prologue, the block tables as they were planned and as they were uploaded."""
        kept = {group.name: self._needed(group, planned) for group in self._decoding.arena.layout.groups}

        def copied() -> Iterator[Copied]:
            for name, table in kept.items():
                rows, columns = table.shape
                yield unsummed(PLAN, name), table.tobytes()
                yield unsummed(UPLOAD, name), download(self._step.tables[name][:rows, :columns].contiguous())

        return copied

    def candidates_copied(self) -> Iterator[Copied]:
        """Nothing: there are no states."""
        return iter(())

    def _run(self, stage: str, work: Callable[[], None]) -> None:
        with torch.inference_mode():
            if self._decoding.graphs is None:
                work()
            else:
                self._decoding.graphs.run((stage, self._key), work)

    def _needed(
        self, group: GroupLayout, tables: Mapping[str, npt.NDArray[np.int64]] | None = None
    ) -> npt.NDArray[np.int64]:
        """Return a table up to the last column that a row may come to; holes and padding are 0."""
        rows, table = self.inputs.rows, (tables or self.inputs.tables)[group.name]
        last = max(row.bounds.high + row.length - 1 for row in rows) // group.granularity
        return np.ascontiguousarray(table[:, : last + 1].clip(0))


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

    def __init__(self, decoding: Decoding, at: Tensor, tables: dict[str, Tensor], *, padded: bool) -> None:
        self._model, self._arena, self._slots = decoding.model, decoding.arena, decoding.slots
        self._options = decoding.options
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
        out = functional.scaled_dot_product_attention(grouped, *seen, attn_mask=place.mask)
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
