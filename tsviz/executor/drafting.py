"""A small draft model for wide decodes (`executor-rules.md` section 3, *Speculative verify* and *Drafter*).

It is a decoder of full attention whose keys and values are further fields of the target's full-attention blocks: they
are found, stored, loaded and handed over with them. In every forward it runs over the rows that the target is fed, so
that what was rejected is written over by the next window, as with the target's own; then it says a window's candidates
one after the other. Those rows it keeps beside the pages: their tokens are fed again, and written, to be verified.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from tsviz.executor import numerics
from tsviz.executor.arena import Arena
from tsviz.executor.chain import say_chain
from tsviz.executor.inputs import Bounds, ForwardInputs, Row
from tsviz.executor.model import Model
from tsviz.executor.paged import PagedMemory
from tsviz.executor.shape import BadModel, ModelShape
from tsviz.executor.upload import upload
from tsviz.executor.weights import Weights


def check_draft(target: ModelShape, draft: ModelShape, width: int) -> None:
    """Raise BadModel for a draft model that cannot draft for a target with windows of `width` tokens."""
    if set(draft.pattern) != {"F"}:
        raise BadModel(f"draft: expected layers of full attention only, found {draft.pattern!r}")
    if "F" not in target.pattern:
        raise BadModel(f"draft: its pages are those of full attention, and the model has none: {target.pattern!r}")
    if draft.vocabulary != target.vocabulary:
        raise BadModel(f"draft: expected the model's vocabulary of {target.vocabulary}, found {draft.vocabulary}")
    if width < 2:
        raise BadModel(f"draft: expected a decode window of at least 2 tokens to draft for, found {width}")


def first_layers(model: Model, layers: int) -> Model:
    """Return a model's first layers, with its own head, as a draft of it. Raises BadModel."""
    of = len(model.shape.pattern)
    if not 0 < layers < of:
        some = {1: "a model of more than 1 layer to take some of", 2: "first:1, of the model's 2 layers"}.get(
            of, f"first:1 to first:{of - 1}, of the model's {of} layers"
        )
        raise BadModel(f"draft: expected {some}, found first:{layers}")
    shape = replace(model.shape, pattern=model.shape.pattern[:layers], narrow=False)
    weights = model.weights
    return replace(
        model, shape=shape, weights=Weights(weights.embed, weights.layers[:layers], weights.norm, weights.head)
    )


class Drafting:
    """What the draft model does in one forward; `first_layer` is the number of its first layer among all fields."""

    def __init__(
        self, draft: Model, arena: Arena, inputs: ForwardInputs, prefix_granularity: int, x: Tensor, positions: Tensor,
        begins: Tensor,
    ) -> None:  # fmt: skip
        """`x` are the draft's embedded flat rows, padded."""
        self._draft, self._arena, self._inputs, self._prefix = draft, arena, inputs, prefix_granularity
        self._first_layer = arena.layout.draft_from
        self._x, self._begins = x, begins
        self._angles = draft.angles(draft.pad(positions))
        self._memory = PagedMemory(
            inputs, draft, arena, prefix_granularity, positions, begins, first_layer=self._first_layer
        )

    def layer(self, layer: int) -> None:
        """Run one layer of the draft over the rows that the target was fed."""
        self._x = self._draft.layer(layer, self._x, *self._angles, self._memory)

    def candidates(self, rows: list[int], last: Tensor, last_at: Tensor) -> Tensor:
        """Return `[rows, width - 1]` candidates for what follows the tokens `last` at positions `last_at`.

        `rows` are rows of the batch; the others are `[rows]`.
        """
        draft = self._draft
        if draft.fast:
            table = upload(self._inputs.tables["full"][rows].clip(0), last.device)
            return say_chain(draft, self._arena, table, last, last_at, self._inputs.width - 1, poison=True)
        kept: list[list[tuple[Tensor, Tensor]]] = [[] for _ in draft.shape.pattern]
        said, token = [], last
        for step in range(self._inputs.width - 1):
            positions = last_at + step
            memory = _ChainMemory(self._chain_inputs(rows, step), draft, self._arena, self._prefix, positions, kept)
            x = draft.pad(draft.embed(token))
            angles = draft.angles(draft.pad(positions))
            for layer in range(len(draft.shape.pattern)):
                x = draft.layer(layer, x, *angles, memory)
            token = numerics.best_of(draft.logits(x[: len(rows)])).token
            said.append(token)
        return torch.stack(said, -1)

    def _chain_inputs(self, rows: list[int], step: int) -> ForwardInputs:
        """Return a batch of one row each, at the position after as many tokens as its forward may have come to."""
        inputs = self._inputs
        chain: list[Row] = []
        for i in rows:
            row = inputs.rows[i]
            low = row.bounds.low + (row.length if row.is_extend else 1) + step
            chain.append(replace(row, length=1, bounds=Bounds(low, row.bounds.high + row.length + step), replay=0))
        tables = {"full": inputs.tables["full"][rows]}
        return replace(inputs, rows=tuple(chain), tables=tables, offsets=tuple(range(len(rows) + 1)))


class _ChainMemory(PagedMemory):
    """One row a request: what stands before its chain is in pages, the chain itself in `kept`, by layer and step."""

    def __init__(
        self, inputs: ForwardInputs, draft: Model, arena: Arena, prefix_granularity: int, positions: Tensor,
        kept: list[list[tuple[Tensor, Tensor]]],
    ) -> None:  # fmt: skip
        super().__init__(
            inputs, draft, arena, prefix_granularity, positions, positions, first_layer=arena.layout.draft_from
        )
        self._kept = kept

    def attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Attend over pages and the chain; nothing is written to a page."""
        chain = self._kept[layer]
        chain.append((k, v))
        pages = self._reader(layer)
        begins = self._seen_to - (len(chain) - 1)

        def read(index: Tensor, at: Tensor) -> tuple[Tensor, Tensor]:
            keys, values = pages(index, at)
            for step, (own_k, own_v) in enumerate(chain):
                here = (at[None, :] == (begins[index] + step)[:, None])[:, :, None, None]
                keys = torch.where(here, own_k[index][:, None], keys)
                values = torch.where(here, own_v[index][:, None], values)
            return keys, values

        low = torch.zeros_like(self._seen_to)
        return numerics.attention(q, read, numerics.Visible(low, self._seen_to), *self._tiles(1 << 30))
