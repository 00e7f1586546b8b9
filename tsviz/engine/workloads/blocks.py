"""Prompts given as chained block ids: an id stands for a block and everything before it, whoever has it.

So an id has one predecessor and one place in any prompt; both are checked. With `scale` a block keeps its identity and
gets shorter: block i holds positions i*tokens//scale up to (i+1)*tokens//scale, which adds up to length//scale even for
a scale that does not divide the block, and equal ids still give equal tokens at equal places.
"""

from __future__ import annotations

from collections.abc import Callable

from tsviz.engine.workloads.errors import Place, WorkloadError
from tsviz.engine.workloads.model import Span

_FIRST = -1


class Blocks:
    """The ids of one id space seen so far: what each came after, and its span.

    `block_tokens` is the size of a block before scaling, `id_bits` bounds the ids, `source_of` gives the source of the
    tokens of an id. Raises `WorkloadError` for a scale that leaves no token of a block.
    """

    def __init__(self, block_tokens: int, scale: int, id_bits: int, source_of: Callable[[int], int]) -> None:
        if scale > block_tokens:
            raise WorkloadError("workload options", "option", "scale", f"at most the block, {block_tokens}", scale)
        self.block_tokens, self._scale, self._id_bits, self._source_of = block_tokens, scale, id_bits, source_of
        self._before: dict[int, int] = {}
        self._spans: dict[int, Span] = {}

    def start(self, index: int) -> int:
        """Return the scaled position at which block number `index` of any prompt starts."""
        return index * self.block_tokens // self._scale

    def ids(self, value: object, count: int, rule: str, place: Place) -> list[int]:
        """Return the ids of one prompt, checked: `count` of them by `rule` (said in the error), chained."""
        if not isinstance(value, list):
            raise place.error("hash_ids", "a list of block ids", type(value).__name__)
        if len(value) != count:
            raise place.error("hash_ids", f"{count} ids ({rule})", f"{len(value)} ids")
        before, limit, previous = self._before, 1 << self._id_bits, _FIRST
        for index, block in enumerate(value):
            if type(block) is not int or not 0 <= block < limit:
                raise place.error(f"hash_ids[{index}]", f"a whole number from 0 to 2^{self._id_bits} - 1", block)
            if before.setdefault(block, previous) != previous:
                expected = f"chained ids: {block} after {_named(before[block])} as in an earlier row"
                raise place.error(f"hash_ids[{index}]", expected, f"after {_named(previous)}")
            previous = block
        return value

    def spans(self, ids: list[int]) -> list[Span]:
        """Return one whole span for each of the (checked) ids of a prompt."""
        known, start = self._spans, self.start
        spans: list[Span] = []
        for index, block in enumerate(ids):
            span = known.get(block)
            if span is None:
                span = known[block] = Span(self._source_of(block), 0, start(index + 1) - start(index))
            spans.append(span)
        return spans


def _named(block: int) -> str:
    return "nothing" if block == _FIRST else f"{block}"
