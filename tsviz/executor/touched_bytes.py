"""The bytes that forwards of one device read and write, worked out with arrays for many of them at once (`touched`).

A group's pages are worked out once then, and turned into bytes layer by layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tsviz.executor.inputs import ForwardInputs, Row
from tsviz.executor.layout import GroupLayout, Layout
from tsviz.executor.options import Fault
from tsviz.executor.ranges import Edges, LaterRanges, Longs, What, joined_apart
from tsviz.executor.shape import KINDS
from tsviz.executor.states import state_ends
from tsviz.trace.entries import ManyRanges

if TYPE_CHECKING:
    from tsviz.executor.touched import Touched

_EVERYWHERE = 1 << 30


class Spans(NamedTuple):
    """Rows of pages: of which forward, the page, in it the first row and the row behind the last.

    Of n spans `[n]`; the last two are `[1]` where all have the same.
    """

    of: Longs
    pages: Longs
    first: Longs
    last: Longs


class FieldSpans:
    """Where the fields of every layer lie in a block of each group, as arrays; worked out once a device."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._of: dict[tuple[str, int | None], tuple[Longs, Longs]] = {}
        for group in layout.groups:
            for layer in (None, *sorted({f.layer for f in group.fields})):
                spans = [(f.offset_bytes, f.size_bytes) for f in group.fields_of(layer)]
                self._of[group.name, layer] = np.array([s[0] for s in spans]), np.array([s[1] for s in spans])

    def bytes_of(self, group: GroupLayout, layer: int | None, spans: Spans) -> tuple[Longs, Longs, Longs]:
        """Return the bytes of a layer's fields (None: of all layers'), in no order, and of which forward they are."""
        offsets, sizes = self._of[group.name, layer]
        base = (group.parent_bytes - group.stride_bytes + spans.pages * group.stride_bytes)[:, None] + offsets
        of, row = spans.of.repeat(len(offsets)), sizes // group.granularity
        if group.name == "state":
            return of, base.ravel(), (base + sizes).ravel()
        return of, (base + spans.first[:, None] * row).ravel(), (base + spans.last[:, None] * row).ravel()

    def blocks_of(self, group: GroupLayout, spans: Spans) -> tuple[Longs, Longs, Longs]:
        """Return the bytes of whole blocks, in no order, and of which forward they are."""
        begins = group.parent_bytes - group.stride_bytes + spans.pages * group.stride_bytes
        return spans.of, begins, begins + (group.fields[-1].offset_bytes + group.fields[-1].size_bytes)


class Together:
    """Several forwards of one device."""

    def __init__(self, forwards: Sequence[Touched]) -> None:
        device = forwards[0].device
        self._forwards, self._shape, self._fields, self._faults = forwards, device.shape, device.fields, device.faults
        self._prefix, self._draft_layers = device.prefix_granularity, device.draft_layers
        self._layout = device.fields.layout
        self._known: dict[tuple[str, bool], tuple[Spans, Spans]] = {}

    def edges(self, what: What, layer: int | None) -> tuple[Longs, Edges]:
        """Return how many ranges each forward has, and their edges forward by forward."""
        fields = self._fields
        match what:
            case What.COMMITTED:
                parts = [fields.bytes_of(self.committed()[0], None, self.committed()[1])]
            case What.DRAFTED:
                first = self._layout.draft_from
                group, reads, _ = self._touched(first)
                parts = [fields.bytes_of(group, first + n, reads) for n in range(self._draft_layers)]
            case What.READS if layer is None:
                parts = [fields.blocks_of(group, reads) for group, reads, _ in self.layers(None)]
            case _:
                parts = [
                    fields.bytes_of(group, layer, touched[what is What.WRITES])
                    for group, *touched in self.layers(layer)
                ]
        of, begins, ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        return joined_apart(of, len(self._forwards), begins, ends)

    def layers(self, layer: int | None) -> list[tuple[GroupLayout, Spans, Spans]]:
        """Return what one layer reads and writes; for None a layer of every group.

        The pages are those of all layers in it, of a model that is not narrowed.
        """
        layers = [self._shape.layers_of(g.name)[0] for g in self._layout.groups] if layer is None else [layer]
        return [self._touched(layer) for layer in layers]

    def committed(self) -> tuple[GroupLayout, Spans]:
        """Return the state pages of every length that a decode may come to."""
        group = self._layout.group("state")
        return group, self._pages(
            group, [[
                page
                for i, row in enumerate(forward.inputs.rows)
                if not row.is_extend
                for page in _pages_at(forward.inputs, i, group, row.bounds.low, row.bounds.high + row.length - 1)
            ] for forward in self._forwards],
        )  # fmt: skip

    def _touched(self, layer: int) -> tuple[GroupLayout, Spans, Spans]:
        letter = self._shape.pattern[layer] if layer < self._layout.draft_from else "F"
        group = self._layout.group(KINDS[letter])
        narrowed = self._shape.narrow_from <= layer < self._layout.draft_from
        if (known := self._known.get((group.name, narrowed))) is None:
            inputs = [forward.upper if narrowed else forward.inputs for forward in self._forwards]
            known = self._state_pages(group) if letter == "M" else self._row_pages(letter, group, inputs)
            self._known[group.name, narrowed] = known
        return group, *known

    def _row_pages(self, letter: str, group: GroupLayout, inputs: Sequence[ForwardInputs]) -> tuple[Spans, Spans]:
        shape, g = self._shape, group.granularity
        window = {"F": _EVERYWHERE, "S": shape.window, "R": shape.replay_window}[letter]
        sees_all = letter != "R" or Fault.REPLAY_SEES in self._faults
        writes_all = letter == "R" or Fault.REPLAY_WRITES in self._faults
        bounds = chain.from_iterable(
            (
                row.bounds.low, row.bounds.high + row.length - 1,
                0 if sees_all or not row.replay else row.begin,
                0 if writes_all or not row.is_extend else row.floor,
            )
            for one in inputs for row in one.rows
        )  # fmt: skip
        first, last, seen_from, floor = np.fromiter(bounds, np.int64).reshape(-1, 4).T[:, :, None]
        tables = [one.tables[group.name] for one in inputs]
        column = np.arange(min(max(table.shape[1] for table in tables), int(last.max()) // g + 1))
        table, of = _stacked(tables, len(column))
        begins = column * g
        reads = (table >= 0) & (column >= np.maximum(first - window + 1, seen_from) // g) & (begins <= last)
        begin, end = np.maximum(begins, np.maximum(first, floor)) - begins, np.minimum(last + 1 - begins, g)
        writes = (table > 0) & (begin < end)
        return (
            _whole(of.repeat(reads.sum(1)), table[reads], g),
            Spans(of.repeat(writes.sum(1)), table[writes], begin[writes], end[writes]),
        )

    def _state_pages(self, group: GroupLayout) -> tuple[Spans, Spans]:
        grain = group.granularity if Fault.CHECKPOINT_GRAIN in self._faults else self._prefix
        reads: list[list[int]] = []
        writes: list[list[int]] = []
        for forward in self._forwards:
            inputs, read, written = forward.inputs, list[int](), list[int]()
            for i, row in enumerate(inputs.rows):
                if row.bounds.high > 0:
                    read += _pages_at(inputs, i, group, row.bounds.low - 1, row.bounds.high - 1)
                if row.is_extend:
                    written += _checkpoints(inputs, i, row, group, grain)
            reads.append(read)
            writes.append(written)
        return self._pages(group, reads), self._pages(group, writes)

    def _pages(self, group: GroupLayout, pages: Sequence[Sequence[int]]) -> Spans:
        of = np.arange(len(pages)).repeat(list(map(len, pages)))
        return _whole(of, np.fromiter(chain.from_iterable(pages), np.int64, len(of)), group.granularity)


def together(asked: Sequence[LaterRanges]) -> ManyRanges:
    """Return the ranges that several forwards of one device are asked for."""
    kinds: dict[tuple[What, int | None], list[int]] = {}
    for number, ranges in enumerate(asked):
        kinds.setdefault((ranges.what, ranges.layer), []).append(number)
    starts, counts = np.zeros(len(asked), np.int64), np.zeros(len(asked), np.int64)
    parts: list[Edges] = []
    known: dict[tuple[int, ...], Together] = {}
    end = 0
    for (what, layer), numbers in kinds.items():
        forwards = [asked[number].forward for number in numbers]
        which = tuple(map(id, forwards))
        if which not in known:
            known[which] = Together(forwards)
        count, edges = known[which].edges(what, layer)
        counts[numbers] = count
        starts[numbers] = end + count.cumsum() - count
        end += len(edges[0])
        parts.append(edges)
    begins, ends = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return ManyRanges(starts, counts, begins, ends)


def _stacked(tables: Sequence[Longs], width: int) -> tuple[Longs, Longs]:
    """Return the rows of several tables as one, padded with -1 as they are, and of which table each is."""
    rows = [len(table) for table in tables]
    if len(tables) == 1:
        return tables[0][:, :width], np.zeros(rows[0], np.int64)
    out, at = np.full((sum(rows), width), -1, np.int64), 0
    for table, count in zip(tables, rows, strict=True):
        out[at : at + count, : table.shape[1]] = table[:, :width]
        at += count
    return out, np.arange(len(rows)).repeat(rows)


def _pages_at(inputs: ForwardInputs, i: int, group: GroupLayout, first: int, last: int) -> list[int]:
    g = group.granularity
    pages = inputs.tables[group.name][i, max(0, first) // g : last // g + 1].tolist()
    return [page for page in pages if page > 0]


def _checkpoints(inputs: ForwardInputs, i: int, row: Row, group: GroupLayout, grain: int) -> list[int]:
    ends = [row.begin + end - 1 for end in state_ends(row.begin, row.length, grain)]
    return [page for at in ends for page in _pages_at(inputs, i, group, at, at)]


def _whole(of: Longs, pages: Longs, granularity: int) -> Spans:
    """Return whole pages as spans."""
    return Spans(of, pages, np.zeros(1, np.int64), np.full(1, granularity))
