"""Which bytes a forward reads and writes, from what the host knows (`executor-rules.md` section 2, *CPU executor*).

All of it is put off until somebody looks (`ranges`). A group's pages are worked out once a forward then, and turned
into bytes with arrays.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tsviz.executor.crcs import DEVICE, Block
from tsviz.executor.inputs import ForwardInputs, Row
from tsviz.executor.layout import GroupLayout, Layout
from tsviz.executor.options import Fault
from tsviz.executor.ranges import Edges, LaterRanges, Longs, joined
from tsviz.executor.shape import KINDS, ModelShape
from tsviz.executor.states import state_ends
from tsviz.trace.order.ops import ByteRange

Ranges = LaterRanges | tuple[ByteRange, ...]
Spans = tuple[Longs, Longs, Longs]
"""Pages, in each the first row, and the row behind the last: of n spans `[n]`, or `[1]` where all have the same."""
_NONE: frozenset[Fault] = frozenset()


class FieldSpans:
    """Where the fields of every layer lie in a block of each group, as arrays; worked out once a device."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._of: dict[tuple[str, int | None], tuple[Longs, Longs]] = {}
        for group in layout.groups:
            for layer in (None, *sorted({f.layer for f in group.fields})):
                spans = [(f.offset_bytes, f.size_bytes) for f in group.fields_of(layer)]
                self._of[group.name, layer] = np.array([s[0] for s in spans]), np.array([s[1] for s in spans])

    def bytes_of(self, group: GroupLayout, layer: int | None, spans: Spans) -> Edges:
        """Return the bytes of a layer's fields (None: of all layers') in rows of pages, in no order."""
        pages, first, last = (column[:, None] for column in spans)
        offsets, sizes = self._of[group.name, layer]
        base = group.parent_bytes - group.stride_bytes + pages * group.stride_bytes + offsets
        row = sizes // group.granularity
        if group.name == "state":
            return base.ravel(), (base + sizes).ravel()
        return (base + first * row).ravel(), (base + last * row).ravel()

    def blocks_of(self, group: GroupLayout, pages: Longs) -> Edges:
        """Return the bytes of whole blocks, in no order."""
        begins = group.parent_bytes - group.stride_bytes + pages * group.stride_bytes
        return begins, begins + (group.fields[-1].offset_bytes + group.fields[-1].size_bytes)


class Touched:
    """The bytes of one forward."""

    def __init__(
        self, inputs: ForwardInputs, upper: ForwardInputs, shape: ModelShape, fields: FieldSpans,
        prefix_granularity: int, faults: frozenset[Fault] = _NONE,
    ) -> None:  # fmt: skip
        """`upper` is what the layers of a narrowed decoder see; the same as `inputs` without one."""
        self._inputs, self._upper, self._shape = inputs, upper, shape
        self._fields, self._layout = fields, fields.layout
        self._prefix, self._faults = prefix_granularity, faults
        self._pages: dict[tuple[str, bool], tuple[Spans, Spans]] = {}

    def layer(self, layer: int | None) -> tuple[Ranges, Ranges]:
        """Return what one layer reads and writes in the arena; for None what all of the model's do."""
        return LaterRanges(partial(self._bytes, layer, 0)), LaterRanges(partial(self._bytes, layer, 1))

    def _bytes(self, layer: int | None, writes: int) -> Edges:
        touched, fields = self._all() if layer is None else (self._touched(layer),), self._fields
        if layer is None and not writes:
            return _together([fields.blocks_of(group, read[0]) for group, read, _ in touched])
        return _together([fields.bytes_of(group, layer, spans[writes]) for group, *spans in touched])

    def blocks(self, layer: int | None) -> tuple[list[Block], list[Block]]:
        """Return the blocks that one layer reads, and those that it writes; for None all of the model's."""
        reads: list[Block] = []
        writes: list[Block] = []
        for group, *spans in self._all() if layer is None else (self._touched(layer),):
            for blocks, span in zip((reads, writes), spans, strict=True):
                blocks += [Block(DEVICE, group, page, layer) for page in sorted(set(span[0].tolist()))]
        return reads, writes

    def _all(self) -> list[tuple[GroupLayout, Spans, Spans]]:
        """Return a layer of every group; the pages are those of all layers in it, of a model that is not narrowed."""
        return [self._touched(self._shape.layers_of(group.name)[0]) for group in self._layout.groups]

    def _touched(self, layer: int) -> tuple[GroupLayout, Spans, Spans]:
        letter = self._shape.pattern[layer] if layer < self._layout.draft_from else "F"
        group = self._layout.group(KINDS[letter])
        key = (group.name, self._shape.narrow_from <= layer < self._layout.draft_from)
        if key not in self._pages:
            rows = self._upper if key[1] else self._inputs
            self._pages[key] = self._state_pages(group) if letter == "M" else self._row_pages(letter, group, rows)
        return group, *self._pages[key]

    def drafted_from(self, draft_layers: int) -> Ranges:
        """Return what an epilogue reads to draft: the draft model's keys and values of everything before."""
        if not draft_layers:
            return ()

        def work() -> Edges:
            first = self._layout.draft_from
            group, reads, _ = self._touched(first)
            layers = range(first, first + draft_layers)
            return _together([self._fields.bytes_of(group, layer, reads) for layer in layers])

        return LaterRanges(work)

    def committed(self) -> Ranges:
        """Return the state pages that an epilogue may write: those of every length that a decode may come to."""
        if "M" not in self._shape.pattern:
            return ()

        def work() -> Edges:
            group = self._layout.group("state")
            spans = _whole(np.array(self._committed(), np.int64), group.granularity)
            return joined(*self._fields.bytes_of(group, None, spans))

        return LaterRanges(work)

    def committed_blocks(self) -> list[Block]:
        """Return the same as blocks."""
        layers, pages = self._shape.layers_of("state"), sorted(set(self._committed()))
        return [Block(DEVICE, self._layout.group("state"), page, layer) for layer in layers for page in pages]

    def _committed(self) -> list[int]:
        if "M" not in self._shape.pattern:
            return []
        group = self._layout.group("state")
        return [
            page
            for i, row in enumerate(self._inputs.rows)
            if not row.is_extend
            for page in self._pages_at(i, group, row.bounds.low, row.bounds.high + row.length - 1)
        ]

    def _row_pages(self, letter: str, group: GroupLayout, inputs: ForwardInputs) -> tuple[Spans, Spans]:
        shape, g, table = self._shape, group.granularity, inputs.tables[group.name]
        window = {"F": 1 << 30, "S": shape.window, "R": shape.replay_window}[letter]
        sees_all = letter != "R" or Fault.REPLAY_SEES in self._faults
        writes_all = letter == "R" or Fault.REPLAY_WRITES in self._faults
        bounds = np.array(
            [
                (
                    row.bounds.low, row.bounds.high + row.length - 1,
                    0 if sees_all or not row.replay else row.begin,
                    0 if writes_all or not row.is_extend else row.floor,
                )
                for row in inputs.rows
            ]
        )  # fmt: skip
        first, last, seen_from, floor = bounds.T[:, :, None]
        column = np.arange(min(table.shape[1], int(last.max()) // g + 1))
        table = table[:, : len(column)]
        begins = column * g
        reads = (table >= 0) & (column >= np.maximum(first - window + 1, seen_from) // g) & (begins <= last)
        begin, end = np.maximum(begins, np.maximum(first, floor)) - begins, np.minimum(last + 1 - begins, g)
        writes = (table > 0) & (begin < end)
        return _whole(table[reads], g), (table[writes], begin[writes], end[writes])

    def _state_pages(self, group: GroupLayout) -> tuple[Spans, Spans]:
        grain = group.granularity if Fault.CHECKPOINT_GRAIN in self._faults else self._prefix
        reads: list[int] = []
        writes: list[int] = []
        for i, row in enumerate(self._inputs.rows):
            if row.bounds.high > 0:
                reads += self._pages_at(i, group, row.bounds.low - 1, row.bounds.high - 1)
            if row.is_extend:
                writes += self._checkpoints(i, row, group, grain)
        g = group.granularity
        return _whole(np.array(reads, np.int64), g), _whole(np.array(writes, np.int64), g)

    def _checkpoints(self, i: int, row: Row, group: GroupLayout, grain: int) -> list[int]:
        ends = [row.begin + end - 1 for end in state_ends(row.begin, row.length, grain)]
        return [page for at in ends for page in self._pages_at(i, group, at, at)]

    def _pages_at(self, i: int, group: GroupLayout, first: int, last: int) -> list[int]:
        g = group.granularity
        pages = self._inputs.tables[group.name][i, max(0, first) // g : last // g + 1].tolist()
        return [page for page in pages if page > 0]


def _whole(pages: Longs, granularity: int) -> Spans:
    """Return whole pages as spans."""
    return pages, np.zeros(1, np.int64), np.full(1, granularity)


def _together(parts: list[Edges]) -> Edges:
    """Return the ranges of all parts as edges."""
    if len(parts) == 1:
        return joined(*parts[0])
    return joined(np.concatenate([begins for begins, _ in parts]), np.concatenate([ends for _, ends in parts]))
