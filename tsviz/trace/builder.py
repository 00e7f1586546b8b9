"""Columns under construction: plain arrays that become Arrow buffers without a copy at flush.

A row object per scheduled row would cost more than the scheduler itself, so columns are extended a round at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from operator import itemgetter
from typing import Any

import pyarrow as pa

from .columns import INTS, TEXT, Table
from .growing_columns import CODES, Flags, Lists, Numbers, Strings, Words, utf8


class Vocabulary:
    """Distinct strings in order of first sight; their positions are dictionary codes. It only grows.

    What cannot be UTF-8 (a lone surrogate) is stored as its escape.
    """

    __slots__ = ("_arrow", "codes")

    def __init__(self) -> None:
        self.codes: dict[str, int] = {}
        self._arrow: pa.Array = pa.array((), pa.string())

    def code(self, text: str) -> int:
        """Return the code of `text`, adding it when it is new."""
        found = self.codes.get(text)
        if found is None:
            found = self.codes[text] = len(self.codes)
        return found

    def arrow(self) -> pa.Array:
        """All strings as an Arrow array; a longer one has the shorter as its prefix, as dictionary deltas need."""
        if (known := len(self._arrow)) != len(self.codes):
            new = [utf8(text) for text in islice(self.codes, known, None)]
            self._arrow = pa.concat_arrays([self._arrow, pa.array(new, pa.string())])
        return self._arrow


class TableBuilder:
    """Columns of one table; `columns[name]` is extended by the caller, all to the same length before `take`."""

    def __init__(self, table: Table, requests: Vocabulary, words: Vocabulary | None = None) -> None:
        """`requests`: vocabulary of request ids; `words`: of everything else.

        Without `words` each column has its own, and codes do not depend on which column is filled first.
        """
        self.table = table
        columns: dict[str, Any] = {}
        for column in table.columns:
            if column.type == TEXT:
                columns[column.name] = Words(
                    requests if column.name == "request" else Vocabulary() if words is None else words
                )
            elif column.type == INTS:
                columns[column.name] = Lists()
            elif column.type in CODES:
                columns[column.name] = Numbers(column.type)
            elif column.type == pa.bool_():
                columns[column.name] = Flags()
            else:
                columns[column.name] = Strings()
        self._settled = columns
        self._settlers: list[tuple[Callable[[Mapping[str, Any]], Any], Callable[[list[Any]], None]]] = [
            (itemgetter(c.name), columns[c.name].extend_any if c.nullable or c.type == TEXT else columns[c.name].extend)
            for c in table.columns
        ]
        self._added: list[Mapping[str, Any]] = []
        self._first = columns[table.columns[0].name]

    @property
    def columns(self) -> dict[str, Any]:
        """The columns, to be extended; rows that were added are in them."""
        self.settle()
        return self._settled

    @property
    def rows(self) -> int:
        """Rows under construction."""
        return len(self._first.values) + len(self._added)

    def add(self, **values: Any) -> None:
        """Append one row; strings of word columns are given as text."""
        self._added.append(values)

    def settle(self) -> None:
        """Put the rows that were added into the columns: a column at a time, a cell is far dearer."""
        if not self._added:
            return
        added, self._added = self._added, []
        for read, extend in self._settlers:
            extend(list(map(read, added)))

    def take(self) -> pa.RecordBatch:
        """Return the rows as one batch and start anew."""
        return pa.RecordBatch.from_arrays([c.take() for c in self.columns.values()], schema=self.table.schema)
