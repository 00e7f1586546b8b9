"""R4: bytes of prompts, by prefix page, on the Mooncake sample: tables submissions and prefix_pages of a closed bundle."""

from __future__ import annotations

from collections.abc import Iterator

from tsviz.trace.tokens import FULL, IDENTITY

from .measure import Line
from .r2_size import table_bytes
from .runs import mooncake, run_recorded, scratch

_ROWS = 600


def figures() -> Iterator[Line]:
    """Yield bytes a distinct prompt token (full) and bytes a prompt page (identity)."""
    case = mooncake(_ROWS)
    if case is None:
        yield Line("R4", "mooncake: the sample is not at hand", float("nan"), "")
        return
    options, workload = case
    with scratch() as directory:
        for tokens in (FULL, IDENTITY):
            path = directory / tokens
            run_recorded(options, workload, path, tokens, compacted=True)
            yield _line(path, tokens)


def _line(path: Path, tokens: str) -> Line:
    part = next(iter(Bundle(path).parts))
    raise NotImplementedError
