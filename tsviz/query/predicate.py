"""A predicate over the catalog as a query for positions: breakpoints and watches (debugger.md, section 2).

A predicate names its tables by qualifiers (`pool.available_blocks < 4`), or by columns that one table alone has. With
several tables, rows of one part and round go together, of one request where both name one. A whole query
(`SELECT round, stop ...`) is taken as it is.

Two tables are watched through more than they hold. `verdicts` are runs of rounds: a run is a hit once, in the first
round in which the predicate holds of it, and has `since_round` and `waited_rounds` besides its columns. `retractions`
are the times a request lost its pages, and have the victim as their `request` too; turns that gave nothing back, of
which the table has many more, are asked about by a predicate that names `outcome`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from itertools import pairwise

from tsviz.trace.catalogue import TABLES
from tsviz.trace.decided import DECIDED

from .catalog import PLACE, STATED
from .problem import Kind, Problem, QueryError
from .views import SHIPPED
from .waits import turning_points
from .words import Word, words

TYPES = {
    "trace": "VARCHAR", "node": "VARCHAR", "rank": "INTEGER", "round": "INTEGER", "stop": "INTEGER",
    "submission": "INTEGER", "request": "VARCHAR",
}  # fmt: skip
"""The columns of a position; all but `round` may be null."""
_ROUNDS = ("round", "since_round", "first_round")
"""Columns that say where a row belongs, best first."""
_WAITS = ("since_round", "waited_rounds")
_RUNS, _TURNS = "verdicts", "retractions"
_WATCHED = {
    _RUNS: '"verdict_rounds"',
    _TURNS: "(SELECT *, nullif(victim, '') AS request FROM retractions WHERE outcome = 'retracted')",
}
_EVERY_TURN = "(SELECT *, nullif(victim, '') AS request FROM retractions)"
_AT_POINTS = (
    "(SELECT *, since_round + waited_rounds - 1 AS round FROM (SELECT *, unnest(list_filter([{}],"
    " lambda w: w BETWEEN 1 AND rounds))::INTEGER AS waited_rounds FROM verdict_runs))"
)
_CHOICES = 8
_QUERY_WORDS = ("select", "from", "with")


@dataclass(frozen=True, slots=True)
class Positions:
    """The query that a predicate is."""

    sql: str
    """Rows of a position (`TYPES`), neither distinct nor sorted."""
    shift: int
    """How many characters stand in front of the predicate in `sql`."""
    needs_decisions: bool
    """Whether it reads decided tables: rounds whose decisions are not known have no hits."""


@cache
def watched() -> Mapping[str, tuple[str, ...]]:
    """Return the columns of every relation that a predicate can name: those whose rows have a round."""
    found = {name: (*PLACE, *table.names) for name, table in TABLES.items()}
    found |= {r.name: (*PLACE, *(name for name, _ in r.columns)) for r in SHIPPED if r.parameters is None}
    found[_RUNS] += _WAITS
    found[_TURNS] += ("request",)
    return {name: columns for name, columns in found.items() if any(c in columns for c in _ROUNDS)}


def positions(predicate: str) -> Positions:
    """Return the query that a predicate means. Raises `QueryError`, its place in the text of the predicate."""
    text = predicate.rstrip().removesuffix(";")
    found = words(text)
    if not found:
        raise QueryError(Problem(Kind.REFUSED, "there is no predicate in the text"))
    _check_brackets(found)
    if found[0].kind == "keyword" and found[0].name in _QUERY_WORDS:
        return _of_query(text, found)
    inner = [b.name for a, b in pairwise(found) if a.name in ("from", "join") and b.names]
    qualified = _qualified(found, inner)
    tables = list(dict.fromkeys(head.name for head, _ in qualified)) or [_only_table(found)]
    by_round = len(tables) > 1 or any(word.name in _WAITS for word in found)
    points = turning_points(found) if tables == [_RUNS] and not inner else None
    every_turn = any(word.name == "outcome" for word in found)
    head, tail = _around(tables, by_round=by_round, points=points, every_turn=every_turn)
    return Positions(f"{head}{text}\n{tail}", len(head), _reads_decisions((*tables, *inner)))


def _of_query(text: str, found: Sequence[Word]) -> Positions:
    """Take positions out of the rows of a query by the names of its columns; what it does not have is null."""
    nulls = ", ".join(f"NULL::{kind} AS {name}" for name, kind in TYPES.items())
    casts = ", ".join(f"{name}::{kind} AS {name}" for name, kind in TYPES.items())
    wanted = ", ".join(f"'{name}'" for name in (*TYPES, "_hit") if name != "round")
    head = (
        f"SELECT {casts} FROM (SELECT {nulls} WHERE false UNION ALL BY NAME SELECT _asked.round::INTEGER AS round,"
        f" COLUMNS(lambda c: c IN ({wanted})) FROM (SELECT *, true AS _hit FROM (\n"
    )
    return Positions(f"{head}{text}\n)) AS _asked)", len(head), _reads_decisions(word.name for word in found))


def _check_brackets(found: Sequence[Word]) -> None:
    """Refuse what would end the brackets in which the predicate is put, or ask a second thing."""
    opened: list[Word] = []
    for word in found:
        if word.kind != "operator":
            continue
        if word.text == "(":
            opened.append(word)
        elif word.text == ")" and opened:
            opened.pop()
        elif word.text == ")":
            raise QueryError(Problem(Kind.FAILED, "this bracket closes none that was opened", word.at))
        elif word.text == ";":
            raise QueryError(Problem(Kind.REFUSED, "one predicate at a time", word.at))
    if opened:
        raise QueryError(Problem(Kind.FAILED, "this bracket is not closed", opened[-1].at))


def _qualified(found: Sequence[Word], inner: Sequence[str]) -> list[tuple[Word, Word]]:
    """Return (table, column) of every qualified name, both known. `inner` are tables of subqueries."""
    pairs = []
    for index, (head, dot, column) in enumerate(zip(found, found[1:], found[2:], strict=False)):
        behind_dot = index > 0 and found[index - 1].text == "."
        if dot.text != "." or behind_dot or not (head.names and column.names) or head.name in inner:
            continue
        columns = watched().get(head.name)
        if columns is not None:
            if column.name not in columns:
                raise _unknown(f"{head.name} has no column {column.name}", column, columns)
            pairs.append((head, column))
        elif head.name in {t.name for t in STATED} | {r.name for r in SHIPPED} | set(TABLES):
            raise QueryError(Problem(Kind.FAILED, f"a predicate cannot name {head.name}: its rows have no round, or it"
                                     " takes arguments; ask a query, SELECT round ...", head.at))  # fmt: skip
        elif not inner and head.name not in _all_columns():
            raise _unknown(f"there is no table {head.name}", head, tuple(watched()))
    return pairs


def _only_table(found: Sequence[Word]) -> str:
    """Return the one table that has all the columns of a predicate without qualifiers."""
    following = [*(word.text for word in found[1:]), ""]
    bare = [w for w, behind in zip(found, following, strict=True) if w.kind == "identifier" and behind != "("]
    known = [word for word in bare if word.name in _all_columns()]
    if not known and bare:
        raise _unknown(f"no table has a column {bare[0].name}", bare[0], _all_columns())
    if not known:
        raise QueryError(Problem(Kind.FAILED, "the predicate names no column of a table"))
    having = [name for name, columns in watched().items() if all(word.name in columns for word in known)]
    if not having:
        names = ", ".join(dict.fromkeys(word.name for word in known))
        raise QueryError(Problem(Kind.FAILED, f"no table has all of {names}: name the tables", known[0].at))
    if _RUNS in having:
        having.remove("verdict_rounds")  # the same rounds, which `verdicts` watches already
    if len(having) > 1:
        choices = tuple(f"{name}.{known[0].name}" for name in having[:_CHOICES])
        message = f"{known[0].name} stands in {len(having)} tables: name the one that is meant"
        raise QueryError(Problem(Kind.FAILED, message, known[0].at, choices))
    return having[0]


def _around(
    tables: Sequence[str], *, by_round: bool, points: Sequence[str] | None, every_turn: bool
) -> tuple[str, str]:
    """Return what stands in front of the predicate and behind it; `points` are the only waits that matter."""
    sources = []
    for index, table in enumerate(tables):
        source = f'"{table}"' if table == _RUNS and not by_round else _WATCHED.get(table, f'"{table}"')
        if table == _RUNS and by_round and points is not None:
            source = _AT_POINTS.format(", ".join(points))
        if table == _TURNS and every_turn:
            source = _EVERY_TURN
        sources.append(f'{source} AS "{table}"' + (f" ON {_together(tables[: index + 1])}" if index else ""))
    columns = [f"{_of(tables[0], name)} AS {name}" for name in PLACE]
    columns.append(f"{_of(tables[0], _round(tables[0]))} AS round")
    runs = by_round and _RUNS in tables
    stopping = [table for table in tables if not (runs and table == _RUNS)]
    columns.append(f"{_first(stopping, 'stop')} AS stop")
    columns += [f"{_first(tables, name)} AS {name}" for name in ("submission", "request")]
    if runs:
        columns.append(f"{_of(_RUNS, 'since_round')} AS _since")
    head = f"SELECT {', '.join(columns)} FROM {' JOIN '.join(sources)} WHERE (\n"
    if not runs:
        return head, ")"
    run = "trace, node, rank, submission, request"
    first = f"SELECT {run}, min(round) AS round, arg_min(stop, round) AS stop FROM ("
    return first + head, f")) GROUP BY {run}, _since"


def _together(tables: Sequence[str]) -> str:
    """Return on what the last of the tables goes together with those in front of it."""
    first, last = tables[0], tables[-1]
    conditions = [f"{_of(last, name)} = {_of(first, name)}" for name in PLACE]
    conditions.append(f"{_of(last, _round(last))} = {_of(first, _round(first))}")
    for name in ("submission", "request"):
        other = [table for table in tables[:-1] if name in watched()[table]]
        if other and name in watched()[last]:
            return " AND ".join((*conditions, f"{_of(last, name)} = {_of(other[0], name)}"))
    return " AND ".join(conditions)


def _first(tables: Sequence[str], name: str) -> str:
    having = [_of(table, name) for table in tables if name in watched()[table]]
    if name == "stop" and len(having) > 1:
        return f"greatest({', '.join(having)})"
    return having[0] if having else f"NULL::{TYPES[name]}"


def _round(table: str) -> str:
    return next(name for name in _ROUNDS if name in watched()[table])


def _of(table: str, column: str) -> str:
    return f'"{table}"."{column}"'


@cache
def _all_columns() -> tuple[str, ...]:
    return tuple(dict.fromkeys(column for columns in watched().values() for column in columns))


@cache
def _deciding() -> frozenset[str]:
    """Return the relations that read decided tables and say nothing without them."""
    found = set(DECIDED)
    for relation in SHIPPED:
        if not relation.says_more and found & set(re.findall(r"(?:FROM|JOIN)\s+\(?(?:FROM\s+)?(\w+)", relation.sql)):
            found.add(relation.name)
    return frozenset(found)


def _reads_decisions(names: Iterable[str]) -> bool:
    return not _deciding().isdisjoint(names)


def _unknown(message: str, word: Word, known: Iterable[str]) -> QueryError:
    near = tuple(get_close_matches(word.name, known, 5))
    return QueryError(Problem(Kind.FAILED, message, word.at, near))
