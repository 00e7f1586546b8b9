"""A locked connection: one query, read only, capped, and it can be stopped (architecture.md, section 7).

The lock-down follows library-notes.md ("Lock-down") to the order of its settings. The type of a statement is no gate
(`WITH x AS (INSERT ...)` is a SELECT); the read-only transaction is. What no setting stops is one long scalar call
and the heaps of strings: for queries or traces that are not the user's own there is `child.py`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa

from .catalog import Catalog
from .problem import Kind, Problem, QueryError, read_duckdb
from .relations import Relations

_ALLOWED_TYPES = ("SELECT", "EXPLAIN", "MULTI")
_BATCH_ROWS = 65_536
_ERRORS = (duckdb.Error, OSError, MemoryError, pa.ArrowException)
"""What the engine and the Arrow reader on it raise (an interrupt inside a reader comes as OSError)."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a query may take."""

    memory_bytes: int = 1 << 30
    """Memory of the engine; in a child process twice this is the hard limit over what it starts with."""
    threads: int = 2
    seconds: float | None = 60.0
    """Wall-clock time, idle time of an open result included; in a child process the time waited for it."""
    rows: int | None = 10_000
    """Rows of the result; None for all."""
    count_rows: int = 1_000_000
    """How many rows behind the cap are counted, to say "n of m" rather than "more than n"."""


@dataclass(frozen=True, slots=True)
class Total:
    """How many rows were given, and of how many: exactly, or at least."""

    rows: int
    of: int
    exact: bool

    def __str__(self) -> str:
        if self.rows == self.of and self.exact:
            return f"{self.rows:,} row" + ("" if self.rows == 1 else "s")
        return f"{self.rows:,} of {'' if self.exact else 'more than '}{self.of:,} rows"


class Stream:
    """An open result: a schema, batches that add up to the cap at most, and behind them the total."""

    def __init__(self, reader: Any, limits: Limits, explained: Callable[[BaseException], Problem]) -> None:
        self.schema: pa.Schema = reader.schema
        self.total: Total | None = None
        """Set once the batches have been read."""
        self.left_out: list[Problem] = []
        """Nothing: what is open is whole (the answer of another process may be without some bundles)."""
        self._reader = reader
        self._limits = limits
        self._explained = explained

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        cap, given, counted, exact = self._limits.rows, 0, 0, True
        for batch in self._batches():
            counted += batch.num_rows
            wanted = batch.num_rows if cap is None else min(batch.num_rows, cap - given)
            if wanted:
                given += wanted
                yield batch.slice(0, wanted)
            if cap is not None and counted > cap + self._limits.count_rows:
                exact = False
                break
        # At the cut one row more is known to be there, but "more than" names a number of rows that were seen.
        self.total = Total(given, counted if exact else counted - 1, exact)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._reader
        except _ERRORS as error:
            raise QueryError(self._explained(error)) from error


def connect(limits: Limits) -> Any:
    """Return a DuckDB connection in memory, locked: no files, no network, no extensions, no settings."""
    connection = duckdb.connect()
    settings = (
        f"memory_limit='{max(limits.memory_bytes >> 10, 16 << 10)}KiB'",
        f"threads={limits.threads:d}",
        "temp_directory=''",
        "autoload_known_extensions=false",
        "autoinstall_known_extensions=false",
        "allow_community_extensions=false",
        "python_enable_replacements=false",
        "errors_as_json=true",
        f"max_execution_time={0 if limits.seconds is None else max(1, int(limits.seconds * 1000))}",
        "allowed_configs=['max_execution_time','enable_progress_bar','enable_progress_bar_print','progress_bar_time']",
        "enable_external_access=false",
        "lock_configuration=true",
    )
    for setting in settings:
        connection.execute("SET GLOBAL " + setting)
    return connection


class Locked:
    """A locked connection with a catalog on it. One query at a time; one `cursor()` for every thread.

    Errors are raised as `QueryError`; the connection stays usable behind every one of them.
    """

    def __init__(self, catalog: Catalog, limits: Limits | None = None) -> None:
        self._open(catalog, limits or Limits(), connect(limits or Limits()))

    def _open(self, catalog: Catalog, limits: Limits, connection: Any) -> None:
        self._catalog, self.limits, self._connection = catalog, limits, connection
        self._cancelled = threading.Event()
        self._relations = Relations(catalog, connection)
        for setting in ("enable_progress_bar=true", "enable_progress_bar_print=false", "progress_bar_time=0"):
            connection.execute("SET " + setting)

    def cursor(self) -> Locked:
        """Return another connection on the same engine and catalog, for another thread."""
        other = object.__new__(Locked)
        other._open(self._catalog, self.limits, self._connection.cursor())
        return other

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def interrupt(self) -> None:
        """Stop the query that runs, from any thread; it raises `QueryError` of kind CANCELLED.

        A query that is inside one long scalar call stops when the call ends.
        """
        self._cancelled.set()
        self._connection.interrupt()

    def progress(self) -> float | None:
        """Return how much of the running query is done, 0 to 100; None if the engine cannot tell."""
        percent = float(self._connection.query_progress())
        return None if percent < 0 else percent

    def query(self, sql: str) -> tuple[pa.Table, Total]:
        """Run one query and return its rows, capped, with the total."""
        with self.stream(sql) as stream:
            table = pa.Table.from_batches(list(stream), stream.schema)
            assert stream.total is not None
            return table, stream.total

    @contextmanager
    def stream(self, sql: str, limits: Limits | None = None) -> Iterator[Stream]:
        """Run one query and give its open result; close it by leaving the block.

        `limits` may say other numbers of rows than those of the connection.
        """
        self._cancelled.clear()
        self._check(sql)
        try:
            self._relations.make(sql)
        except _ERRORS as error:
            raise QueryError(read_duckdb(error, sql, cancelled=self._stopped)) from error
        failure: BaseException | None = None
        with self._reading():
            try:
                reader = self._connection.sql(sql).to_arrow_reader(_BATCH_ROWS)
            except _ERRORS as error:
                failure = error
            else:
                with reader:
                    yield Stream(
                        reader, limits or self.limits, lambda error: read_duckdb(error, sql, cancelled=self._stopped)
                    )
        if isinstance(failure, duckdb.CatalogException) and self._relations.make_all():  # a name that was not seen
            with self.stream(sql, limits) as stream:
                yield stream
        elif failure is not None:
            raise QueryError(self._located(failure, sql)) from failure

    @property
    def _stopped(self) -> bool:
        return self._cancelled.is_set()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            yield
        finally:
            self._connection.abort()
            with suppress(duckdb.Error):
                self._connection.execute("ROLLBACK")

    def _check(self, sql: str) -> None:
        """Refuse what is not one query. This keeps honest people from surprises; the transaction is the gate."""
        try:
            sql.encode()
        except UnicodeEncodeError as error:
            at = (error.start, error.end - error.start)
            raise QueryError(Problem(Kind.REFUSED, "the query holds what is no character of Unicode", at)) from error
        try:
            kinds = [statement.type.name for statement in self._connection.extract_statements(sql)]
        except ValueError as error:
            raise QueryError(Problem(Kind.REFUSED, "only a query can be asked: SELECT, FROM, WITH, ...")) from error
        except duckdb.Error as error:
            raise QueryError(read_duckdb(error, sql)) from error
        if not kinds:
            raise QueryError(Problem(Kind.REFUSED, "there is no query in the text"))
        if len(kinds) > 1:
            raise QueryError(Problem(Kind.REFUSED, f"one query at a time: the text holds {len(kinds)} statements"))
        if kinds[0] not in _ALLOWED_TYPES:
            raise QueryError(Problem(Kind.REFUSED, f"only a query can be asked: this is a statement {kinds[0]}"))

    def _located(self, error: BaseException, sql: str) -> Problem:
        """Return the problem; bind errors carry no position here, so they are provoked again with EXPLAIN."""
        problem = read_duckdb(error, sql, cancelled=self._stopped)
        if problem.kind is not Kind.FAILED or problem.at is not None:
            return problem
        try:
            with self._reading():
                self._connection.execute("EXPLAIN " + sql)
        except duckdb.Error as located:
            again = read_duckdb(located, sql, shift_bytes=len("EXPLAIN "))
            if type(located) is type(error) and not again.message.startswith("Parser"):
                return again
        return problem
