"""Plans as immutable values: rows share the append-only tables and tokens of their requests.

A plan costs one tuple a row that changed; lists and arrays are made when they are read.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from tsviz.scheduler.cache.tables import TableView
from tsviz.scheduler.cache.transfers import LoadOp, StoreOp


class Row(NamedTuple):
    """One forward row. A decode row has no tokens."""

    request_id: str
    slot: int
    input_length: int
    prefill_length: int
    views: tuple[TableView, ...]
    prefix_tokens: int
    """Prefill: position of the first input token (replayed ones included)."""
    replay_tokens: int
    tokens: array[int] | None
    decode_input_id: int
    spec_candidates: tuple[int, ...]

    def input_ids(self) -> list[int]:
        """Prefill: the tokens fed."""
        assert self.tokens is not None
        return self.tokens[self.prefix_tokens : self.prefix_tokens + self.input_length].tolist()

    def shifted_input_ids(self) -> list[int]:
        """Prefill: the token after each one fed, -1 beyond the prompt."""
        assert self.tokens is not None
        end = self.prefix_tokens + self.input_length + 1
        ids = self.tokens[self.prefix_tokens + 1 : min(end, self.prefill_length)].tolist()
        return ids + [-1] * (self.input_length - len(ids))


def visible_pages(view: TableView) -> list[int]:
    """A table's slots as page ids, 0 for a hole."""
    pages, length, frontier = view
    if not frontier:
        return pages[:length].tolist()
    holes = min(frontier, length)
    return [0] * holes + pages[holes:length].tolist()


class Batch(NamedTuple):
    """Rows of one forward, prefill rows first."""

    rows: tuple[Row, ...]
    num_extends: int
    group_ids: tuple[str, ...]

    @property
    def extends(self) -> Sequence[Row]:
        """Prefill rows."""
        return self.rows[: self.num_extends]

    @property
    def decodes(self) -> Sequence[Row]:
        """Decode rows."""
        return self.rows[self.num_extends :]

    def table_rows(self) -> dict[str, list[TableView]]:
        """Group id (lexicographic) -> one table per row; the first of duplicate ids wins."""
        if not self.rows:
            return {}
        index: dict[str, int] = {}
        for position, group_id in enumerate(self.group_ids):
            index.setdefault(group_id, position)
        return {group_id: [row.views[index[group_id]] for row in self.rows] for group_id in sorted(index)}


class Plan(NamedTuple):
    """What one round decided."""

    batch: Batch
    remote_decode: Batch | None
    remote_prefill: Batch | None
    stores: tuple[StoreOp, ...]
    loads: tuple[LoadOp, ...]
    zero_pages: tuple[tuple[int, ...], ...] | None
    """Per group the fresh pages (all pages of an id under its first group); None without an admission."""
    storage_keys: bool
    """Whether load operations carry hashes and offsets (storage tier on)."""

    def pages_to_zero(self) -> dict[str, list[int]]:
        """Group id (lexicographic) -> fresh pages; duplicate ids are concatenated."""
        if self.zero_pages is None:
            return {}
        merged: dict[str, list[int]] = {}
        for group_id, pages in zip(self.batch.group_ids, self.zero_pages, strict=True):
            merged.setdefault(group_id, []).extend(pages)
        return dict(sorted(merged.items()))
