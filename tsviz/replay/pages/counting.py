"""How many pages of a group are what."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .values import CODES, EMPTY

Cells = npt.NDArray[Any]


def counts_of(codes: Cells, bound: Cells) -> dict[str, int]:
    """Return how many pages of a group have each code; `bound` says which pages lie in parents of the group."""
    counts = np.bincount(codes[1:], minlength=len(CODES))
    counts[EMPTY] = int((bound & (codes[1:] == EMPTY)).sum())
    return {name: int(count) for name, count in zip(CODES, counts, strict=True) if count}
