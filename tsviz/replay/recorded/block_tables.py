"""Block tables at any round, rebuilt from recorded differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from tsviz.replay.rows.lifetimes import PerRequest, column

from .snapshot import BlockTable

_HELD_CACHE = 1 << 14


class RecordedTables:
    """Block tables of requests of one part, by (submission, round)."""

    def __init__(self, changes: pa.Table, config: Mapping[str, Any], *, kept: int = _HELD_CACHE) -> None:
        """`changes` are rows of `table_changes`, those of one request in order; `config` is the part's.

        `kept`: how many answers of `held` are remembered.
        """
        self._rows = PerRequest(column(changes, "submission"), column(changes, "round"))
        self._round = column(changes, "round")
        self._code, self._names = _codes(changes["group"])
        self._fresh = changes["fresh"].to_numpy(zero_copy_only=False)
        self._first = column(changes, "first_slot")
        self._length = column(changes, "length_slots")
        lists = changes["pages"].combine_chunks()
        self._offsets = lists.offsets.to_numpy()
        self._pages = lists.values.to_numpy()
        self._groups = {group["group_id"]: i for i, group in reversed(list(enumerate(config["cache_groups"])))}
        self._group_count = len(config["cache_groups"])
        self._block_tokens = {g["group_id"]: int(g["block_granularity"]) for g in config["cache_groups"]}
        self._cached_held = lru_cache(kept)(self._held)
        self._cached_counts = lru_cache(kept)(self._counts)

    def _apply(self, rows: np.ndarray) -> dict[str, list[int]]:
        codes = self._code[rows]
        return {self._names[code]: self._table(rows[codes == code]) for code in dict.fromkeys(codes.tolist())}

    def _table(self, rows: np.ndarray) -> list[int]:
        """Return the table that some changes of one group make, from the last one on at which it starts anew."""
        fresh = np.flatnonzero(self._fresh[rows])
        rows = rows[int(fresh[-1]) :] if len(fresh) else rows
        first, length = self._first[rows], self._length[rows]
        begin, end = self._offsets[rows], self._offsets[rows + 1]
        appended = (first[1:] == length[:-1]).all() and first[0] == 0 and (length == first + end - begin).all()
        if appended and (begin[1:] == end[:-1]).all():
            whole: list[int] = self._pages[int(begin[0]) : int(end[-1])].tolist()
            return whole
        table: list[int] = []
        for slot, size, low, high in zip(first.tolist(), length.tolist(), begin.tolist(), end.tolist(), strict=True):
            pages = self._pages[low:high].tolist()
            table.extend([0] * (slot - len(table)))
            table[slot : slot + len(pages)] = pages
            del table[size:]
        return table

    def at(self, submission: int, round_: int) -> dict[str, list[int]]:
        """Return the tables as last written at or before `round_`, by group; 0 is a hole."""
        return self._apply(self._rows.until(submission, round_))

    def held(self, submission: int, round_: int) -> frozenset[tuple[int, int]]:
        """Return the (group index, page) pairs that stand in the request's tables behind the plan of `round_`."""
        return self._cached_held(submission, len(self._rows.until(submission, round_)))

    def counts(self, submission: int, round_: int) -> tuple[int, ...]:
        """Return how many pages `held` has in each group."""
        return self._cached_counts(submission, len(self._rows.until(submission, round_)))

    def _counts(self, submission: int, changes: int) -> tuple[int, ...]:
        found = Counter(group for group, _ in self._cached_held(submission, changes))
        return tuple(found[group] for group in range(self._group_count))

    def _held(self, submission: int, changes: int) -> frozenset[tuple[int, int]]:
        rows = self._rows.until(submission, 0xFFFF_FFFF)[:changes]
        return frozenset(
            (self._groups.get(group, -1), page) for group, table in self._apply(rows).items() for page in table if page
        )

    def tables(self, submission: int, round_: int, zeroed: dict[str, frozenset[int]]) -> tuple[BlockTable, ...]:
        """Return the tables at `round_` with what its plan changed; `zeroed` are the pages it zeroed, by group."""
        rows = self._rows.until(submission, round_)
        earlier = rows[self._round[rows] < round_]
        now, before = self._apply(rows), self._apply(earlier)
        restarted = {self._names[self._code[r]] for r in rows[len(earlier) :].tolist() if self._fresh[r]}
        built = []
        for group, pages in now.items():
            old = [] if group in restarted else before.get(group, [])
            changed = {slot for slot, page in enumerate(pages) if (old[slot] if slot < len(old) else None) != page}
            built.append(
                BlockTable(
                    group=group,
                    block_tokens=self._block_tokens.get(group, 0),
                    pages=tuple(pages),
                    changed=frozenset(changed),
                    before={slot: old[slot] for slot in changed if slot < len(old)},
                    zeroed=frozenset(s for s in changed if pages[s] in zeroed.get(group, frozenset())),
                )
            )
        return tuple(built)


def _codes(values: pa.ChunkedArray) -> tuple[np.ndarray, list[str]]:
    """Return a word column as numbers, and the words that they stand for."""
    if not len(values):
        return np.zeros(0, np.int32), []
    whole = values.unify_dictionaries().combine_chunks()
    return whole.indices.to_numpy(zero_copy_only=False), [word or "" for word in whole.dictionary.to_pylist()]
