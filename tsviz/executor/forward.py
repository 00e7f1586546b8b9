"""One forward as the stages that are submitted to `exec`: prologue, layers, epilogue (`executor-rules.md` 2 f, g)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from tsviz.executor import numerics
from tsviz.executor.arena import Arena
from tsviz.executor.crcs import PLAN, SCRATCH, SLOT, UPLOAD, Copied, unsummed
from tsviz.executor.drafting import Drafting
from tsviz.executor.inputs import ForwardInputs
from tsviz.executor.model import Model
from tsviz.executor.narrow import narrowed
from tsviz.executor.options import DeviceOptions, Fault
from tsviz.executor.paged import PagedMemory
from tsviz.executor.slots import SlotState
from tsviz.executor.upload import download, upload


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a forward leaves for the host, on the host: `best` `[rows, width]`, the rest a number a row.

    `logits` `[rows, width, vocabulary]` only where they are kept for comparison.
    """

    best: Tensor
    counts: Tensor
    begins: Tensor
    next_inputs: Tensor
    margins: Tensor
    broken: Tensor
    dummy_rows: Tensor
    logits: Tensor | None


class Forward:
    """Runs stage after stage; holds what passes between them."""

    def __init__(
        self, inputs: ForwardInputs, model: Model, arena: Arena, slots: SlotState, prefix_granularity: int,
        options: DeviceOptions, draft: Model | None = None,
    ) -> None:  # fmt: skip
        self.inputs = inputs
        self.upper = narrowed(inputs, model.shape)
        self._model, self._draft, self._arena, self._slots = model, draft, arena, slots
        self._prefix = prefix_granularity
        self._options = options
        self._memory: PagedMemory
        self._x: Tensor
        self._drafting: Drafting | None = None
        self._angles: tuple[Tensor, Tensor]
        self._device_outcome: Outcome
        self.outcome: Outcome | None = None

    def prologue(self) -> None:
        """Reset and advance the slots of extends, fetch what decodes feed, embed."""
        inputs, slots = self.inputs, self._slots
        device = self._arena.data.device
        tokens = upload(inputs.tokens, device)
        for i, row in enumerate(inputs.rows[: inputs.num_extends]):
            if row.fresh and Fault.SLOT_KEPT not in self._options.faults:
                slots.reset(row.slot)
            slots.fed(row.slot, row.begin, tokens[inputs.offsets[i] : inputs.offsets[i + 1]])
        decodes = inputs.rows[inputs.num_extends :]
        for row in decodes:
            if row.given >= 0:
                slots.give(row.slot, row.given)
        at = upload([row.slot for row in inputs.rows], device)
        begins = slots.valid[at]
        if Fault.HOST_VALID in self._options.faults:
            begins = upload([row.bounds.low for row in inputs.rows], device)
        fed = slots.decode_inputs(at[inputs.num_extends :]).reshape(-1)
        row_of = np.repeat(np.arange(len(inputs.rows)), np.diff(inputs.offsets))
        steps = np.concatenate([np.arange(row.length) for row in inputs.rows])
        positions = begins[upload(row_of, device)] + upload(steps, device)
        self._at, self._begins, self._positions = at, begins, positions
        self._last = inputs
        self._memory = self._remember(inputs, positions)
        fed = torch.cat([tokens, fed])
        self._x = self._model.pad(self._model.embed(fed))
        if (draft := self._draft) is not None:
            rows = draft.pad(draft.embed(fed))
            self._drafting = Drafting(draft, self._arena, inputs, self._prefix, rows, positions, begins)
        self._angles = self._model.angles(self._model.pad(positions))

    def layer(self, layer: int | None) -> None:
        """Run one layer, of the model or behind it of its draft; a narrowed decoder's first one drops rows."""
        assert layer is not None, "layers are run one by one here"
        if self._drafting is not None and layer >= len(self._model.shape.pattern):
            self._drafting.layer(layer - len(self._model.shape.pattern))
            return
        if self.upper is not None and layer == self._model.shape.narrow_from:
            self._last, kept = self.upper.inputs, upload(self.upper.kept, self._x.device)
            dummy_rows, positions = self._memory.dummy_rows, self._positions[kept]
            self._memory = self._remember(self._last, positions)
            self._memory.dummy_rows += dummy_rows
            self._x = self._model.pad(self._x[kept])
            self._angles = self._model.angles(self._model.pad(positions))
        cos, sin = self._angles
        self._x = self._model.layer(layer, self._x, cos, sin, self._memory)

    def epilogue(self) -> None:
        """Sample, verify, commit states, advance the slots, draft."""
        inputs, slots = self.inputs, self._slots
        device = self._arena.data.device
        picked = []
        for i, row in enumerate(inputs.rows):
            end = self._last.offsets[i + 1]
            first = end - 1 if row.is_extend else end - inputs.width
            picked.append([min(first + j, end - 1) for j in range(inputs.width)])
        rows = upload(picked, device).reshape(-1)
        logits = self._model.logits(self._x[rows]).view(len(picked), inputs.width, -1)
        best, margins, broken = numerics.best_of(logits)
        n = inputs.num_extends
        counts = torch.ones(len(picked), dtype=torch.long, device=device)
        counts[n:] = slots.accept(self._at[n:], best[n:])
        self._memory.commit_states(counts)
        advance = counts.clone()
        advance[:n] = upload([row.length for row in inputs.rows[:n]], device)
        slots.valid[self._at] = self._begins + advance
        completes = [i for i, row in enumerate(inputs.rows) if row.completes]
        which = upload(completes, device)
        following = torch.zeros((len(picked), inputs.width), dtype=torch.long, device=device)
        if completes:
            at = self._at[which]
            following[which] = slots.said(at, best[which], counts[which])
            if self._drafting is not None:
                candidates = self._drafting.candidates(completes, slots.inputs[at, 0], slots.valid[at])
                following[which] = slots.drafted(at, candidates)
        self._device_outcome = Outcome(
            best, counts, self._begins, following, margins.amin(-1), broken.any(-1), self._memory.dummy_rows,
            logits if self._options.keep_logits else None,
        )  # fmt: skip

    def prologue_copied(self, planned: Mapping[str, npt.NDArray[np.int64]]) -> Callable[[], Iterator[Copied]]:
        """Return what tells, behind the prologue, the block tables as they were planned and as they were uploaded, and
        what is in slots that have new owners.
        """
        kept = {name: table.tobytes() for name, table in planned.items()}

        def copied() -> Iterator[Copied]:
            for name, table in kept.items():
                yield unsummed(PLAN, name), table
                yield unsummed(UPLOAD, name), download(self._memory.tables[name])
            for row in self.inputs.rows:
                if row.fresh:
                    left = self._slots.leftover(row.slot, row.begin, row.begin + row.length)
                    yield unsummed(SLOT, "", request=row.request_id, item=row.slot), download(left)

        return copied

    def candidates_copied(self) -> Iterator[Copied]:
        """Return, of every decode's state layers, the state behind each number of tokens of its window."""
        for layer, scratch in self._memory.scratch.items():
            for i, kept in scratch.states.items():
                for taken, state in enumerate(kept):
                    packed = torch.cat([state.flatten(), scratch.rows[i][taken].flatten()]).view(torch.uint8)
                    name = self.inputs.rows[i].request_id
                    yield unsummed(SCRATCH, "state", None, layer, name, taken + 1), download(packed)

    def _remember(self, inputs: ForwardInputs, positions: Tensor) -> PagedMemory:
        return PagedMemory(
            inputs, self._model, self._arena, self._prefix, positions, self._begins, self._options.faults
        )

    def copy_out(self) -> None:
        """Copy the outcome to the host."""
        self.outcome = copied_out(self._device_outcome, len(self.inputs.rows))


def copied_out(o: Outcome, rows: int) -> Outcome:
    """Return the outcome of the first rows of a batch, on the host once the operation has ended."""
    best, counts, begins, following, margins, broken = (
        download(t[:rows]) for t in (o.best, o.counts, o.begins, o.next_inputs, o.margins, o.broken)
    )
    logits = None if o.logits is None else download(o.logits[:rows])
    return Outcome(best, counts, begins, following, margins, broken, download(o.dummy_rows), logits)
