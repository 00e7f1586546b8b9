"""The documented views and macros over the recorded tables: one list makes the relations, `--tables` and docs/sql.md.

A view is asked as `FROM name`, a macro as `FROM name(arguments)`. Their SQL stands by theme in `shipped/`.
"""

from __future__ import annotations

from typing import Any

from tsviz.query.shipped.definition import Relation

from .shipped import admission, cache, pages, requests, retraction, rounds, stops, traffic, verdicts

_THEMES = (verdicts, requests, rounds, pages, admission, retraction, cache, traffic, stops)
SHIPPED: tuple[Relation, ...] = tuple(relation for theme in _THEMES for relation in theme.RELATIONS)
"""All shipped relations; each may use the recorded tables and those before it."""


def install(connection: Any) -> None:
    """Create the shipped relations as temporary ones of a connection on which the catalog is installed."""
    for relation in SHIPPED:
        connection.execute(relation.statement)
