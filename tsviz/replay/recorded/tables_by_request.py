"""Block tables of a part that is too large to hold those of all requests: of the last that were asked for they are."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

from .block_tables import RecordedTables
from .snapshot import BlockTable

Changes = Callable[[int, int], Any]
"""Returns the rows of `table_changes` of the submissions from the first to the last, request by request."""
_KEPT_TABLES = 128


class TablesByRequest:
    """Block tables, by (submission, round)."""

    def __init__(self, config: Mapping[str, Any], changes: Changes, *, kept: int = _KEPT_TABLES) -> None:
        """`kept`: of how many requests."""
        self._config, self._changes, self._most = config, changes, kept
        self._kept: OrderedDict[int, RecordedTables] = OrderedDict()

    def held(self, submission: int, round_: int) -> frozenset[tuple[int, int]]:
        """Return the (group index, page) pairs that stand in the request's tables behind the plan of `round_`."""
        return self._of(submission).held(submission, round_)

    def at(self, submission: int, round_: int) -> dict[str, list[int]]:
        """Return the tables as last written at or before `round_`, by group; 0 is a hole."""
        return self._of(submission).at(submission, round_)

    def tables(self, submission: int, round_: int, zeroed: dict[str, frozenset[int]]) -> tuple[BlockTable, ...]:
        """Return the tables at `round_` with what its plan changed; `zeroed` are the pages it zeroed, by group."""
        return self._of(submission).tables(submission, round_, zeroed)

    def _of(self, submission: int) -> RecordedTables:
        kept = self._kept
        if submission not in kept:
            kept[submission] = RecordedTables(self._changes(submission, submission), self._config, kept=2)
            while len(kept) > self._most:
                kept.popitem(last=False)
        kept.move_to_end(submission)
        return kept[submission]
