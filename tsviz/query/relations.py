"""The relations of a connection, made when a query names them.

Binding all of them takes longer than most queries do. A relation is made with what it reads, in the order in which the
catalog and the views have them; what is no name of one costs nothing. A query that lists relations, or whose names are
nowhere to be read in its text, gets all of them.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from tsviz.trace.catalogue import TABLES

from .catalog import Catalog
from .parts import GROUPS, PARTS
from .views import SHIPPED

_WORD = re.compile(r"\w+")
_STATEMENTS = {relation.name: relation.statement for relation in SHIPPED}
_ORDER = (*TABLES, GROUPS.name, PARTS.name, *_STATEMENTS)
_LISTING = re.compile(r"\b(?:duckdb_|pg_|information_schema\b|sqlite_|show\b|pragma\b)", re.IGNORECASE)
"""What asks which relations there are."""


def _words(sql: str) -> set[str]:
    return set(_WORD.findall(sql.lower()))


@cache
def _read_by() -> dict[str, frozenset[str]]:
    """Return, by relation, itself and what is read through it."""
    found = {name: frozenset({name}) for name in (*TABLES, GROUPS.name)}
    found[PARTS.name] = frozenset({PARTS.name, "rounds"})
    for relation in SHIPPED:
        behind = [found[name] for name in _words(relation.sql) & found.keys()]
        found[relation.name] = frozenset({relation.name}).union(*behind)
    return found


class Relations:
    """Which relations of a catalog there are on a connection."""

    def __init__(self, catalog: Catalog, connection: Any) -> None:
        """None yet."""
        self._catalog, self._connection = catalog, connection
        self._made: set[str] = set()

    def make(self, sql: str) -> None:
        """Make what a query reads."""
        if _LISTING.search(sql):
            self.make_all()
            return
        read_by = _read_by()
        self._make(frozenset().union(*(read_by[name] for name in _words(sql) & read_by.keys())))

    def make_all(self) -> bool:
        """Make what is not there yet; return whether anything was missing."""
        missing = len(self._made) < len(_ORDER)
        self._make(frozenset(_ORDER))
        return missing

    def _make(self, names: frozenset[str]) -> None:
        for name in _ORDER if names - self._made else ():
            if name in names and name not in self._made:
                if name in _STATEMENTS:
                    self._connection.execute(_STATEMENTS[name])
                else:
                    self._catalog.install(self._connection, name)
                self._made.add(name)
