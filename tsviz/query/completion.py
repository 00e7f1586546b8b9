"""What can stand at a place in a query (debugger.md, section 1, *SQL*).

The engine's own completion is an extension that is not shipped (library-notes.md). Any text can be completed, finished
or not; nothing runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from .vocabulary import Entry, vocabulary
from .words import Word, words

_MOST = 100
_BEGINNINGS = ("from", "select", "with", "describe", "summarize")
_SOURCE_WORDS = frozenset(("from", "join"))


@dataclass(frozen=True, slots=True)
class Completion:
    """What can stand in the place of `length` characters from `first` on, best first."""

    first: int
    length: int
    entries: tuple[Entry, ...]


def complete(text: str, cursor: int) -> Completion:
    """Return what can stand at `cursor` (in characters) in `text`, which need be no whole query.

    Nothing can stand inside a string or a comment.
    """
    cursor = max(0, min(cursor, len(text)))
    every = words(text, comments=True)
    before = [word for word in every if word.first < cursor]
    if before and before[-1].kind in ("string_const", "comment") and cursor <= _end(before[-1], text):
        return Completion(cursor, 0, ())
    before = [word for word in before if word.kind != "comment"]
    typed = before.pop() if before and before[-1].names and _end(before[-1], text) >= cursor else None
    part = "" if typed is None else text[typed.first : cursor]
    found = Completion(cursor - len(part), len(part), ())
    candidates = _candidates(before, [word for word in every if word.kind != "comment"], part)
    return Completion(found.first, found.length, tuple(_matching(candidates, part))[:_MOST])


def _candidates(before: Sequence[Word], every: Sequence[Word], part: str) -> Iterator[Entry]:
    """Yield what may stand behind the words before, most likely first."""
    known, named = vocabulary(), _sources(every)
    if before and before[-1].text == ".":
        head = before[-2].name if len(before) > 1 else ""
        yield from known.columns.get(named.get(head, head), ())
        return
    if not before:
        yield from _keywords(part, _BEGINNINGS)
        yield from known.relations.values()
    elif before[-1].kind in ("identifier", "numeric_const", "string_const") or before[-1].text == ")":
        yield from _keywords(part, known.keywords)
        return
    if _in_from(before):
        yield from (Entry("query", name, name, "", "a query of this text") for name in _given(every))
        yield from known.relations.values()
        yield from _keywords(part, known.keywords)
        return
    sources = list(dict.fromkeys(named.values()))
    shown: dict[str, Entry] = {}
    for relation in sources or known.columns:
        for column in known.columns.get(relation, ()):
            shown.setdefault(column.name, column)
    aliases = (
        Entry("query", alias, alias, "", f"{name} in this query") for alias, name in named.items() if alias != name
    )
    yield from (*shown.values(), *aliases)
    if not sources:
        yield from known.relations.values()
    yield from _keywords(part, known.keywords)
    yield from known.functions


def _sources(every: Sequence[Word]) -> dict[str, str]:
    """Return the relations of the text by the names they go by in it."""
    known, found = vocabulary(), {}
    for index, (before, word) in enumerate(pairwise(every)):
        if not (word.names and word.name in known.relations and (before.name in _SOURCE_WORDS or before.text == ",")):
            continue
        if before.text == "," and not _in_from(every[: index + 1]):
            continue
        found[word.name] = word.name
        rest = _behind_arguments(every[index + 2 :])
        if rest and rest[0].name == "as":
            rest = rest[1:]
        if rest and rest[0].kind == "identifier":
            found[rest[0].name] = word.name
    return found


def _behind_arguments(rest: Sequence[Word]) -> Sequence[Word]:
    """Skip the arguments of a macro."""
    if not rest or rest[0].text != "(":
        return rest
    depth = 0
    for index, word in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(word.text, 0)
        if depth == 0:
            return rest[index + 1 :]
    return ()


def _in_from(before: Sequence[Word]) -> bool:
    """Whether the next word names a relation: behind FROM or JOIN, or behind a comma of their list."""
    depth = 0
    for index, word in enumerate(reversed(before)):
        depth += {")": 1, "(": -1}.get(word.text, 0)
        if depth < 0:
            return False
        if depth:
            continue
        if word.name in _SOURCE_WORDS:
            return index == 0 or before[-1].text == ","
        if word.kind == "keyword" and word.name not in ("as", "lateral", "left", "right", "inner", "cross"):
            return False
    return False


def _given(every: Sequence[Word]) -> list[str]:
    """Return the names that WITH gives."""
    behind = zip(every, every[1:], every[2:], strict=False)
    return list(
        dict.fromkeys(a.text for a, b, c in behind if a.kind == "identifier" and b.name == "as" and c.text == "(")
    )


def _keywords(part: str, which: Iterable[str]) -> Iterator[Entry]:
    """Yield words of SQL in the case in which the part was typed."""
    small = part != part.upper()
    for word in which:
        yield Entry("keyword", word if small else word.upper(), word if small else word.upper(), "", "")


def _matching(candidates: Iterable[Entry], part: str) -> Iterator[Entry]:
    """Yield those that begin as the part does, then those of which another word does."""
    wanted = part.strip('"').lower()
    later, seen = [], set()
    for entry in candidates:
        name = entry.name.lower()
        if (entry.kind, name) in seen:
            continue
        seen.add((entry.kind, name))
        if name.startswith(wanted):
            yield entry
        elif f"_{wanted}" in name:
            later.append(entry)
    yield from later


def _end(word: Word, text: str) -> int:
    """Return the place behind a word; behind a string or comment that does not end, behind the text."""
    end = word.first + len(word.text)
    unended = word.kind == "comment" and word.text.startswith("--")
    if word.kind == "string_const":
        unended = len(word.text) < 2 or not word.text.endswith("'")
    return len(text) if unended and "\n" not in text[end:] else end
