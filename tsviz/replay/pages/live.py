"""What only the scheduler itself knows of its pages: the prefix index, and the order in which it would evict.

It comes from a worker that re-executes the trace (`live.py`), for rounds that it verified; laid over the recorded map
it leaves nothing unknown (architecture.md, section 6, *Live state*).
"""

from __future__ import annotations

from array import array
from dataclasses import replace

import numpy as np

from tsviz.replay.live.ask import Live, Nothing
from tsviz.replay.live.pages import KINDS, LiveTier
from tsviz.trace.reader import Part

from . import values as v
from .counting import counts_of
from .values import CachedPage, PagesMap


class LivePageSource:
    """Live maps of one part. The worker starts with the first question."""

    def __init__(self, part: Part) -> None:
        """Start nothing."""
        self._part = part
        self._live: Live | None = None

    def over(self, pages: PagesMap, wait_seconds: float) -> PagesMap | str:
        """Return the map with what is live in its round, waiting for so long at most; or why it is not there (yet)."""
        part = self._part
        if self._live is None:
            bundle = part.directory.parent.parent
            self._live = Live(bundle, part.node, part.rank, part.meta.get("starts_at", 1), part.last_round)
        state = self._live.state((pages.round, None), wait_seconds)
        if isinstance(state, Nothing):
            return "" if state.cause in ("pending", "superseded") else state.words
        return with_live(pages, state.tiers[pages.tier == v.HOST])

    def close(self) -> None:
        """Stop the worker; another question starts it again."""
        if self._live is not None:
            self._live.close()
            self._live = None


def with_live(pages: PagesMap, tier: LiveTier) -> PagesMap:
    """Return the map with caching and bindings as its tier has them, which must stand behind the map's round."""
    parents = np.full(len(pages.parents), v.UNBOUND, np.int8)
    used = min(len(parents), len(tier.block_group))
    bound = (tier.block_pages[:used] > 0) & (np.arange(used) > 0)
    parents[:used][bound] = tier.block_group[:used][bound]
    live: dict[tuple[int, int], CachedPage] = {}
    codes, counts = [], []
    for group, columns in enumerate(tier.groups):
        cells = np.frombuffer(pages.codes[group], np.uint8).copy()
        size = min(len(cells), len(columns.kind))
        held = np.zeros(len(cells), np.bool_)
        cached = np.zeros(len(cells), np.bool_)
        bound_here = np.repeat(parents[1:] == group, columns.packing)
        cached[:size] = columns.kind[:size] >= 0
        held[1:] = bound_here
        open_ = (cells == v.UNKNOWN) | (cells == v.CACHED) | (cells == v.EMPTY)
        cells[open_] = np.where(cached[open_] & held[open_], v.CACHED, v.EMPTY)
        for page in np.flatnonzero(cached & held).tolist():
            live[group, page] = CachedPage(
                KINDS[columns.kind[page]], int(columns.epoch[page]), bool(columns.acquired[page]),
                int(columns.eviction[page]),
            )  # fmt: skip
        codes.append(cells.tobytes())
        counts.append(counts_of(cells, bound_here))
    return replace(
        pages, parents=array("b", parents.tobytes()), codes=tuple(codes), counts=tuple(counts), unknown_parents=0,
        unknown_cached=0, source="live", live=live,
        empty_parents=pages.empty_parents if pages.tier == v.DEVICE else tier.empty_blocks,
    )  # fmt: skip
