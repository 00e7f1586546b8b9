"""What a locked connection refuses, stops and caps."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tsviz.query.catalog import Catalog
from tsviz.query.locked import Limits, Locked, Total
from tsviz.query.problem import Kind, Problem, QueryError, read_duckdb

from .fakes import FakeBundle, FakePart
from .tiny import tiny

ESCAPES = {
    "insert in with": "WITH x AS (INSERT INTO secret VALUES (2) RETURNING i) FROM x",
    "update in with": "WITH x AS (UPDATE secret SET i = 9 RETURNING i) FROM x",
    "delete in with": "WITH x AS (DELETE FROM secret RETURNING i) FROM x",
    "insert in with into a relation": "WITH x AS (INSERT INTO rounds VALUES (1) RETURNING 1) FROM x",
    "explain analyze delete": "EXPLAIN ANALYZE DELETE FROM secret",
    "explain analyze drop": "EXPLAIN ANALYZE DROP TABLE secret",
    "explain analyze copy": "EXPLAIN ANALYZE COPY (SELECT 1) TO '{file}'",
    "insert": "INSERT INTO secret VALUES (2)",
    "delete": "DELETE FROM secret",
    "copy to": "COPY (SELECT 1) TO '{file}'",
    "copy from": "COPY secret FROM '{file}'",
    "export": "EXPORT DATABASE '{folder}'",
    "import": "IMPORT DATABASE '{folder}'",
    "attach file": "ATTACH '{file}' AS other",
    "attach memory": "ATTACH ':memory:' AS other",
    "detach": "DETACH memory",
    "install": "INSTALL httpfs",
    "load": "LOAD json",
    "load file": "LOAD '{file}'",
    "update extensions": "UPDATE EXTENSIONS",
    "pragma": "PRAGMA memory_limit='10GB'",
    "pragma function": "PRAGMA version",
    "set": "SET memory_limit='10GB'",
    "set global": "SET GLOBAL enable_external_access=true",
    "set allowed": "SET max_execution_time=0",
    "set variable": "SET VARIABLE x = 1",
    "set schema": "SET schema='temp'",
    "reset": "RESET memory_limit",
    "create table": "CREATE TABLE t AS SELECT 1",
    "create temp table": "CREATE TEMP TABLE t AS SELECT 1",
    "create macro": "CREATE MACRO f(x) AS x",
    "create view": "CREATE VIEW v AS SELECT 1",
    "create secret": "CREATE SECRET s (TYPE S3)",
    "drop view": "DROP VIEW rounds",
    "alter": "ALTER TABLE secret ADD COLUMN j INT",
    "alter database": "ALTER DATABASE memory SET ALIAS TO other",
    "read_csv": "FROM read_csv('{file}')",
    "read_parquet": "FROM read_parquet('{file}')",
    "read_text": "FROM read_text('{file}')",
    "read_blob": "FROM read_blob('{file}')",
    "read_json": "FROM read_json('{file}')",
    "glob": "FROM glob('{folder}/*')",
    "sniff_csv": "FROM sniff_csv('{file}')",
    "file as table": "FROM '{file}'",
    "file as quoted table": 'FROM "{file}"',
    "url": "FROM 'https://example.org/x.csv'",
    "getenv": "SELECT getenv('HOME')",
    "two statements": "SELECT 1; SELECT 2",
    "smuggled second": "SELECT 1; DROP TABLE secret",
    "prepare": "PREPARE p AS SELECT 1",
    "execute": "EXECUTE p",
    "call": "CALL pragma_version()",
    "use": "USE temp",
    "begin": "BEGIN TRANSACTION",
    "commit": "COMMIT",
    "checkpoint": "CHECKPOINT",
    "vacuum": "VACUUM",
    "python variable": "FROM hidden_variable",
    "extensions": "FROM duckdb_extensions()",
    "logging": "CALL enable_logging()",
    "arrow pointers": "FROM arrow_scan(1, 2, 3)",
    "pandas pointers": "FROM pandas_scan(1)",
    "nothing": " -- a comment",
}


@pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES.keys())
def test_an_escape_is_refused(escape: str, tmp_path: Path) -> None:
    """A statement that writes, reads files, sets, installs or attaches is an error and leaves everything as it was."""
    hidden_variable = tiny()["rounds"]
    assert hidden_variable.num_rows
    file = tmp_path / "data.csv"
    file.write_text("i\n1\n")
    locked = Locked(Catalog([FakeBundle("t", [FakePart(tiny())])]))
    locked._connection.execute("CREATE TABLE secret AS SELECT 1 AS i")
    with pytest.raises(QueryError) as caught:
        locked.query(escape.replace("{file}", str(file)).replace("{folder}", str(tmp_path)))
    assert caught.value.problem.kind in (Kind.REFUSED, Kind.FAILED)
    assert locked.query("FROM secret")[0].to_pylist() == [{"i": 1}]
    assert locked.query("FROM rounds")[0].num_rows == 6
    assert [p.name for p in tmp_path.iterdir()] == ["data.csv"]
    assert file.read_text() == "i\n1\n"


@pytest.mark.parametrize(
    "sql",
    [
        "FROM rounds",
        "(SELECT 1)",
        "VALUES (1)",
        "TABLE rounds",
        "SELECT 1;",
        "WITH x AS (SELECT 1) FROM x",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE SELECT 1",
        "DESCRIBE rounds",
        "SUMMARIZE rounds",
        "SHOW TABLES",
        "PIVOT operations ON kind USING count(*) GROUP BY round",
        "SELECT list_transform([1, 2], lambda x: x + 1)",
    ],
)
def test_a_query_of_any_form_is_answered(sql: str, locked: Locked) -> None:
    """Every statement that only reads is answered, pivots and explanations too."""
    assert locked.query(sql)[0].num_rows


def _problem(locked: Locked, sql: str) -> Problem:
    with pytest.raises(QueryError) as caught:
        locked.query(sql)
    return caught.value.problem


def test_an_error_points_at_its_place(locked: Locked) -> None:
    """A wrong column is named with its place in characters and the columns that it may have meant."""
    problem = _problem(locked, "SELECT 'é', rond FROM rounds")
    assert problem.at == (12, 4)
    assert "round" in problem.candidates
    assert 'Referenced column "rond" not found' in problem.message


def test_a_wrong_table_and_a_syntax_error_point_too(locked: Locked) -> None:
    """A wrong table suggests the right one; a syntax error points at the word."""
    assert _problem(locked, "FROM operatons").candidates == ("operations",)
    assert _problem(locked, "SELECT 1 FORM rounds").at == (14, 6)


def test_no_table_of_the_engine_is_suggested_and_the_article_is_right(locked: Locked) -> None:
    """A file's name is near to pg_class alone, which is no table of a trace; a view is "not a table"."""
    problem = _problem(locked, "FROM '/etc/passwd'")
    assert problem.candidates == ()
    assert "pg_class" not in problem.message
    assert read_duckdb(ValueError("waits is not an table"), "").message == "waits is not a table"


def test_an_error_in_the_data_is_told(locked: Locked) -> None:
    """A value that cannot be cast is a failure that quotes the value."""
    assert "'prefill'" in _problem(locked, "SELECT kind::INTEGER FROM operations").message


def test_the_connection_is_usable_behind_an_error(locked: Locked) -> None:
    """An error inside a query leaves the connection ready for the next."""
    for sql in ("FROM nowhere", "SELECT error('boom')", "COMMIT"):
        _problem(locked, sql)
        assert locked.query("SELECT 1 AS one")[0].to_pylist() == [{"one": 1}]


@pytest.mark.parametrize(
    ("rows", "there", "total", "text"),
    [
        (5, 3, Total(3, 3, True), "3 rows"),
        (5, 1, Total(1, 1, True), "1 row"),
        (5, 5, Total(5, 5, True), "5 rows"),
        (5, 1_000, Total(5, 1_000, True), "5 of 1,000 rows"),
        (None, 1_000, Total(1_000, 1_000, True), "1,000 rows"),
    ],
)
def test_a_result_is_capped(rows: int | None, there: int, total: Total, text: str) -> None:
    """A result holds the cap at most and says of how many."""
    locked = Locked(Catalog([]), Limits(rows=rows))
    result, found = locked.query(f"FROM range({there})")
    assert (found, str(found), result.num_rows) == (total, text, total.rows)


def test_counting_behind_the_cap_ends_too() -> None:
    """Behind so many rows more, the total says "more than"."""
    locked = Locked(Catalog([]), Limits(rows=5, count_rows=10))
    result, total = locked.query("FROM range(1000000)")
    assert (result.num_rows, total.rows, total.exact) == (5, 5, False)
    assert 15 <= total.of < 1_000_000
    assert str(total).startswith("5 of more than ")


def test_a_query_that_does_not_end_is_stopped() -> None:
    """A recursion without an end is stopped at the time limit."""
    locked = Locked(Catalog([]), Limits(seconds=0.2))
    problem = _problem(locked, "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r")
    assert problem.kind is Kind.TIMEOUT


def test_memory_is_bounded() -> None:
    """A list that outgrows the limit is an error of kind MEMORY."""
    locked = Locked(Catalog([]), Limits(memory_bytes=64 << 20))
    assert _problem(locked, "SELECT list(i) FROM range(100000000) t(i)").kind is Kind.MEMORY


def test_a_query_can_be_cancelled_from_another_thread(locked: Locked) -> None:
    """An interrupt ends the running query with kind CANCELLED, and the next one runs."""
    timer = threading.Timer(0.2, locked.interrupt)
    timer.start()
    problem = _problem(locked, "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r")
    timer.join()
    assert problem.kind is Kind.CANCELLED
    assert locked.query("SELECT 1")[0].num_rows == 1


def test_cursors_answer_at_the_same_time(locked: Locked) -> None:
    """A cursor sees the catalog and answers while another query's result is open; it is locked alike."""
    cursor = locked.cursor()
    with locked.stream("FROM rounds") as stream:
        assert cursor.query("SELECT count(*) AS n FROM requests")[0].to_pylist() == [{"n": 4}]
        assert sum(batch.num_rows for batch in stream) == 6
    assert _problem(cursor, "SET threads=8").kind is Kind.REFUSED


def test_an_error_of_the_reader_passes_through(locked: Locked) -> None:
    """What the user of an open result raises stays what it is."""
    with pytest.raises(BrokenPipeError), locked.stream("FROM rounds"):
        raise BrokenPipeError


def test_a_problem_crosses_a_pipe() -> None:
    """A problem survives JSON."""
    problem = Problem(Kind.FAILED, "no", (3, 4), ("a", "b"))
    assert Problem.from_json(problem.to_json()) == problem


def test_what_is_no_text_is_refused(locked: Locked) -> None:
    """A lone surrogate is no character: it is refused at its place and does not reach the engine."""
    with pytest.raises(QueryError) as caught:
        locked.query("SELECT '\udcc3'")
    assert (caught.value.problem.kind, caught.value.problem.at) == (Kind.REFUSED, (8, 1))
