"""Why a query gave no answer, as data: it crosses a pipe, reaches a screen, becomes an exit code (debugger.md, 7)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    """What went wrong; a command maps each to an exit code."""

    REFUSED = "refused"
    """The statement is none that may be asked; nothing ran."""
    FAILED = "failed"
    """The query is wrong: its text, a name in it, or a value on the way."""
    TIMEOUT = "timeout"
    """It ran past its time limit and was stopped."""
    MEMORY = "memory"
    """It asked for more memory than it may have."""
    CANCELLED = "cancelled"
    """The user stopped it."""
    TRACE = "trace"
    """The trace could not be opened or read."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One refusal or failure. `at` is (first character, characters) in the text of the query."""

    kind: Kind
    message: str
    at: tuple[int, int] | None = None
    candidates: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the problem as plain JSON values."""
        return {"kind": self.kind.value, "message": self.message, "at": self.at, "candidates": list(self.candidates)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Problem:
        """Read what `to_json` wrote; raises KeyError, TypeError or ValueError on anything else."""
        at = data["at"]
        return cls(
            Kind(data["kind"]),
            str(data["message"]),
            None if at is None else (int(at[0]), int(at[1])),
            tuple(str(c) for c in data["candidates"]),
        )


class QueryError(Exception):
    """Raised where a query gave no answer; carries the `Problem`."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


_OF_THE_ENGINE = re.compile(r"\W?(?:(?:pg|duckdb|sqlite|pragma)_|information_schema\b)")
"""Names of the engine's own catalogue: no help to who asks about a trace."""
_ARTICLE = re.compile(r"\bis not an (?=[^aeiou\W])", re.IGNORECASE)
_HINT = re.compile(r"\n(Candidate bindings: |Did you mean ).*", re.DOTALL)


def read_duckdb(error: BaseException, sql: str, *, shift_bytes: int = 0, cancelled: bool = False) -> Problem:
    """Turn an exception of DuckDB (or of an Arrow reader on it) into a problem.

    Positions come as byte offsets into the statement that ran, `shift_bytes` in front of `sql` (library-notes.md,
    "Error position").
    """
    text = str(error)
    head, brace, rest = text.partition("{")
    details: dict[str, Any] = {}
    if brace:
        try:
            details = json.loads("{" + rest)
        except ValueError:
            details = {}
    message = _ARTICLE.sub("is not a ", str(details.get("exception_message", text)))
    if text.startswith("INTERRUPT"):
        return Problem(Kind.CANCELLED if cancelled else Kind.TIMEOUT, "stopped" if cancelled else message)
    if isinstance(error, MemoryError) or text.startswith("Out of Memory"):
        return Problem(Kind.MEMORY, message.partition("\n")[0] or "out of memory")
    name = head.rstrip(": ") if details else ""
    near = tuple(c.strip() for c in str(details.get("candidates", "")).split(",") if c.strip())
    candidates = tuple(c for c in near if not _OF_THE_ENGINE.match(c))
    if near:
        message = _HINT.sub("", message)
    at = _characters(sql, str(details.get("location", "")), shift_bytes)
    return Problem(Kind.FAILED, f"{name}: {message}" if name else message, at, candidates)


def _characters(sql: str, location: str, shift_bytes: int) -> tuple[int, int] | None:
    """Turn "[offset,length]" in bytes into characters of `sql`; None if it points elsewhere (into a view)."""
    found = re.fullmatch(r"\[(\d+),(\d+)\]", location)
    if found is None:
        return None
    raw = sql.encode()
    start, length = int(found[1]) - shift_bytes, int(found[2])
    if not 0 <= start <= len(raw):
        return None
    first = len(raw[:start].decode(errors="ignore"))
    return first, max(1, len(raw[start : start + length].decode(errors="ignore")))
