"""Counts which ways of `executor-rules.md` section 8 (*Paths that must match*) a run has gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

import numpy as np
import numpy.typing as npt

from tsviz.executor.inputs import ForwardInputs, Row

PATHS = (
    "cold", "chunked", "device hit", "host hit", "canonical swap", "retracted, back from host",
    "retracted, back from device", "retracted, from scratch", "replay", "all candidates accepted",
    "candidate rejected", "no candidates", "mixed batch", "depth 0", "depth 1", "storage restore", "storage miss",
    "aborted neighbour",
)  # fmt: skip
"""Every way; the ones of a pair are counted by its own tests."""


class PathCounter:
    """Told of every batch, with the device pages that its plan loads from the host."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self._tables: dict[str, npt.NDArray[np.int64]] = {}
        self._begun: set[str] = set()
        self._computed: dict[str, int] = {}

    def batch(self, inputs: ForwardInputs, loaded: Collection[tuple[str, int]]) -> None:
        """Count the ways of one batch; `loaded` holds group and page of each load's target."""
        group = "full" if "full" in inputs.tables else next(iter(inputs.tables))
        tables = inputs.tables[group]
        for i, row in enumerate(inputs.rows):
            if row.is_extend:
                pages = {(name, int(page)) for name, table in inputs.tables.items() for page in table[i]}
                self._extend(row, not pages.isdisjoint(loaded))
            known = self._tables.get(row.request_id)
            if known is not None and not row.fresh:
                n = min(len(known), tables.shape[1])
                before, now = known[:n], tables[i, :n]
                self.counts["canonical swap"] += bool(((before != now) & (before > 0) & (now > 0)).any())
            self._tables[row.request_id] = tables[i]
        self.counts["mixed batch"] += 0 < inputs.num_extends < len(inputs.rows)

    def release(self, request_id: str) -> None:
        """Forget the request."""
        for known in (self._tables, self._computed):
            known.pop(request_id, None)
        self._begun.discard(request_id)

    def _extend(self, row: Row, is_loaded: bool) -> None:
        counts, request_id = self.counts, row.request_id
        end = row.begin + row.length
        if self._computed.get(request_id) == row.begin and not row.fresh:
            counts["chunked"] += 1
        elif request_id in self._begun:
            kept = "from scratch" if row.floor == 0 else "back from device"
            counts[f"retracted, {'back from host' if is_loaded else kept}"] += 1
        elif row.floor == 0:
            counts["cold"] += 1
        else:
            counts["host hit" if is_loaded else "device hit"] += 1
        counts["replay"] += row.replay > 0
        self._begun.add(request_id)
        self._computed[request_id] = end
