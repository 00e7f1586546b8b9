"""Which sequence of tokens a span may name, so that nothing is shared by accident.

`invented_tokens` tells sources apart by their low 40 bits and keeps two sources apart as long as positions stay below
2^24. Four bits say what the sequence is for, 36 which one it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from tsviz.engine.workloads.model import Span

NUMBER_BITS = 36
"""Sequences of one use are numbered below 2^36."""

LENGTH_LIMIT_TOKENS = 1 << 24
"""Longest sequence that is sure to be unlike every other: 16,777,216 tokens."""


class Use(IntEnum):
    """What a sequence of tokens is for; different uses never share tokens."""

    BLOCK = 0
    """A block whose identity the trace states (or one of the leading parts of a generator)."""
    PROMPT = 1
    """Part of a prompt that no other request has."""
    OUTPUT = 2
    """Output of one request."""
    SYSTEM = 3
    """Tool and system blocks that were invented to be common."""
    SUBAGENT_SYSTEM = 4
    """The same, of sub-agents."""


def source(use: Use, number: int) -> int:
    """Return the source of sequence `number` (in 0 .. 2^36 - 1) for that use."""
    if not 0 <= number < 1 << NUMBER_BITS:
        raise ValueError(f"sequence number: expected 0 to 2^{NUMBER_BITS} - 1, found {number}")
    return use << NUMBER_BITS | number


def cut(spans: Sequence[Span], start: int, length: int) -> tuple[Span, ...]:
    """Return at most `length` tokens of the spans from position `start` on, as spans (fewer where they end)."""
    kept: list[Span] = []
    for span in spans:
        if start >= span.length:
            start -= span.length
            continue
        if length <= 0:
            break
        take = min(span.length - start, length)
        kept.append(Span(span.source, span.start + start, take))
        length -= take
        start = 0
    return tuple(kept)
