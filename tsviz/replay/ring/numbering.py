"""Numbers that hold all through what a ring kept: of submissions, which a trace counts from 0, and of prefix pages."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tsviz.trace.tables import RECORDED

Tables = dict[str, pa.Table]


def numbered(rows: pa.Table, ids: npt.NDArray[np.int64]) -> pa.Table:
    """Return rows whose submissions are numbered by their place in `ids`, which rise; -1 for one that is not there."""
    at = rows.schema.get_field_index("submission")
    if at < 0 or not rows.num_rows or not len(ids):
        return rows
    found = rows["submission"].to_numpy()
    place = np.minimum(np.searchsorted(ids, found), len(ids) - 1)
    local = np.where(ids[place] == found, place, -1).astype(np.int32)
    return rows.set_column(at, rows.schema.field(at), pa.array(local))


class PageNumbers:
    """One dictionary of prefix pages for segments that have one each (tokens in full)."""

    def __init__(self, sealed: list[pa.Table]) -> None:
        self._numbers: dict[bytes, int] = {}
        self._tables: list[pa.Table] = sealed
        for table in sealed:
            for tokens in table["tokens"].to_pylist():
                self._numbers[_bytes(tokens)] = len(self._numbers)

    def merged(self, read: Tables) -> Tables:
        """Return the tables of a segment with pages numbered on; without tokens their numbers hold all through."""
        rows = read["prefix_pages"].to_pylist()
        if not rows:
            return read
        numbers, new = np.zeros(len(rows), np.int32), []
        for row in rows:
            content = _bytes(row["tokens"])
            if content not in self._numbers:
                self._numbers[content] = len(self._numbers)
                new.append({**row, "page": self._numbers[content]})
            numbers[row["page"]] = self._numbers[content]
        schema = RECORDED["prefix_pages"].schema
        return {
            **read, "prefix_pages": pa.Table.from_pylist(new, schema),
            "submissions": _mapped(read["submissions"], numbers),
        }  # fmt: skip


def used_pages(tables: Tables) -> Tables:
    """Return submissions and their dictionary of pages without those that none of them has, numbered anew."""
    lists = tables["submissions"]["pages"].combine_chunks()
    used = np.unique(lists.values.to_numpy())
    numbers = np.full(tables["prefix_pages"].num_rows, -1, np.int32)
    numbers[used] = np.arange(len(used))
    pages = tables["prefix_pages"].take(pa.array(used))
    pages = pages.set_column(1, pages.schema.field(1), pa.array(np.arange(len(used), dtype=np.int32)))
    return {"prefix_pages": pages, "submissions": _mapped(tables["submissions"], numbers)}


def _bytes(tokens: list[int]) -> bytes:
    return array("i", tokens).tobytes()


def _mapped(submissions: pa.Table, numbers: npt.NDArray[np.int32]) -> pa.Table:
    """Return submissions whose pages have new numbers."""
    at = submissions.schema.get_field_index("pages")
    lists = submissions["pages"].combine_chunks()
    values = numbers[lists.values.to_numpy()] if len(lists.values) else lists.values.to_numpy()
    made = pa.ListArray.from_arrays(lists.offsets, pa.array(values, pa.int32()))
    return submissions.set_column(at, submissions.schema.field(at), made)
