"""Which bytes a forward reads and writes, from what the host knows (`executor-rules.md` section 2, *CPU executor*)."""

from __future__ import annotations

from tsviz.executor.inputs import ForwardInputs, Row
from tsviz.executor.layout import ByteRange, GroupLayout, Layout
from tsviz.executor.options import Fault
from tsviz.executor.order import merged
from tsviz.executor.paged import state_ends
from tsviz.executor.shape import KINDS, ModelShape

Ranges = tuple[ByteRange, ...]


def layer_ranges(
    inputs: ForwardInputs,
    shape: ModelShape,
    layout: Layout,
    layer: int,
    prefix_granularity: int,
    faults: frozenset[Fault] = frozenset(),
) -> tuple[Ranges, Ranges]:
    """Return what one layer reads and writes in the arena."""
    letter = shape.pattern[layer]
    group = layout.group(KINDS[letter])
    reads: list[ByteRange] = []
    writes: list[ByteRange] = []
    for i, row in enumerate(inputs.rows):
        if letter == "M":
            grain = group.granularity if Fault.CHECKPOINT_GRAIN in faults else prefix_granularity
            _state(inputs, i, row, group, layer, grain, reads, writes)
        else:
            _rows(inputs, i, row, group, layer, shape, reads, writes, faults)
    return merged(reads), merged(writes)


def commit_ranges(inputs: ForwardInputs, shape: ModelShape, layout: Layout) -> Ranges:
    """Return the state pages that an epilogue may write: those of every length that a decode may come to."""
    writes: list[ByteRange] = []
    for layer in shape.layers_of("state"):
        group = layout.group("state")
        for i, row in enumerate(inputs.rows):
            if not row.is_extend:
                for page in _pages(inputs, i, group, row.bounds.low, row.bounds.high + row.length - 1):
                    writes += group.device_ranges(page, layer)
    return merged(writes)


def _rows(
    inputs: ForwardInputs, i: int, row: Row, group: GroupLayout, layer: int, shape: ModelShape,
    reads: list[ByteRange], writes: list[ByteRange], faults: frozenset[Fault],
) -> None:  # fmt: skip
    letter, g = shape.pattern[layer], group.granularity
    window = {"F": 1 << 30, "S": shape.window, "R": shape.replay_window}[letter]
    first, last = row.bounds.low, row.bounds.high + row.length - 1
    lowest = max(0, first - window + 1)
    if letter == "R" and row.replay and Fault.REPLAY_SEES not in faults:
        lowest = max(lowest, row.begin)
    writes_all = letter == "R" or Fault.REPLAY_WRITES in faults or not row.is_extend
    floor = first if writes_all else max(first, row.floor)
    table = inputs.tables[group.name][i]
    for column in range(lowest // g, last // g + 1):
        page = int(table[column]) if column < len(table) else 0
        if page <= 0:
            continue
        reads += group.device_ranges(page, layer)
        begin, end = max(floor, column * g), min(last + 1, (column + 1) * g)
        if begin < end:
            writes += group.row_ranges(page, begin - column * g, end - column * g, layer)


def _state(
    inputs: ForwardInputs, i: int, row: Row, group: GroupLayout, layer: int, prefix_granularity: int,
    reads: list[ByteRange], writes: list[ByteRange],
) -> None:  # fmt: skip
    if row.bounds.high > 0:
        for page in _pages(inputs, i, group, row.bounds.low - 1, row.bounds.high - 1):
            reads += group.device_ranges(page, layer)
    if row.is_extend:
        for end in state_ends(row.begin, row.length, prefix_granularity):
            at = row.begin + end - 1
            for page in _pages(inputs, i, group, at, at):
                writes += group.device_ranges(page, layer)


def _pages(inputs: ForwardInputs, i: int, group: GroupLayout, first: int, last: int) -> list[int]:
    table, g = inputs.tables[group.name][i], group.granularity
    columns = range(max(0, first) // g, last // g + 1)
    return [int(table[c]) for c in columns if c < len(table) and table[c] > 0]
