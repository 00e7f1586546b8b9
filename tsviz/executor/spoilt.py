"""Block tables as three mistakes of the catalogue would have them (`executor-rules.md` section 10, 9, 22 and 30)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tsviz.executor.inputs import ForwardInputs
from tsviz.executor.options import Fault

Table = npt.NDArray[np.int64]


class TableSpoiler:
    """Remembers the tables of the rounds before."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, str], Table] = {}
        self._staging: dict[str, Table] = {}

    def spoil(self, inputs: ForwardInputs, faults: frozenset[Fault]) -> ForwardInputs:
        """Return the inputs with the tables that the faults make of theirs."""
        tables = inputs.tables
        if Fault.STALE_TABLE in faults:
            tables = {name: self._stale(name, table, inputs) for name, table in tables.items()}
        if Fault.SHARED_STAGING in faults:
            tables = self._shared(tables)
        if Fault.TABLE_HOLE in faults:
            tables = {name: _holed(table, inputs.num_extends) for name, table in tables.items()}
        return replace(inputs, tables=tables)

    def _stale(self, name: str, table: Table, inputs: ForwardInputs) -> Table:
        table = table.copy()
        for i, row in enumerate(inputs.rows):
            last = self._last.get((name, row.request_id))
            if last is not None and not row.fresh:
                n = min(len(last), table.shape[1])
                table[i, :n] = np.where(last[:n] > 0, last[:n], table[i, :n])
            self._last[name, row.request_id] = table[i].copy()
        return table

    def _shared(self, tables: Mapping[str, Table]) -> dict[str, Table]:
        shared = {}
        for name, table in tables.items():
            if name not in self._staging:
                self._staging[name] = np.full((64, 256), -1, np.int64)
            view = self._staging[name][: table.shape[0], : table.shape[1]]
            view[:] = table
            shared[name] = view
        return shared


def _holed(table: Table, num_extends: int) -> Table:
    """Return the table without the last page of each row behind the extends."""
    table = table.copy()
    for row in table[num_extends:]:
        row[np.flatnonzero(row > 0)[-1:]] = 0
    return table
