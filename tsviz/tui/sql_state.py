"""The query of the user, its result, and what was asked before: kept while other screens are looked at."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tsviz.tui import keep
from tsviz.tui.grid import Columns, Grid
from tsviz.tui.jobs import Done
from tsviz.tui.queries import Saved, Total, Trouble

ROWS = 10_000
"""Rows that are asked for at first; each `more` asks for ten times as many."""
MOST_ROWS = 1_000_000
_KEPT_QUERIES = 500
FIRST_TEXT = """\
SELECT request, ttft_ns / 1e6 AS ttft_ms, tpot_ns / 1e6 AS tpot_ms, retractions
FROM requests ORDER BY ttft_ms DESC LIMIT 100"""


@dataclass
class SqlState:
    """Everything the SQL screen shows."""

    text: str = FIRST_TEXT
    asked: str = ""
    """The query whose result is shown or arriving."""
    rows: int = ROWS
    grid: Grid | None = None
    total: Total | None = None
    trouble: Trouble | None = None
    saved: Saved | None = None
    running: bool = False
    began_s: float = 0.0
    took_s: float = 0.0
    history: list[str] = field(default_factory=list)
    _loaded: bool = False
    _broken: str = ""

    def begin(self, sql: str, rows: int) -> None:
        """A query begins; the old result stays until the new one has columns."""
        self.asked, self.rows, self.running, self.began_s = sql, rows, True, time.monotonic()
        self.total, self.trouble, self.saved = None, None, None

    def saving(self) -> None:
        """The result is being written; what is shown stays."""
        self.running, self.began_s, self.trouble, self.saved = True, time.monotonic(), None, None

    def stop(self) -> None:
        """Nothing runs any more."""
        if self.running:
            self.running, self.took_s = False, time.monotonic() - self.began_s

    def take(self, value: object) -> None:
        """Keep what the query says."""
        match value:
            case Columns():
                self.grid = Grid(value)
            case Total():
                self.total = value
            case Trouble():
                self.trouble = value
            case Saved():
                self.saved = value
            case Done(error=error):
                self.running = False
                self.took_s = time.monotonic() - self.began_s
                if error and self.trouble is None:
                    self.trouble = Trouble("failed", error)
            case _ if self.grid is not None:
                self.grid.add(value)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the query that runs was asked, or that the last one took."""
        return time.monotonic() - self.began_s if self.running else self.took_s

    def remember(self, sql: str) -> str:
        """Put a query at the end of the history and keep it; return why it could not be kept, or nothing."""
        self.load()
        self.history = [*(old for old in self.history[-_KEPT_QUERIES:] if old != sql), sql]
        if self._broken:
            return self._broken
        failed = keep.write(keep.state_directory() / "queries.json", self.history)
        return "" if failed is None else f"The history is not kept: {failed.reason}"

    def load(self) -> str:
        """Read the history once; return why it could not be read, or nothing."""
        if self._loaded:
            return self._broken
        self._loaded = True
        found = keep.read(keep.state_directory() / "queries.json")
        if isinstance(found, keep.NotKept):
            self._broken = found.unread("the history is")
        if isinstance(found, list):
            self.history = [sql for sql in found if isinstance(sql, str)] + self.history
        return self._broken
