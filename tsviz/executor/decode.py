"""A batch of decodes alone, in `fast` mode: one step over all layers, which a GPU replays as a graph.

What a step needs of the host are the rows' slots and block tables; the rest it takes from the device. Its operations
are a prologue that copies those two, all layers as one, those of a draft model too, and the epilogue. What is loaded in
the same round is awaited once, before the layers. Batches with prompts in them take the way of `forward`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsviz.executor.arena import Arena
from tsviz.executor.crcs import PLAN, SCRATCH, UPLOAD, Copied, unsummed
from tsviz.executor.decode_step import DecodeStep
from tsviz.executor.forward import Outcome, copied_out
from tsviz.executor.graphs import DecodeGraphs, columns_of, rows_of
from tsviz.executor.inputs import ForwardInputs
from tsviz.executor.layout import GroupLayout
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.paged_kernel import kernel_for
from tsviz.executor.slots import SlotState
from tsviz.executor.upload import download, upload


class Decoding:
    """What the decode steps of one device share, and the steps whose graphs are replayed."""

    def __init__(
        self, model: Model, arena: Arena, slots: SlotState, options: DeviceOptions, draft: Model | None,
        graphs: DecodeGraphs | None,
    ) -> None:  # fmt: skip
        """`graphs` is None where nothing is captured."""
        self.model, self.draft, self.arena, self.slots = model, draft, arena, slots
        self.options, self.graphs = options, graphs
        self._able = model.fast and not options.faults
        self._steps: dict[tuple[int, int], DecodeStep] = {}

    def takes(self, inputs: ForwardInputs) -> bool:
        """Return whether a batch is run as one step."""
        return self._able and inputs.num_extends == 0

    def step(self, rows: int, columns: int) -> tuple[tuple[int, int], DecodeStep]:
        """Return the step for so many rows and table columns, padded to the sizes of `graphs`, and its key."""
        key = rows_of(rows), columns_of(columns)
        if key not in self._steps:
            device = self.arena.data.device
            at = torch.zeros(key[0], dtype=torch.long, device=device)
            tables = {g.name: torch.zeros(key, dtype=torch.long, device=device) for g in self.arena.layout.groups}
            self._steps[key] = self.make_step(at, tables, padded=True)
        return key, self._steps[key]

    def make_step(self, at: Tensor, tables: dict[str, Tensor], *, padded: bool) -> DecodeStep:
        """Return a step on slots and tables."""
        return DecodeStep(self.model, self.draft, self.arena, self.slots, self.options, at, tables, padded=padded)


def how_decoded(model: Model) -> str:
    """Return in words how batches of decodes are run, for a trace."""
    if not model.fast:
        return "layer by layer: exact mode"
    if not model.weights.embed.is_cuda:
        return "one step, no graphs: there is no CUDA device here"
    return (
        f"CUDA graphs, attention over {'copied pages' if kernel_for(model.weights.embed) is None else 'pages in place'}"
    )


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
                decoding.slots.give(row.slot, row.given)
        at = np.array([row.slot for row in inputs.rows], np.int64)
        tables = {group.name: self._needed(group) for group in decoding.arena.layout.groups}
        if decoding.graphs is None:
            on_device = {name: upload(table, device) for name, table in tables.items()}
            self._step = decoding.make_step(upload(at, device), on_device, padded=False)
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

    def prologue_copied(self, planned: Mapping[str, npt.NDArray[np.int64]]) -> Callable[[], Iterator[Copied]]:
        """Return what tells, behind the prologue, the block tables as they were planned and as they were uploaded."""
        kept = {group.name: self._needed(group, planned) for group in self._decoding.arena.layout.groups}

        def copied() -> Iterator[Copied]:
            for name, table in kept.items():
                rows, columns = table.shape
                yield unsummed(PLAN, name), table.tobytes()
                yield unsummed(UPLOAD, name), download(self._step.tables[name][:rows, :columns].contiguous())

        return copied

    def candidates_copied(self) -> Iterator[Copied]:
        """Return, of every row's state layers, the state behind each number of tokens of its window."""
        states = self._step.memory.states
        for layer, kept in (states.kept if states is not None else {}).items():
            for i, row in enumerate(self.inputs.rows):
                for taken in range(row.length):
                    packed = torch.cat([of_windows[i, taken].flatten() for of_windows in kept]).view(torch.uint8)
                    yield unsummed(SCRATCH, "state", None, layer, row.request_id, taken + 1), download(packed)

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
