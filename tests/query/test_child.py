"""The process that answers: what it gives back, and that nothing keeps it from ending."""

from __future__ import annotations

import hashlib
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from tsviz.query.child import ask
from tsviz.query.locked import Limits, Total
from tsviz.query.problem import Kind, Problem, QueryError

from .test_locked import ESCAPES
from .tiny import tiny

OPEN = "tests.query.fakes:open_folder"
ENDLESS = "WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) SELECT max(i) FROM r"


def _table(bundle: Path, sql: str, limits: Limits | None = None, opener: str = OPEN) -> tuple[pa.Table, Total | None]:
    with ask([str(bundle)], sql, limits, opener) as answer:
        table = pa.Table.from_batches(list(answer), answer.schema)
        return table, answer.total


def _problem(bundle: Path, sql: str, limits: Limits | None = None, opener: str = OPEN) -> Problem:
    with pytest.raises(QueryError) as caught:
        _table(bundle, sql, limits, opener)
    return caught.value.problem


def _digest(folder: Path) -> str:
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*")):
        digest.update(str(file).encode() + file.read_bytes() + str(file.stat().st_mtime_ns).encode())
    return digest.hexdigest()


def test_rows_come_back_with_their_types(bundle: Path) -> None:
    """Rows of the child equal those of the table: lists, nulls and 64-bit unsigned numbers too."""
    result, total = _table(bundle, "SELECT * EXCLUDE (trace, node, rank) FROM rounds ORDER BY round")
    assert result.to_pylist() == tiny()["rounds"].to_pylist()
    assert result.schema.field("digest_structural").type == pa.uint64()
    assert total == Total(6, 6, True)
    changes = _table(bundle, "SELECT pages FROM table_changes")[0]
    assert changes.column("pages").to_pylist() == tiny()["table_changes"].column("pages").to_pylist()


def test_an_empty_result_has_its_columns(bundle: Path) -> None:
    """A result without rows still says its columns."""
    result, total = _table(bundle, "SELECT round, request FROM operations WHERE false")
    assert (result.column_names, total) == (["round", "request"], Total(0, 0, True))


def test_a_result_over_many_batches(bundle: Path) -> None:
    """A result of 300,000 rows crosses the pipe whole, and capped on demand."""
    result, _ = _table(bundle, "SELECT range AS i FROM range(300000)", Limits(rows=None))
    assert result.column("i").to_pylist() == list(range(300_000))
    assert _table(bundle, "FROM range(300000)", Limits(rows=7))[1] == Total(7, 300_000, True)


@pytest.mark.parametrize("name", ["insert in with", "copy to", "read_text", "attach file", "set global"])
def test_an_escape_is_refused_and_the_bundle_stays(name: str, bundle: Path, tmp_path: Path) -> None:
    """An escape is an error through the child too; not a byte or time stamp of the bundle changes."""
    before = _digest(bundle)
    target = bundle / "rounds.parquet"
    sql = ESCAPES[name].replace("{file}", str(target)).replace("{folder}", str(tmp_path))
    assert _problem(bundle, sql).kind in (Kind.REFUSED, Kind.FAILED)
    assert _digest(bundle) == before


def test_an_error_keeps_its_place(bundle: Path) -> None:
    """A wrong column comes back with position and candidates."""
    problem = _problem(bundle, "SELECT rond FROM rounds")
    assert (problem.kind, problem.at) == (Kind.FAILED, (7, 4))
    assert "round" in problem.candidates


@pytest.mark.parametrize(
    ("sql", "memory_bytes"),
    [
        (ENDLESS, 1 << 30),
        # One call, which neither the engine's time limit nor an interrupt stops.
        ("SELECT list_sum(range(200000000))", 2 << 30),
    ],
)
def test_a_query_that_will_not_stop_is_stopped(sql: str, memory_bytes: int, bundle: Path) -> None:
    """A query past its time is stopped, also inside one long call, and its process is gone."""
    limits = Limits(seconds=2, memory_bytes=memory_bytes)
    assert _problem(bundle, sql, limits) == Problem(Kind.TIMEOUT, "stopped after 2 s")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT length(repeat('ab', 1000000000))",
        "SELECT repeat('ab', 1000000000) FROM range(10)",
        "SELECT list_sum(range(1000000000))",
        "SELECT list(i) FROM range(1000000000) t(i)",
    ],
)
def test_a_memory_bomb_does_not_take_the_machine(sql: str, bundle: Path) -> None:
    """A query that wants gigabytes of strings or lists ends with kind MEMORY under a limit of 128 MiB."""
    assert _problem(bundle, sql, Limits(memory_bytes=128 << 20)).kind is Kind.MEMORY


def test_a_bundle_that_cannot_be_opened(bundle: Path) -> None:
    """What the opener raises is a problem of the trace and names the path."""
    problem = _problem(bundle / "missing", "FROM rounds")
    assert problem.kind is Kind.TRACE
    assert str(bundle / "missing") in problem.message


def test_an_opener_that_is_none(bundle: Path) -> None:
    """Only module:name is imported."""
    assert _problem(bundle, "FROM rounds", opener="os.system('true')").kind is Kind.TRACE


def test_opening_that_does_not_end_is_stopped(bundle: Path) -> None:
    """The time limit covers the opening of the trace."""
    assert _problem(bundle, "FROM rounds", Limits(seconds=1), "tests.query.fakes:open_never").kind is Kind.TIMEOUT


def test_a_process_that_dies_is_told(bundle: Path) -> None:
    """A crash of the child is an error that names the signal; the parent goes on."""
    problem = _problem(bundle, "FROM rounds", opener="tests.query.fakes:open_dying")
    assert "SIGABRT" in problem.message


def test_a_process_that_is_killed_is_not_said_to_lack_memory(bundle: Path) -> None:
    """SIGKILL from outside is named as that; only bad_alloc, MemoryError or the engine itself speak of memory."""
    problem = _problem(bundle, "FROM rounds", opener="tests.query.fakes:open_killed")
    assert problem == Problem(Kind.FAILED, "the query process was killed from outside (signal SIGKILL)")


def test_noise_on_standard_output_harms_nothing(bundle: Path) -> None:
    """What a library prints while opening does not mix with the result."""
    assert _table(bundle, "FROM rounds", opener="tests.query.fakes:open_noisy")[0].num_rows == 6


def test_cancel_ends_the_process(bundle: Path) -> None:
    """A query that is cancelled from another thread raises CANCELLED, and its process is gone."""
    with ask([str(bundle)], ENDLESS, opener=OPEN) as answer:
        timer = threading.Timer(0.5, answer.cancel)
        timer.start()
        with pytest.raises(QueryError) as caught:
            list(answer)
        timer.join()
        assert caught.value.problem.kind is Kind.CANCELLED
        assert answer._process.poll() is not None


def test_leaving_the_block_ends_the_process(bundle: Path) -> None:
    """Whoever stops reading leaves no process behind."""
    with ask([str(bundle)], "FROM range(100000000)", Limits(rows=None), OPEN) as answer:
        next(iter(answer))
        process = answer._process
    assert process.poll() is not None


def test_a_slow_reader_is_not_late(bundle: Path) -> None:
    """Time that the reader takes between batches does not count against the query."""
    start = time.monotonic()
    with ask([str(bundle)], "FROM range(300000)", Limits(rows=None), OPEN) as answer:
        for _ in answer:
            time.sleep(0.1)  # 5 batches: 0.5 s in all
        assert answer.waited_seconds <= time.monotonic() - start - 0.5


def test_a_parent_that_dies_takes_the_child_along(bundle: Path) -> None:
    """When its standard input ends the child ends, whatever its query does."""
    with ask([str(bundle)], ENDLESS, opener=OPEN) as answer:
        process = answer._process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(timeout=60) == 1
