"""All that a batch of decodes does on the device in `fast` mode, so that it can be captured (`graphs`).

What it is told stands in tensors: slots and block tables. The rest is the device's own: valid lengths, next inputs.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from torch import Tensor

from tsviz.executor import numerics
from tsviz.executor.arena import Arena
from tsviz.executor.chain import say_chain
from tsviz.executor.forward import Outcome
from tsviz.executor.model import Model
from tsviz.executor.options import DeviceOptions
from tsviz.executor.paged_kernel import kernel_for
from tsviz.executor.slots import SlotState
from tsviz.executor.step_memory import StepMemory
from tsviz.executor.step_rows import StepRows
from tsviz.executor.upload import upload


class DecodeStep:
    """All that a batch of decodes does on the device, reading slots `[rows]` and tables `[rows, columns]` of pages.

    `padded`: rows of slot 0 stand for nobody; their hidden rows are zero from the embedding on, and so is what they
    write to the dummy page. `memory` is what the layers remembered.
    """

    outcome: Outcome
    memory: StepMemory

    def __init__(
        self, model: Model, draft: Model | None, arena: Arena, slots: SlotState, options: DeviceOptions, at: Tensor,
        tables: dict[str, Tensor], *, padded: bool,
    ) -> None:  # fmt: skip
        self._model, self._draft, self._arena = model, draft, arena
        self._slots, self._options = slots, options
        self._kernel = kernel_for(arena.data) if options.paged_kernel else None
        self.at, self.tables, self._padded = at, tables, padded
        self._rows: StepRows
        self._x: Tensor

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
        """Fetch what is fed, embed it, run all layers, those of the draft model behind the model's."""
        slots = self._slots
        self._rows = StepRows(self.at, self.tables, slots.valid[self.at], slots.width, self._options.poison)
        fed = slots.decode_inputs(self.at).reshape(-1)
        self.memory = StepMemory(self._model, self._arena, self._rows, self._kernel)
        self._x = self._through(self._model, self.memory, fed)
        if (draft := self._draft) is not None:
            first_layer = self._arena.layout.draft_from
            self._through(draft, StepMemory(draft, self._arena, self._rows, self._kernel, first_layer), fed)

    def epilogue(self) -> None:
        """Sample, verify, commit states, advance the slots, draft."""
        slots, begins = self._slots, self._rows.begins
        logits = self._model.logits(self._x).view(len(begins), slots.width, -1)
        best, margins, broken = numerics.best_of(logits)
        counts = slots.accept(self.at, best)
        self.memory.commit_states(counts)
        slots.valid[self.at] = begins + (counts * (self.at > 0) if self._padded else counts)
        following = slots.said(self.at, best, counts)
        if (draft := self._draft) is not None:
            candidates = say_chain(
                draft, self._arena, self.tables["full"], following[:, 0], slots.valid[self.at], slots.width - 1,
                poison=self._options.poison,
            )  # fmt: skip
            following = slots.drafted(self.at, candidates)
        self.outcome = Outcome(
            best, counts, begins, following, margins.amin(-1), broken.any(-1), self.memory.dummy_rows,
            logits if self._options.keep_logits else None,
        )  # fmt: skip

    def _through(self, model: Model, memory: StepMemory, fed: Tensor) -> Tensor:
        """Run a model's layers over what is fed, `[rows * width]`; return its hidden rows."""
        x = model.embed(fed)
        if self._padded:
            x = x * (self.at > 0).repeat_interleave(self._rows.width)[:, None]
        cos, sin = model.angles(self._rows.positions.reshape(-1))
        for layer in range(len(model.shape.pattern)):
            x = model.layer(layer, x, cos, sin, memory)
        return x
