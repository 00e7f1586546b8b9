"""Where every byte of the device arena and of the host pool lies (`executor-rules.md` sections 6 and 7).

All groups share one plane. A block of a group is its fields one after the other; `K` blocks of a group fill one LCM
parent; parent 0 is the null parent, so page 0 of every group is the dummy page. No torch here: plain arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count

from tsviz.executor.shape import ModelShape
from tsviz.trace.order.ops import ByteRange

FIELD_ALIGN_BYTES = 16
MOST_PADDING = 0.25
"""Share of a group's parent that may be padding."""


@dataclass(frozen=True, slots=True)
class Field:
    """One tensor a block holds: of which layer, its shape, where in the block on the device and packed on the host."""

    layer: int
    name: str
    shape: tuple[int, ...]
    offset_bytes: int
    packed_bytes: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class GroupLayout:
    """A cache group: its blocks' fields, how many fill a parent, and where block `id` begins."""

    name: str
    granularity: int
    fields: tuple[Field, ...]
    payload_bytes: int
    packing: int
    stride_bytes: int
    parent_bytes: int

    def device_offset(self, page: int) -> int:
        """Return the first byte of a device block; page 1 is the first of parent 1."""
        return self.parent_bytes - self.stride_bytes + page * self.stride_bytes

    def fields_of(self, layer: int | None) -> tuple[Field, ...]:
        """Return the fields of a layer; of all layers for None."""
        return self.fields if layer is None else tuple(f for f in self.fields if f.layer == layer)

    def device_ranges(self, page: int, layer: int | None = None) -> list[ByteRange]:
        """Return the bytes of a device block, or of one layer's fields in it."""
        base = self.device_offset(page)
        if layer is None:
            return [ByteRange("device", base, base + self.fields[-1].offset_bytes + self.fields[-1].size_bytes)]
        return [
            ByteRange("device", base + f.offset_bytes, base + f.offset_bytes + f.size_bytes)
            for f in self.fields_of(layer)
        ]

    def row_ranges(self, page: int, first: int, last: int, layer: int) -> list[ByteRange]:
        """Return the bytes of rows `first .. last` (last excluded) of a layer's fields in a block of rows."""
        base, ranges = self.device_offset(page), []
        for f in self.fields_of(layer):
            row = f.size_bytes // self.granularity
            begin = base + f.offset_bytes
            ranges.append(ByteRange("device", begin + first * row, begin + last * row))
        return ranges


@dataclass(frozen=True, slots=True)
class Layout:
    """The groups in the order of the config, the bytes of a parent on the device and on the host.

    Fields of layers from `draft_from` on are those of a draft model, whose first layer that is.
    """

    groups: tuple[GroupLayout, ...]
    parent_bytes: int
    host_parent_bytes: int
    element_bytes: int
    draft_from: int

    def group(self, name: str) -> GroupLayout:
        """Return a group by name. Raises KeyError."""
        for group in self.groups:
            if group.name == name:
                return group
        raise KeyError(name)

    def host_offset(self, group: GroupLayout, page: int) -> int:
        """Return the first byte of a host block; ids count from 1."""
        parent, child = divmod(page - 1, group.packing)
        return parent * self.host_parent_bytes + child * group.payload_bytes

    def host_range(self, group: GroupLayout, page: int) -> ByteRange:
        """Return the bytes of a host block."""
        begin = self.host_offset(group, page)
        return ByteRange("host", begin, begin + group.payload_bytes)

    @property
    def signature(self) -> str:
        """What a stored page must have been packed with to be read again."""
        groups = (
            f"{g.name}:{g.granularity}:" + ",".join(f"{f.layer}.{f.name}{list(f.shape)}" for f in g.fields)
            for g in self.groups
        )
        return "|".join((str(self.element_bytes), *groups))


def plan_layout(
    shape: ModelShape, granularity: dict[str, int], element_bytes: int, draft: ModelShape | None = None
) -> Layout:
    """Return the layout of a model's groups; a draft model's keys and values lie behind those of full attention."""
    drafts: list[tuple[str, list[Field], int]] = []
    for name in shape.groups_in_order():
        sizes = [(i, f) for i in shape.layers_of(name) for f in _field_shapes(shape, name, granularity[name])]
        if draft is not None and name == "full":
            first = len(shape.pattern)
            sizes += [
                (first + i, f) for i in draft.layers_of(name) for f in _field_shapes(draft, name, granularity[name])
            ]
        fields, packed = _fields(sizes, element_bytes)
        drafts.append((name, fields, packed))
    raw = {name: _aligned(fields[-1].offset_bytes + fields[-1].size_bytes) for name, fields, _ in drafts}
    parent, packing = _parent(raw)
    groups = [
        GroupLayout(name, granularity[name], tuple(fields), packed, packing[name], parent // packing[name], parent)
        for name, fields, packed in drafts
    ]
    host_parent = max(g.packing * g.payload_bytes for g in groups)
    return Layout(tuple(groups), parent, host_parent, element_bytes, len(shape.pattern))


def _parent(raw: dict[str, int]) -> tuple[int, dict[str, int]]:
    """Return the bytes of a parent and how many blocks of each group fill one: the smallest that is well filled.

    `raw` is the bytes of a block a group. Of n of the largest block less than one of any other is left over, so that
    it ends where a block is a `MOST_PADDING` of it, if not before.
    """
    most = max(raw.values())
    for times in count(1):
        packing = {name: times * most // size for name, size in raw.items()}
        unit = math.lcm(*(k * FIELD_ALIGN_BYTES for k in packing.values()))
        parent = -(-max(packing[name] * size for name, size in raw.items()) // unit) * unit
        if all(1 - raw[name] * k / parent <= MOST_PADDING for name, k in packing.items()):
            break
    return parent, packing


def _fields(sizes: Sequence[tuple[int, tuple[str, tuple[int, ...]]]], element_bytes: int) -> tuple[list[Field], int]:
    """Return fields one behind the other, given layer, name and shape of each, and the bytes of all of them packed."""
    fields: list[Field] = []
    offset = packed = 0
    for layer, (name, shape) in sizes:
        size = math.prod(shape) * element_bytes
        fields.append(Field(layer, name, shape, offset, packed, size))
        offset, packed = _aligned(offset + size), packed + size
    return fields, packed


def _field_shapes(shape: ModelShape, name: str, granularity: int) -> Sequence[tuple[str, tuple[int, ...]]]:
    if name == "state":
        return (("state", (shape.heads, shape.head_dim, shape.head_dim)), ("shift", (shape.hidden,)))
    rows = (granularity, shape.kv_heads, shape.head_dim)
    return (("k", rows), ("v", rows))


def _aligned(size: int) -> int:
    return -(-size // FIELD_ALIGN_BYTES) * FIELD_ALIGN_BYTES
