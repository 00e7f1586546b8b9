"""A predicate from the words of a command line: a named finding, or SQL over the catalog of the run."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked
from tsviz.query.problem import Kind, Problem, QueryError

from .predicates import NAMED, Absent, Finding, Outcome, Predicate, Tables, named_predicate

_NAMED = re.compile(r"\s*([a-z_]+)\s*(?:>\s*(\d{1,9}))?\s*")
_LIMITS = Limits(memory_bytes=1 << 29, threads=1, seconds=20.0, rows=2)


@dataclass(frozen=True, slots=True)
class _Run:
    """One part as the catalog takes a bundle."""

    name: str
    parts: tuple[Tables, ...]


class UnknownFinding(Exception):
    """The text is one word, and no finding has that name; the message lists those there are."""


def parse_predicate(text: str) -> Predicate:
    """Return what `NAME`, `NAME>N` or an SQL condition means. SQL is asked when a run is judged.

    Raises UnknownFinding.
    """
    found = _NAMED.fullmatch(text)
    if found is None:
        return Predicate(text, lambda part: _ask(part, text))
    name, threshold = found[1], found[2]
    if name not in NAMED:
        near = get_close_matches(name, NAMED, 1)
        hint = f"; did you mean {near[0]}" if near else ""
        raise UnknownFinding(f"no finding {name!r}: there are {', '.join(NAMED)}, and SQL conditions{hint}")
    return named_predicate(name, None if threshold is None else int(threshold))


def _ask(part: Tables, condition: str) -> Outcome:
    """Judge a run by an SQL condition: one value that is true. Raises QueryError."""
    locked = Locked(Catalog([_Run("run", (part,))]), _LIMITS)
    try:
        table, _ = locked.query(f"SELECT ({condition}\n) AS holds")
    finally:
        locked.close()
    values = table.column(0).to_pylist()
    if len(values) != 1 or values[0] not in (True, False, None):
        shown = f"{len(values)} rows" if len(values) != 1 else repr(values[0])[:60]
        raise QueryError(Problem(Kind.FAILED, f"the condition must be true or false, found {shown}"))
    if not values[0]:
        return Absent("condition", 0, 0)
    last = max(1, part.table("rounds").num_rows)
    return Finding("condition", f"the condition holds: {condition}", 1, last, (), last)
