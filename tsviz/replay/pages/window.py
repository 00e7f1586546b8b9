"""The recorded tables of a stretch of rounds, as far as the pages need them: read by row group, bounded by the stretch.

What a request did before the stretch is told by its table changes, which are read from its first one on; requests that
ended before it are not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from tsviz.replay.recorded.lives import Lives
from tsviz.replay.rows.lifetimes import Lifetimes, Longs
from tsviz.replay.rows.rows_from import HasTables, RowsFrom
from tsviz.trace.tables import RECORDED

_COLUMNS: dict[str, tuple[str, ...]] = {
    "rounds": ("round", "empty_pages"),
    "calls": ("round", "kind", "outcome"),
    "events": ("round", "op_id", "value", "applied"),
    "zeroed": ("round", "group", "page"),
    "transfers": (
        "round", "op_id", "kind", "source_pinned", "group_index", "src_page", "dst_page", "content_hash", "page_offset",
        "from_storage",
    ),
}  # fmt: skip
_APART = 64
"""Requests whose numbers are further apart are read one after the other, not with all that lie between them."""


class PagesPart(Protocol):
    """Tables from which pages are told: those of a part, or of a stretch of it."""

    @property
    def config(self) -> Mapping[str, Any]:
        """Configuration of the part's scheduler."""
        ...

    @property
    def meta(self) -> Mapping[str, Any]:
        """What the part says of itself; `starts_at` is the first round of one that does not begin at round 1."""
        ...

    def table(self, name: str) -> Any:
        """Return a table."""
        ...


Changes = Callable[[int, int], Any]
"""Returns the rows of `table_changes` of the submissions from the first to the last, request by request."""


class RowReaders:
    """Readers of the tables of one part; each is made once, for all stretches."""

    def __init__(self, tables: HasTables) -> None:
        self._tables = tables
        self._readers: dict[str, RowsFrom] = {}

    def between(self, name: str, names: tuple[str, ...], first: int, last: int) -> Any:
        """Return some columns of the rows of the rounds from `first` to `last`. Raises `TraceError`."""
        if name not in self._readers:
            self._readers[name] = RowsFrom(self._tables, name, names, key="round")
        found = self._readers[name].between(first, last)
        return found.unify_dictionaries().combine_chunks()


class PartWindow:
    """A stretch of rounds of one part. `table` has the columns that the pages need, no others."""

    def __init__(
        self, part: PagesPart, rows: RowReaders, life: Lifetimes | Lives, changes: Changes, begun: Iterable[int],
        first: int, last: int,
    ) -> None:  # fmt: skip
        """`begun` are the rounds before `first` in which operations began that are out at it. Raises `TraceError`."""
        self.config = part.config
        self.meta: Mapping[str, Any] = part.meta if first <= 1 else {**part.meta, "starts_at": first}
        self._tables = {name: rows.between(name, names, first, last) for name, names in _COLUMNS.items()}
        names = _COLUMNS["transfers"]
        earlier = [rows.between("transfers", names, round_, round_) for round_ in begun]
        if earlier:
            joined = pa.concat_tables([*earlier, self._tables["transfers"]])
            self._tables["transfers"] = joined.unify_dictionaries().combine_chunks()
        there = life.accepted & (life.submitted <= last) & (life.end_round >= first)
        self._tables["table_changes"] = _changes_of(np.flatnonzero(there).astype(np.int64), changes, last)

    def table(self, name: str) -> Any:
        """Return what there is of a table. Raises KeyError for one that the pages do not need."""
        return self._tables[name]


def _changes_of(submissions: Longs, changes: Changes, last: int) -> Any:
    """Return the table changes of some requests up to a round."""
    found = [RECORDED["table_changes"].schema.empty_table()] if not len(submissions) else []
    for run in np.split(submissions, np.flatnonzero(np.diff(submissions) > _APART) + 1) if len(submissions) else ():
        rows = changes(int(run[0]), int(run[-1]))
        kept = np.isin(rows["submission"].to_numpy(), run) & (rows["round"].to_numpy() <= last)
        found.append(rows.filter(pa.array(kept)))
    return pa.concat_tables(found).unify_dictionaries().combine_chunks()


class DecidedWindow:
    """The decisions of a stretch of rounds that the pages need."""

    def __init__(self, rows: RowReaders, first: int, last: int) -> None:
        """Raises `TraceError`."""
        self._rows, self._first, self._last = rows, first, last

    def table(self, name: str) -> Any:
        """Return the rows of a decided table in these rounds. Raises `TraceError`."""
        return self._rows.between(name, _DECIDED[name], self._first, self._last)


_DECIDED: dict[str, tuple[str, ...]] = {
    "states": ("round", "submission", "after"),
    "retractions": ("round", "victim", "outcome"),
    "evictions": ("round", "tier", "group", "page", "kind", "epoch", "acquired"),
    "publications": ("round", "submission", "group", "kind", "first_page", "end_page", "new_pages"),
}
