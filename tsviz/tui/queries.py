"""A query of the user as a stream: columns, batches, and behind them the total, or the problem.

It runs in the locked process of `tsviz.query.child`, with its limits; nothing of the engine is loaded before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tsviz.tui.grid import Columns

if TYPE_CHECKING:
    from tsviz.query.child import Answer

OPENER = "tsviz.replay.reexecution.index:open_indexed"


@dataclass(frozen=True, slots=True)
class Total:
    """How many rows were given, of how many: exactly, or at least."""

    rows: int
    of: int
    exact: bool


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no answer: what kind of thing went wrong, and where in the text."""

    kind: str
    message: str
    at: tuple[int, int] | None = None
    candidates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Saved:
    """A result was written to a file."""

    path: str
    rows: int


class Query:
    """One query over the bundles at some paths; at most `rows` rows of it. `check` says why it is refused."""

    def __init__(
        self, paths: tuple[str, ...], sql: str, rows: int | None, check: Callable[[], str] = lambda: ""
    ) -> None:
        self._paths, self._sql, self._rows = paths, sql, rows
        self._check = check
        self._answer: Answer | None = None
        self._cancelled = False

    def __iter__(self) -> Iterator[object]:
        """Ask, and yield what comes."""
        from tsviz.query.child import ask
        from tsviz.query.locked import Limits
        from tsviz.query.paths import bundles_of
        from tsviz.query.problem import QueryError

        try:
            if problem_now := self._check():
                yield Trouble("failed", problem_now)
                return
            with ask(bundles_of(self._paths), self._sql, Limits(rows=self._rows), OPENER) as answer:
                self._answer = answer
                if self._cancelled:
                    return
                yield from self._take(answer)
        except QueryError as error:
            problem = error.problem
            yield Trouble(problem.kind.value, problem.message, problem.at, problem.candidates)

    def _take(self, answer: Answer) -> Iterator[object]:
        schema = answer.schema
        yield Columns(tuple(schema.names), tuple(str(field.type) for field in schema))
        yield from answer
        total = answer.total
        assert total is not None
        yield Total(total.rows, total.of, total.exact)

    def cancel(self) -> None:
        """Stop the query."""
        self._cancelled = True
        if self._answer is not None:
            self._answer.cancel()


class Save(Query):
    """A query whose whole result goes to a new file, in the format that the ending names."""

    def __init__(self, paths: tuple[str, ...], sql: str, path: Path, check: Callable[[], str] = lambda: "") -> None:
        super().__init__(paths, sql, None, check)
        self._path = path

    def _take(self, answer: Answer) -> Iterator[object]:
        from tsviz.query.writing import Form, write_rows

        try:
            form = Form(self._path.suffix.removeprefix(".").lower())
        except ValueError:
            endings = ", ".join(f".{form.value}" for form in Form)
            yield Trouble("refused", f"{self._path}: expected a name that ends with {endings}")
            return
        try:
            with self._path.open("xb") as file:
                try:
                    write_rows(answer, form, file)
                except BaseException:
                    with suppress(OSError):
                        self._path.unlink()
                    raise
        except FileExistsError:
            yield Trouble("refused", f"{self._path} exists; nothing was written")
        except OSError as error:
            yield Trouble("failed", f"{self._path}: {error.strerror or error}")
        else:
            assert answer.total is not None
            yield Saved(str(self._path), answer.total.rows)
