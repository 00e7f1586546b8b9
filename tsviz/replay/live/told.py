"""Decided tables of one round that a worker derived, as `Stories` reads tables."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from tsviz.trace.decided import DECIDED


class ToldRound:
    """The rows of one round; a table that was not told of is empty."""

    def __init__(self, rows: Mapping[str, pa.Table]) -> None:
        """`rows` by table."""
        self._rows = rows

    def table(self, name: str) -> pa.Table:
        """Return a decided table by name. Raises KeyError for a name that is none."""
        return self._rows[name] if name in self._rows else DECIDED[name].schema.empty_table()
