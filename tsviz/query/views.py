"""The documented views and macros over the recorded tables: one list makes the relations, `--tables` and docs/sql.md.

A view is asked as `FROM name`, a macro as `FROM name(arguments)`. Their SQL stands by theme in `shipped/`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache as kept

from tsviz.query.shipped.definition import Relation
from tsviz.trace.decided import DECIDED

from .shipped import admission, cache, device, pages, requests, retraction, rounds, stops, traffic, verdicts, waiting
from .words import Word, words

_THEMES = (verdicts, requests, waiting, rounds, pages, admission, retraction, cache, traffic, stops, device)
SHIPPED: tuple[Relation, ...] = tuple(relation for theme in _THEMES for relation in theme.RELATIONS)
"""All shipped relations; each may use the recorded tables and those before it."""


_WORD = re.compile(r"\w+")
_FROM = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)(?:(?:\s+\w+)?\s*,\s*(\w+))?", re.IGNORECASE)
"""What is read: behind FROM or JOIN, and behind the comma of a pair."""
_NULL = "null where decisions are not known"
"""What the text of a column says that is null without decisions; the rest of its relation holds without them."""


def _read(sql: str) -> set[str]:
    return {name.lower() for names in _FROM.findall(sql) for name in names}


@kept
def _decided() -> dict[str, frozenset[str]]:
    """Return relations that have no rows without decisions, and with their names columns that are null then."""
    found: dict[str, frozenset[str]] = dict.fromkeys(DECIDED, frozenset())
    for relation in SHIPPED:
        if not relation.says_more and not found.keys().isdisjoint(_read(relation.sql)):
            found[relation.name] = frozenset(name for name, doc in relation.columns if _NULL in doc)
    return found


def rounds_asked(sql: str) -> list[tuple[str, int]]:
    """Return the macros that a query asks of a round, and the round, where it stands there as a number."""
    found, told = [], words(sql)
    for index, word in enumerate(told):
        place = _ROUND_ARGUMENT.get(word.name)
        if place is None or not word.names or index + 1 == len(told) or told[index + 1].text != "(":
            continue
        arguments = _arguments(told[index + 2 :])
        given = arguments[place] if place < len(arguments) else []
        if given and given[-1].kind == "numeric_const" and given[-1].text.isdecimal() and len(given) in (1, 4):
            found.append((word.name, int(given[-1].text)))
    return found


_ROUND_ARGUMENT = {
    relation.name: place
    for relation in SHIPPED
    for place, name in enumerate(relation.parameters or ())
    if name.split()[0] == "at_round"
}
"""At which place a macro takes a round."""


def _arguments(behind: list[Word]) -> list[list[Word]]:
    """Return the words of each argument, up to the bracket that closes them."""
    found: list[list[Word]] = [[]]
    depth = 0
    for word in behind:
        if word.text == ")" and not depth:
            break
        depth += (word.text == "(") - (word.text == ")")
        if word.text == "," and not depth:
            found.append([])
        else:
            found[-1].append(word)
    return found


def decided_in(sql: str, columns: Iterable[str]) -> list[str]:
    """Return the relations of a query whose answer lacks rows or values where decisions are not known.

    `columns` are those of the answer: where only some columns of a relation come from decisions, one must be asked for.
    """
    named = _read(sql)
    asked = {word.lower() for word in _WORD.findall(sql)}.union(columns)
    return [name for name, some in _decided().items() if name in named and (not some or not some.isdisjoint(asked))]
