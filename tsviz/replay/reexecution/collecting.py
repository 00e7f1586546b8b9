"""The search for reference cycles, put off while hundreds of thousands of small values are made that stay.

A keyframe, a state and the rounds behind it are tuples of a pool of tens of thousands of pages; looking through all of
them again and again for cycles, of which there are none, takes a quarter of the time of re-execution.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_SELDOM = (200_000, 20, 100)


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Let the interpreter look for cycles seldom while the block runs."""
    before = gc.get_threshold()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
