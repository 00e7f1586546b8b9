"""The device arena: one buffer, and typed views of every field in it (`executor-rules.md` section 7)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from tsviz.executor.layout import Field, GroupLayout, Layout
from tsviz.trace.order.ops import ByteRange

POISON = math.nan
"""What a fresh page holds in debug runs instead of zeros: whoever reads what nobody wrote says so in the logits."""


class NoMemory(Exception):
    """The device or the host has no room for a pool; says how many bytes were asked for."""


class Arena:
    """`parents + 1` LCM parents of bytes; parent 0 is the null parent, zeroed and never written."""

    def __init__(self, layout: Layout, parents: int, dtype: torch.dtype, device: str = "cpu") -> None:
        """Allocate, zeroed. Raises NoMemory."""
        self.layout = layout
        self.parents = parents
        size = (parents + 1) * layout.parent_bytes
        try:
            self.data = torch.zeros(size // layout.element_bytes, dtype=dtype, device=device)
        except (RuntimeError, MemoryError) as error:
            raise NoMemory(f"the device has no memory for an arena of {size:,} bytes") from error
        self.bytes = self.data.view(torch.uint8)
        self._views = {(g.name, f.layer, f.name): self._view(g, f) for g in layout.groups for f in g.fields}

    def view(self, group: str, layer: int, field: str) -> Tensor:
        """Return a field of all blocks of a group, `[blocks, *shape]`, by page id."""
        return self._views[group, layer, field]

    def fill(self, ranges: Sequence[ByteRange], value: float) -> None:
        """Write zeros, or poison, to byte ranges."""
        size = self.layout.element_bytes
        for r in ranges:
            self.data[r.begin // size : r.end // size].fill_(value)

    def packed(self, group: GroupLayout, page: int, layer: int | None = None) -> Tensor:
        """Return a block's fields, packed bytes on the device; of one layer, or of all."""
        base = group.device_offset(page)
        spans = [(base + f.offset_bytes, f.size_bytes) for f in group.fields_of(layer)]
        return torch.cat([self.bytes[at : at + size] for at, size in spans])

    def read_block(self, group: GroupLayout, page: int, layer: int | None = None) -> bytes:
        """Return a block's fields, packed, on the host; of one layer, or of all."""
        return bytes(self.packed(group, page, layer).cpu().numpy().tobytes())

    def write_block(self, group: GroupLayout, page: int, packed: Tensor, layer: int | None = None) -> None:
        """Write a block's fields from packed bytes; those of one layer, or all."""
        base, at = group.device_offset(page), 0
        for f in group.fields_of(layer):
            target = self.bytes[base + f.offset_bytes : base + f.offset_bytes + f.size_bytes]
            target.copy_(packed[at : at + f.size_bytes])
            at += f.size_bytes

    def null_parent_is_zero(self) -> bool:
        """Return whether the guard page was left alone."""
        return not bool(self.data[: self.layout.parent_bytes // self.layout.element_bytes].any())

    def _view(self, group: GroupLayout, field: Field) -> Tensor:
        size = self.layout.element_bytes
        blocks = 1 + self.parents * group.packing
        strides = [group.stride_bytes // size, *(math.prod(field.shape[i + 1 :]) for i in range(len(field.shape)))]
        offset = (group.device_offset(0) + field.offset_bytes) // size
        return torch.as_strided(self.data, (blocks, *field.shape), strides, offset)


class HostPool:
    """The host tier: one buffer of packed blocks (`executor-rules.md` section 6)."""

    def __init__(self, layout: Layout, parents: int, *, pinned: bool = False) -> None:
        """Allocate. Raises NoMemory."""
        self.layout = layout
        size = parents * layout.host_parent_bytes
        try:
            self.bytes = torch.zeros(size, dtype=torch.uint8, pin_memory=pinned)
        except (RuntimeError, MemoryError) as error:
            raise NoMemory(f"the host has no memory for a pool of {size:,} bytes") from error

    def block(self, group: GroupLayout, page: int) -> Tensor:
        """Return the bytes of one block."""
        begin = self.layout.host_offset(group, page)
        return self.bytes[begin : begin + group.payload_bytes]

    def fields(self, group: GroupLayout, page: int, layer: int) -> list[Tensor]:
        """Return the bytes of one layer's fields in a block."""
        block = self.block(group, page)
        return [block[f.packed_bytes : f.packed_bytes + f.size_bytes] for f in group.fields_of(layer)]

    def store(self, arena: Arena, group: GroupLayout, device_page: int, host_page: int) -> None:
        """Copy a block out of the arena, its fields packed."""
        block, base = self.block(group, host_page), group.device_offset(device_page)
        for f in group.fields:
            source = arena.bytes[base + f.offset_bytes : base + f.offset_bytes + f.size_bytes]
            block[f.packed_bytes : f.packed_bytes + f.size_bytes].copy_(source, non_blocking=True)

    def load(self, arena: Arena, group: GroupLayout, host_page: int, device_page: int, layer: int | None) -> None:
        """Copy a block, or one layer's fields of it, into the arena."""
        block, base = self.block(group, host_page), group.device_offset(device_page)
        for f in group.fields_of(layer):
            target = arena.bytes[base + f.offset_bytes : base + f.offset_bytes + f.size_bytes]
            target.copy_(block[f.packed_bytes : f.packed_bytes + f.size_bytes], non_blocking=True)
