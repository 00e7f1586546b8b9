"""What a report is made of: the questions it may ask, and what replay found (debugger.md, section 7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tsviz.query.catalog import literal
from tsviz.replay.findings.model import Checked
from tsviz.replay.lost.blame import Share

Row = dict[str, Any]
Ask = Callable[[str], list[Row]]
"""Answers a query over the relations of docs/sql.md with all its rows."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A trace to be reported: one bundle with all its parts."""

    trace: str
    """The trace as positions name it: the path that was given."""
    about: dict[str, Any]
    """What `replay.overview` says of the bundle."""
    ask: Ask
    parts: Sequence[SubjectPart]
    version: str
    """Of the tool."""


@dataclass(frozen=True, slots=True)
class SubjectPart:
    """One scheduler of the trace: its facts, its findings, and where its time went."""

    node: str
    rank: int
    checked: Sequence[Checked]
    shares: Sequence[Share]
    """Time by cause over all requests; empty where decisions are not known."""

    @property
    def name(self) -> str:
        """`node/rank`, as positions say it."""
        return f"{self.node}/{self.rank}"


class Source:
    """The relations of one part."""

    def __init__(self, subject: Subject, part: SubjectPart) -> None:
        """Questions about `part` alone."""
        self._ask = subject.ask
        self._place = f"node = {literal(part.node)} AND rank = {part.rank:d}"

    def rows(self, columns: str, relation: str, where: str = "true", behind: str = "") -> list[Row]:
        """Return `SELECT columns FROM relation` of this part; `behind` is what follows the condition."""
        return self._ask(f"SELECT {columns} FROM {relation} WHERE {self._place} AND ({where}) {behind}")

    def row(self, columns: str, relation: str, where: str = "true") -> Row:
        """Return the only row, or an empty one."""
        found = self.rows(columns, relation, where)
        return found[0] if found else {}

    def first(self, columns: str, relation: str, order: str) -> Row:
        """Return the first row in an order that has no ties, or an empty one."""
        found = self.rows(columns, relation, behind=f"ORDER BY {order} LIMIT 1")
        return found[0] if found else {}
