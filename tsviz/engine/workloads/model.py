"""What a workload is: requests with an arrival, a prompt made of spans, and an output made of spans.

Tokens are never stored: a span names a source and a range in it, and a token is a pure function of the two. Equal
spans give equal tokens, so sharing of prefixes is exactly the sharing of leading spans, and the 49 million prompt
tokens of a production sample cost nothing until a request is submitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Tokens = npt.NDArray[np.int32]

VOCABULARY_TOKENS = 131_072
"""Token ids are in [0, VOCABULARY_TOKENS): 17 bits, the size of a current model's vocabulary."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)


def invented_tokens(source: int, start: int, length: int) -> Tokens:
    """Return tokens `start .. start+length-1` of an endless sequence that belongs to `source` (splitmix64)."""
    with np.errstate(over="ignore"):
        position = np.arange(start, start + length, dtype=np.uint64)
        z = (np.uint64(source & 0xFFFF_FFFF_FFFF_FFFF) << np.uint64(24)) + position * _GOLDEN
        z = (z ^ (z >> np.uint64(30))) * _MIX_1
        z = (z ^ (z >> np.uint64(27))) * _MIX_2
        z ^= z >> np.uint64(31)
    return (z % np.uint64(VOCABULARY_TOKENS)).astype(np.int32)


@dataclass(frozen=True, slots=True)
class Span:
    """`length` tokens of the sequence that belongs to `source`, from position `start` on."""

    source: int
    start: int
    length: int

    def tokens(self) -> Tokens:
        """Return the tokens of the span."""
        return invented_tokens(self.source, self.start, self.length)


@dataclass(frozen=True, slots=True)
class GivenTokens(Span):
    """Tokens that somebody wrote down: a real prompt. Make one with `given_tokens`."""

    given: tuple[int, ...] = ()

    def tokens(self) -> Tokens:
        """Return the tokens."""
        return np.array(self.given, np.int32)


def given_tokens(tokens: Sequence[int]) -> GivenTokens:
    """Return a span that is these tokens."""
    return GivenTokens(-1, 0, len(tokens), tuple(tokens))


def expand(spans: Sequence[Span]) -> Tokens:
    """Return the tokens of the spans, one after the other, as one int32 array."""
    if not spans:
        return np.empty(0, np.int32)
    return np.concatenate([s.tokens() for s in spans])


def length_of(spans: Sequence[Span]) -> int:
    """Return how many tokens the spans make."""
    return sum(s.length for s in spans)


@dataclass(frozen=True, slots=True)
class WorkRequest:
    """One request of a workload.

    Either `arrival_ns` is set (virtual time since the start of the run), or `after` names a request of the same
    workload: then it arrives `think_ns` after that one ended (finished, aborted or was refused).
    `output` is what the simulated model will say; it stops after it. `max_new_tokens` is what the scheduler is told
    (0: undeclared).
    """

    request_id: str
    prompt: tuple[Span, ...]
    output: tuple[Span, ...]
    max_new_tokens: int
    arrival_ns: int | None = None
    after: str | None = None
    think_ns: int = 0

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return length_of(self.prompt)

    @property
    def output_tokens(self) -> int:
        """Length of the output."""
        return length_of(self.output)


@dataclass(frozen=True, slots=True)
class Workload:
    """Requests in submission order of their arrival, and where they come from.

    `meta` goes into the trace's metadata as it is: kind, source file, seed, scale, speed, rows, max_new and whatever
    was invented. `skipped` counts, per reason in words, the input rows that cannot be scheduled.
    """

    requests: tuple[WorkRequest, ...]
    meta: Mapping[str, str | int | float | bool | None]
    skipped: Mapping[str, int] = field(default_factory=dict)
