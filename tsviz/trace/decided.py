"""The decided tables, made from the scheduler's decision dataclasses (architecture.md, section 5, *Decided*).

A table is a dataclass of `tsviz.scheduler.decisions`: its fields are the columns, its docstrings the reference. In
front stand `round`, `stop` and `item` (order inside the round); a field that names a request loses its `_id`, and the
request of the row also gets its `submission`. `verdicts` are runs: a row holds until the request's next one.
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter, itemgetter
from typing import Any, get_type_hints

from tsviz.scheduler import decisions as d

from .builder import TableBuilder
from .columns import Column, Table, by_name, flag, i32, ints, word

NAMES: dict[type, str] = {
    d.Phase: "phases",
    d.Candidate: "candidates",
    d.Attempt: "attempts",
    d.Iteration: "retractions",
    d.Grant: "grants",
    d.StateChange: "states",
    d.Verdict: "verdicts",
    d.TierMatch: "matches",
    d.Chunk: "chunks",
    d.Reserve: "reserves",
    d.Refused: "refusals",
    d.Admitted: "admissions",
    d.Hold: "holds",
    d.Blocker: "blockers",
    d.Victim: "victims",
    d.Readmission: "readmissions",
    d.Publication: "publications",
    d.Reclaim: "reclaims",
    d.Eviction: "evictions",
    d.Transfer: "tickets",
    d.Pool: "pool",
}
"""Table of each kind of decision."""

_KEY = (
    i32("round", "number of the plan; between plans that of the last one"),
    i32("stop", "number of the stop in its round"),
    i32("item", "order inside the round, from 0"),
)


def _documentation() -> dict[str, tuple[str, dict[str, str]]]:
    """Return, per class of the decisions module, its docstring and those of its fields, read from its source."""
    found: dict[str, tuple[str, dict[str, str]]] = {}
    for node in ast.parse(inspect.getsource(d)).body:
        if isinstance(node, ast.ClassDef):
            documented: dict[str, str] = {}
            for field, text in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and _is_text(text):
                    documented[field.target.id] = ast.literal_eval(text.value)  # type: ignore[attr-defined]
            found[node.name] = (ast.get_docstring(node) or "", documented)
    return found


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _sentence(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


_RENAMED = {"rank": "choice"}
"""Fields whose name is taken by a column that every table has."""


def _name(field: str, kind: Any) -> str:
    """Return the column of a field: one that names a request loses its `_id`."""
    return field.removesuffix("_id") if kind is str else _RENAMED.get(field, field)


def _column(name: str, kind: Any, doc: str) -> Column:
    if kind is str:
        return word(_name(name, kind), doc)
    if kind is bool:
        return flag(name, doc)
    if kind is int:
        return i32(_name(name, kind), doc)
    return ints(name, doc)


def _table(cls: type, name: str, documentation: dict[str, tuple[str, dict[str, str]]]) -> Table:
    doc, documented = documentation[cls.__name__]
    hints = get_type_hints(cls)
    columns = list(_KEY)
    for field in fields(cls):
        said = _sentence(documented.get(field.name, field.name.removesuffix("_id").replace("_", " ")))
        columns.append(_column(field.name, hints[field.name], said))
        if field.name == "request_id":
            columns.append(i32("submission", "number of that request in order of submission"))
    return Table(name, _sentence(doc).removeprefix("Stop: "), tuple(columns))


DECIDED = by_name(_table(cls, name, _documentation()) for cls, name in NAMES.items())
"""The decided tables by name."""


_HELD_DECISIONS = 1 << 12
"""More held at once would be walked by the garbage collector again and again."""


class DecisionRows:
    """Gathers decisions and turns them into rows of their tables, a column at a time; a cell is far dearer."""

    __slots__ = ("_held", "_item", "_round", "_settlers", "_submission", "count")

    def __init__(self, builders: dict[str, TableBuilder], submission: Callable[[str], int]) -> None:
        """`submission` says which submission a request id names now."""
        self._submission = submission
        self._round, self._item = -1, 0
        self.count = 0
        """Decisions that wait for `settle`."""
        self._held: dict[type, list[tuple[int, int, int, int, Any]]] = {cls: [] for cls in NAMES}
        self._settlers: dict[type, list[tuple[Callable[[Any], Any], Callable[[Any], None]]]] = {}
        for cls, name in NAMES.items():
            columns, hints = builders[name].columns, get_type_hints(cls)
            self._settlers[cls] = [
                (attrgetter(field.name), columns[_name(field.name, hints[field.name])].extend_any)
                for field in fields(cls)
            ]
            keys = [columns[key.name].extend for key in _KEY]
            keys += [columns["submission"].extend] if "submission" in columns else []
            self._settlers[cls] += [(itemgetter(place), extend) for place, extend in enumerate(keys)]

    def follow(self, before: DecisionRows) -> None:
        """Go on numbering where another one is, of the segment in front of this one's."""
        self._round, self._item = before._round, before._item

    def add(self, round_: int, stop: int, decision: Any) -> None:
        """Take one decision, taken now: its request id names the submission that it names at this point."""
        if round_ != self._round:
            self._round, self._item = round_, 0
        request = getattr(decision, "request_id", None)
        submission = -1 if request is None else self._submission(request)
        self._held[type(decision)].append((round_, stop, self._item, submission, decision))
        self._item += 1
        self.count += 1
        if self.count == _HELD_DECISIONS:
            self.settle()

    def settle(self) -> None:
        """Append what was taken to the builders."""
        for cls, rows in self._held.items():
            if rows:
                decisions = [row[4] for row in rows]
                for read, extend in self._settlers[cls]:
                    extend(list(map(read, rows if isinstance(read, itemgetter) else decisions)))
                rows.clear()
        self.count = 0
