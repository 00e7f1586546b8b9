"""Spans and tokens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tsviz.engine.workloads.model import Span, expand, length_of
from tsviz.engine.workloads.sources import Use, cut, source

ROOT = Path(__file__).resolve().parents[3]
SPANS = (Span(source(Use.BLOCK, 7), 3, 4), Span(source(Use.OUTPUT, 2**36 - 1), 0, 2))


def by_definition(source_number: int, position: int) -> int:
    """Token by the published splitmix64 finalizer, in plain integers."""
    mask = 2**64 - 1
    z = ((source_number << 24) + position * 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return (z ^ (z >> 31)) % 131_072


def test_a_token_is_splitmix64_of_its_source_and_position() -> None:
    """A span's tokens are those of the definition, whatever its use and number."""
    expected = [by_definition(span.source, span.start + k) for span in SPANS for k in range(span.length)]
    assert expand(SPANS).tolist() == expected


def test_the_same_spans_give_the_same_tokens_in_another_process() -> None:
    """Another process with another hash seed expands equal spans to equal tokens."""
    code = (
        "from tsviz.engine.workloads.model import Span, expand\n"
        f"print(*expand([Span(s, a, n) for s, a, n in {[(s.source, s.start, s.length) for s in SPANS]}]))"
    )
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert [int(token) for token in done.stdout.split()] == expand(SPANS).tolist()


def test_uses_and_numbers_do_not_collide_in_the_forty_bits_that_tell_sources_apart() -> None:
    """Sources of different use or number differ in their low 40 bits, which are all that tokens depend on."""
    numbers = (0, 1, 2**22, 2**36 - 1)
    low = {source(use, number) & (2**40 - 1) for use in Use for number in numbers}
    assert len(low) == len(Use) * len(numbers)


def test_cut_takes_the_same_tokens_as_slicing_the_expansion() -> None:
    """Cutting spans and slicing their tokens agree for every start and length, also beyond the end."""
    spans = (Span(1, 0, 3), Span(2, 5, 1), Span(3, 2, 4))
    tokens = expand(spans).tolist()
    for start in range(length_of(spans) + 2):
        for length in range(length_of(spans) + 2):
            assert expand(cut(spans, start, length)).tolist() == tokens[start : start + length]
