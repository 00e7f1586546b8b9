"""Which bytes a forward reads and writes, from what the host knows (`executor-rules.md` section 2, *CPU executor*).

All of it is put off until somebody looks (`ranges`), and worked out for many forwards at once then (`touched_bytes`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tsviz.executor.crcs import DEVICE, Block
from tsviz.executor.inputs import ForwardInputs
from tsviz.executor.options import Fault
from tsviz.executor.ranges import LaterRanges, What
from tsviz.executor.shape import ModelShape
from tsviz.executor.touched_bytes import FieldSpans, Together, together
from tsviz.trace.entries import ManyRanges
from tsviz.trace.order.ops import ByteRange

Ranges = LaterRanges | tuple[ByteRange, ...]


@dataclass(frozen=True, slots=True)
class Touching:
    """What is the same for every forward of a device."""

    shape: ModelShape
    fields: FieldSpans
    prefix_granularity: int
    draft_layers: int = 0
    faults: frozenset[Fault] = frozenset()


class Touched:
    """The bytes of one forward."""

    __slots__ = ("device", "inputs", "upper")

    def __init__(self, inputs: ForwardInputs, upper: ForwardInputs, device: Touching) -> None:
        """`upper` is what the layers of a narrowed decoder see; the same as `inputs` without one."""
        self.inputs, self.upper, self.device = inputs, upper, device

    @staticmethod
    def together(asked: Sequence[LaterRanges]) -> ManyRanges:
        """Return the bytes of several forwards of one device."""
        return together(asked)

    def layer(self, layer: int | None) -> tuple[Ranges, Ranges]:
        """Return what one layer reads and writes in the arena; for None what all of the model's do."""
        return LaterRanges(self, What.READS, layer), LaterRanges(self, What.WRITES, layer)

    def drafted_from(self) -> Ranges:
        """Return what an epilogue reads to draft: the draft model's keys and values of everything before."""
        return LaterRanges(self, What.DRAFTED) if self.device.draft_layers else ()

    def committed(self) -> Ranges:
        """Return the state pages that an epilogue may write: those of every length that a decode may come to."""
        return LaterRanges(self, What.COMMITTED) if "M" in self.device.shape.pattern else ()

    def blocks(self, layer: int | None) -> tuple[list[Block], list[Block]]:
        """Return the blocks that one layer reads, and those that it writes; for None all of the model's."""
        found: tuple[list[Block], list[Block]] = [], []
        alone = Together((self,))
        for group, *touched in alone.layers(layer):
            for blocks, spans in zip(found, touched, strict=True):
                blocks += [Block(DEVICE, group, page, layer) for page in sorted(set(spans.pages.tolist()))]
        return found

    def committed_blocks(self) -> list[Block]:
        """Return the same as blocks."""
        shape, layout = self.device.shape, self.device.fields.layout
        if "M" not in shape.pattern:
            return []
        pages = sorted(set(Together((self,)).committed()[1].pages.tolist()))
        return [
            Block(DEVICE, layout.group("state"), page, layer) for layer in shape.layers_of("state") for page in pages
        ]
